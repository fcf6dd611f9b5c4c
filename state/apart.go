package state

import (
	"context"
	"fmt"
	"slices"

	"gputrain/checkpoint"
)

// Apart are the processes that the stages of a model are divided over, its ranks. What is on another rank lies on devices without hardware here, so each
// rank knows of it but the numbers. All ranks, of all replicas, make the same calls.
type Apart interface {
	// Here tells whether a stage is on this rank.
	Here(stage int) bool
	// Stages are those of each rank of a replica.
	Stages() [][]int
	// Exchange gives every rank what all of its replica have given, in the order of Stages.
	Exchange(ctx context.Context, own []byte) ([][]byte, error)
	// Deliver gives the rank that leads what the rank of a replica's stage has in b, which has one length on both. The others return at once.
	Deliver(ctx context.Context, replica, stage int, b []byte) error
	// Fail ends all ranks with an error of this one.
	Fail(err error)
	// Leads tells whether this rank writes checkpoints: it is the first of the first replica.
	Leads() bool
}

// hasLosses tells whether the passes of this process leave the losses of its share.
func (s *TrainState) hasLosses() bool {
	apart := s.passes.Apart()
	return apart == nil || apart.Here(s.updater.config.LossStage)
}

// divided tells whether other processes have what this one lacks: stages, or the optimizer's state of some leaves.
func (s *TrainState) divided() bool { return s.passes.Apart() != nil || s.config.sharded() }

// leads tells whether this process writes what all have together.
func (s *TrainState) leads() bool {
	if apart := s.passes.Apart(); apart != nil {
		return apart.Leads()
	}
	replica, _ := s.config.replicas()
	return replica == 0
}

// has tells whether this process is the one that has the numbers of a replica's stage.
func (s *TrainState) has(replica, stage int) bool {
	own, _ := s.config.replicas()
	apart := s.passes.Apart()
	return replica == own && (apart == nil || apart.Here(stage))
}

// deliver gives the process that leads what the one that has a replica's stage has in b.
func (s *TrainState) deliver(ctx context.Context, replica, stage int, b []byte) error {
	if apart := s.passes.Apart(); apart != nil {
		return apart.Deliver(ctx, replica, stage, b)
	}
	if replica == 0 {
		return nil // it leads
	}
	if err := s.config.Reducer.Deliver(ctx, replica, b); err != nil {
		return fmt.Errorf("reduce: optimizer: %w", err)
	}
	return nil
}

// reader reads the bytes of a tensor.
type reader func(ctx context.Context) ([]byte, error)

// carry makes of what reads a tensor of a replica's stage what reads it where it is and gives it to the process that leads, in pieces; on others it gives
// nothing. All read the same tensors in the same order.
func (s *TrainState) carry(replica, stage, bytes int, read reader) reader {
	return func(ctx context.Context) (raw []byte, err error) {
		if s.has(replica, stage) {
			raw, err = read(ctx)
		} else {
			raw = make([]byte, bytes)
		}
		for piece := range slices.Chunk(raw, deliverBytes) {
			if err == nil {
				err = s.deliver(ctx, replica, stage, piece)
			}
		}
		return raw, err
	}
}

// copyDivided is CopyToHost where other processes have parts of the state: they hand them to the one that leads, tensor by tensor.
func (s *TrainState) copyDivided(ctx context.Context, run checkpoint.Run) (all checkpoint.HostCopy, err error) {
	shot := s.snapshot()
	shot.carry = s.carry
	if shot.pieces, err = s.pieces(s.carry); err == nil {
		if s.leads() {
			all, err = shot.CopyToHost(ctx, run)
		} else {
			all.Step, err = s.own.Step, shot.give(ctx)
		}
	}
	if apart := s.passes.Apart(); err != nil && apart != nil {
		apart.Fail(err)
	}
	return all, err
}

// give reads all tensors for others.
func (s Snapshot) give(ctx context.Context) error {
	t, err := s.tensors()
	for _, list := range [][]stored{t.weights, t.optimizer} {
		for _, one := range list {
			if err == nil {
				_, err = one.read(ctx)
			}
		}
	}
	if err != nil {
		return fmt.Errorf("state: copy of step %d: %w", s.Step, err)
	}
	return nil
}

// saveDivided is Save where other processes have parts of the state.
func (s *TrainState) saveDivided(ctx context.Context, path string, run checkpoint.Run) error {
	all, err := s.copyDivided(ctx, run)
	if err != nil || !s.leads() {
		return err
	}
	return checkpoint.Commit(s.config.FS, path, all.Step, all.Sources)
}

// firstDivided is FirstNonFinite where other processes have parts of the state: each looks through what it has, and the first of what they find is what all
// say.
func (s *TrainState) firstDivided(ctx context.Context) (string, error) {
	shot := s.snapshot()
	own, _ := s.config.replicas()
	shot.Params = here(shot.Params)
	for i, grads := range shot.Grads {
		shot.Grads[i] = s.config.Own(grads) // the sums of the others are not known here
	}
	shot.Grads = here(shot.Grads)
	var err error
	shot.pieces, err = s.pieces(func(replica, stage, bytes int, read reader) reader {
		if s.has(replica, stage) || !s.config.sharded() && s.has(own, stage) {
			return read
		}
		return func(context.Context) ([]byte, error) { return make([]byte, bytes), nil }
	})
	var found string
	if err == nil {
		found, err = shot.FirstNonFinite(ctx)
	}
	if err != nil {
		if apart := s.passes.Apart(); apart != nil {
			apart.Fail(err)
		}
		return "", err
	}
	all, err := s.config.Reducer.Gather(ctx, []byte(found))
	if err != nil {
		return "", fmt.Errorf("state: scan: %w", err)
	}
	return firstOf(all), nil
}
