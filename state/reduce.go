package state

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/model"
)

// Reducer adds up what the replicas of Config.Mesh have computed, each of its Share of the microbatches of every update. It stands between the passes
// of an update and the update itself, which every replica then makes of the same gradients. All replicas make the same calls in the same order.
//
// Any number of replicas has the bits of one replica that computes all microbatches.
type Reducer interface {
	// Sum adds up the partial sums of all replicas as Fold says, and leaves the sum over all microbatches of the update in every replica's gradients, a
	// tree for each stage. own are this replica's: the nodes of its Share (Span.Nodes), with a tree for each stage; none where its share is
	// empty. The trees of the last are grads, and all may be overwritten. The devices may still be computing them. Where the layouts of the
	// trees have a group of leaves for each replica, it needs the sum of its own group alone.
	Sum(ctx context.Context, grads []*buffers.Tree, own []Partial) error
	// GatherTrees gives every replica the leaves of each group of the trees' layouts from the replica whose group it is. Layouts are alike on
	// all replicas.
	GatherTrees(ctx context.Context, trees []*buffers.Tree) error
}

// losses is how many losses an update has, of the microbatches of all replicas.
func (j Job) losses() int { return max(j.Microbatches, 1) }

// countAll is what counts in an update, of which own is this replica's; nothing is an error.
func (s *TrainState) countAll(ctx context.Context, own model.Counts) (sum model.Counts, err error) {
	if !s.job.joined() {
		return own, nil // countLabels has refused none
	}
	all, err := s.gather(ctx, binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, uint64(own.Of)), uint64(own.Labels)))
	if err != nil {
		return sum, fmt.Errorf("reduce: tokens: %w", err)
	}
	for _, one := range all {
		sum.Of += int64(binary.LittleEndian.Uint64(one))
		sum.Labels += int64(binary.LittleEndian.Uint64(one[8:]))
	}
	if sum.Of == 0 {
		return sum, errNoLabels
	}
	return sum, nil
}

// reduce puts the losses of all replicas and the sums of their gradients in the place of this one's.
func (s *TrainState) reduce(ctx context.Context) error {
	if _, grads := s.Trees(); s.job.Reducer != nil {
		if err := s.job.Reducer.Sum(ctx, here(grads), s.passes.Partials()); err != nil {
			return fmt.Errorf("reduce: gradients: %w", err)
		}
	}
	last := s.updater.config.LossStage
	kinds := []gpu.Range{s.losses}
	if s.job.sumBytes() > 0 {
		kinds = append(kinds, s.sums)
	}
	all := make([][]byte, len(kinds)) // of the microbatches of all replicas
	for i, at := range kinds {
		var own []byte
		if s.hasLosses() {
			own = make([]byte, at.Bytes)
		}
		if len(own) > 0 {
			if err := s.stages[last].Params.Device().Read(ctx, own, at); err != nil {
				return s.passes.Failed(last, err)
			}
		}
		parts, err := s.gather(ctx, own)
		if err != nil {
			return fmt.Errorf("reduce: losses: %w", err)
		}
		all[i] = slices.Concat(parts...)
	}
	for i, r := range s.stages {
		if err := r.Params.Device().Write(r.State.Losses(), all[0]); err != nil {
			return s.passes.Failed(i, err)
		}
	}
	if s.job.sumBytes() == 0 {
		return nil
	}
	at := s.results.Range(s.job.lossRoom(), uint64(len(all[1])))
	return s.passes.Failed(s.told, s.stages[s.told].Params.Device().Write(at, all[1]))
}
