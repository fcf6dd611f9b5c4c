package state

import (
	"context"
	"fmt"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/model"
)

// Scorer is a reward model beside a run, on the device of its first stage: it gives scores of so many rows at once, of at most so many tokens.
type Scorer struct {
	Definition   model.Definition
	Rows, Window int
	kept         []string // parameters that are kept as its base is
	dtype        buffers.DType
}

// NewScorer is a scorer of these weights.
func NewScorer(def model.Definition, weights *model.Stored, rows, window int) (Scorer, error) {
	kept, dtype, err := keptAs(def, weights)
	return Scorer{Definition: def, Rows: rows, Window: window, kept: kept, dtype: dtype}, err
}

// keptAs is the type in which devices keep what a model has from its base, and which parameters these are. Where that is f32, as all else is, they are
// the tables, which the host keeps.
func keptAs(def model.Definition, weights *model.Stored) (kept []string, dtype buffers.DType, err error) {
	if b := weights.Base(); b != nil {
		if dtype, err = b.Kept(); err != nil || dtype != buffers.F32 {
			return weights.LeftOut(), dtype, err
		}
	}
	for _, p := range def.Params() {
		if p.Table {
			kept = append(kept, p.Path)
		}
	}
	return kept, buffers.F32, nil
}

// Bytes is what the scorer takes of a device.
func (s Scorer) Bytes(ctx context.Context, on *gpu.Device) (uint64, error) {
	dev, c := on.AsDry(), Config{Definition: s.Definition, Frozen: s.kept, FrozenDType: s.dtype}
	own, rest, err := Job{c}.layouts(dev.Limits())
	if err != nil {
		return 0, err
	}
	params, err := buffers.NewTree(dev, "params", own, buffers.F32)
	if err != nil {
		return 0, err
	}
	var frozen *buffers.Tree
	if rest != nil {
		if frozen, err = buffers.NewTree(dev, frozenLabel, rest, s.dtype); err != nil {
			return 0, err
		}
	}
	if err := borrowing(s.Definition, params, frozen, s.Window).passes.prepareScores(ctx, s.Rows, min(ScoredTokens(s.Window), s.Definition.Context())); err != nil {
		return 0, err
	}
	return dev.Counters().LiveBytes, nil
}

// ScorerBytes is what the reward models of the run take of the device of its first stage: the first replica has them.
func (j Job) ScorerBytes(ctx context.Context, dev *gpu.Device) (sum uint64, err error) {
	if replica, _ := j.replicas(); replica > 0 {
		return 0, nil
	}
	for i, s := range j.Scorers {
		bytes, err := s.Bytes(ctx, dev)
		if err != nil {
			return 0, fmt.Errorf("reward model %d: %w", i, err)
		}
		sum += bytes
	}
	return sum, nil
}
