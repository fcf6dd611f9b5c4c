package state

import (
	"context"
	"fmt"
	"slices"

	"gputrain/buffers"
	"gputrain/checkpoint"
)

// Apart are the processes that the stages of a model are divided over, its ranks. What is on another rank lies on devices without hardware here, so each
// rank knows of it but the numbers. All ranks make the same calls.
type Apart interface {
	// Here tells whether a stage is on this rank.
	Here(stage int) bool
	// Stages are those of each rank.
	Stages() [][]int
	// Exchange gives every rank what all have given, in the order of Stages.
	Exchange(ctx context.Context, own []byte) ([][]byte, error)
	// Deliver gives the rank that leads what the rank of a stage has in b, which has one length on both. The others return at once.
	Deliver(ctx context.Context, stage int, b []byte) error
	// Fail ends all ranks with an error of this one.
	Fail(err error)
	// Leads tells whether this rank writes checkpoints: it is the first of the first replica. Of other replicas none has a part in them.
	Leads() bool
}

// hasLosses tells whether the passes of this process leave the losses of its share.
func (s *TrainState) hasLosses() bool {
	apart := s.passes.Apart()
	return apart == nil || apart.Here(s.updater.config.LossStage)
}

// reader reads the bytes of a tensor.
type reader func(ctx context.Context) ([]byte, error)

// carrying makes of what reads a tensor of a stage what reads it on the rank of the stage and gives it to the rank that leads; on others it gives nothing.
// All of these read the same tensors in the same order.
func carrying(apart Apart) func(stage, bytes int, read reader) reader {
	return func(stage, bytes int, read reader) reader {
		return func(ctx context.Context) (raw []byte, err error) {
			if apart.Here(stage) {
				raw, err = read(ctx)
			} else {
				raw = make([]byte, bytes)
			}
			for piece := range slices.Chunk(raw, deliverBytes) {
				if err == nil {
					err = apart.Deliver(ctx, stage, piece)
				}
			}
			return raw, err
		}
	}
}

// copyApart is CopyToHost where stages are on several ranks: the others hand what they have to the one that leads, tensor by tensor, in pieces.
func (s *TrainState) copyApart(ctx context.Context, run checkpoint.Run) (checkpoint.HostCopy, error) {
	shot, apart := s.snapshot(), s.passes.Apart()
	shot.carry = carrying(apart)
	if apart.Leads() {
		all, err := shot.CopyToHost(ctx, run)
		if err != nil {
			apart.Fail(err)
		}
		return all, err
	}
	t, err := shot.tensors()
	for _, list := range [][]stored{t.weights, t.optimizer} {
		for _, one := range list {
			if err == nil {
				_, err = one.read(ctx)
			}
		}
	}
	if err != nil {
		err = fmt.Errorf("state: copy of step %d: %w", s.own.Step, err)
		apart.Fail(err)
	}
	return checkpoint.HostCopy{Step: s.own.Step}, err
}

// saveApart is Save where stages are on several ranks.
func (s *TrainState) saveApart(ctx context.Context, path string, run checkpoint.Run) error {
	all, err := s.copyApart(ctx, run)
	if err != nil || !s.passes.Apart().Leads() {
		return err
	}
	return checkpoint.Commit(s.config.FS, path, all.Step, all.Sources)
}

// firstApart is FirstNonFinite where stages are on several ranks.
func (s *TrainState) firstApart(ctx context.Context) (string, error) {
	shot, apart := s.snapshot(), s.passes.Apart()
	away := func(t *buffers.Tree) bool { return t.Device().Dry() }
	shot.Params, shot.Grads = slices.DeleteFunc(shot.Params, away), slices.DeleteFunc(shot.Grads, away)
	shot.Definition, shot.States = nil, nil
	for stage, opt := range s.Optimizers() {
		if apart.Here(stage) {
			shot.States = append(shot.States, opt)
		}
	}
	own, err := shot.FirstNonFinite(ctx)
	if err != nil {
		apart.Fail(err)
		return "", err
	}
	all, err := apart.Exchange(ctx, []byte(own))
	if err != nil {
		return "", fmt.Errorf("state: scan: %w", err)
	}
	return firstOf(all), nil
}
