package state

import (
	"context"
	"fmt"
	"slices"

	"gputrain/buffers"
	"gputrain/checkpoint"
)

// Where Config.Mesh has several ranks, each has its replica's stages of the model that are here, and of the optimizer's state its own. What is on another
// rank lies on devices without hardware, so each rank knows of it all except the numbers. All ranks make the same calls in the same order.

// replicas says which of how many replicas of the model this is.
func (c Config) replicas() (rank, count int) { return c.Mesh.Replica() }

// joined tells whether other ranks take part in an update.
func (c Config) joined() bool { return c.Reducer != nil || c.Mesh.Spread() }

// hasLosses tells whether the passes of this process leave the losses of its share.
func (s *TrainState) hasLosses() bool { return s.config.Mesh.Here(s.updater.config.LossStage) }

// divided tells whether other processes have what this one lacks: stages, or the optimizer's state of some leaves.
func (s *TrainState) divided() bool { return s.config.Mesh.Spread() || s.config.sharded() }

// gather gives every rank what all have given.
func (s *TrainState) gather(ctx context.Context, own []byte) (all [][]byte, err error) {
	err = s.passes.Among(ctx, "gather", func(ctx context.Context) (err error) {
		all, err = s.config.Mesh.Gather(ctx, "figures of a step", own)
		return err
	})
	return all, err
}

// gatherRow gives every rank what those of its replica have given.
func (s *TrainState) gatherRow(ctx context.Context, own []byte) (all [][]byte, err error) {
	err = s.passes.Among(ctx, "exchange", func(ctx context.Context) (err error) {
		all, err = s.config.Mesh.GatherRow(ctx, "figures of the stages", own)
		return err
	})
	return all, err
}

// owned are what this rank updates of the stages, how norms are exchanged, and what leaves are measured where: on each stage of each rank, of each
// replica where these divide the update.
func (s *TrainState) owned() (own []Resident, exchange func(context.Context, []byte) ([][]byte, error), places []*buffers.Layout) {
	for _, r := range s.stages {
		r.Params, r.Grads = s.config.Own(r.Params), s.config.Own(r.Grads)
		own = append(own, r)
	}
	replicas := 1
	switch {
	case s.config.sharded():
		exchange = s.gather
		_, replicas = s.config.replicas()
	case s.divided():
		exchange = s.gatherRow
	default:
		return own, nil, nil
	}
	for replica := range replicas {
		for _, stage := range slices.Concat(s.config.Mesh.Stages(len(s.stages))...) {
			places = append(places, s.stages[stage].Params.Layout().Group(replica))
		}
	}
	return own, exchange, places
}

// here are the trees that are on this rank: those of others lie on devices without hardware.
func here(trees []*buffers.Tree) []*buffers.Tree {
	return slices.DeleteFunc(trees, func(t *buffers.Tree) bool { return t.Device().Dry() })
}

// deliver gives the rank that leads what the one that has a replica's stage has in b.
func (s *TrainState) deliver(ctx context.Context, replica, stage int, b []byte) error {
	err := s.passes.Among(ctx, "delivery of a checkpoint", func(ctx context.Context) error { return s.config.Mesh.ToLeader(ctx, replica, stage, b) })
	if err != nil && !s.config.Mesh.Spread() {
		return fmt.Errorf("reduce: optimizer: %w", err)
	}
	return err
}

// reader reads the bytes of a tensor.
type reader func(ctx context.Context) ([]byte, error)

// deliverBytes is how much of a tensor goes from one rank to another at once.
const deliverBytes = 16 << 20

// carry reads a tensor of a replica's stage where it is, and gives it to the rank that leads, in pieces; elsewhere it reads nothing. All ranks read the
// same tensors in the same order.
func (s *TrainState) carry(replica, stage, bytes int, read reader) reader {
	return func(ctx context.Context) (raw []byte, err error) {
		if s.config.Mesh.Has(replica, stage) {
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
		if s.config.Mesh.Leads() {
			all, err = shot.CopyToHost(ctx, run)
		} else {
			all.Step, err = s.own.Step, shot.give(ctx)
		}
	}
	return all, s.config.Mesh.FailRow(err)
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
	if err != nil || !s.config.Mesh.Leads() {
		return err
	}
	return checkpoint.Commit(s.config.FS, path, all.Step, all.Sources)
}

// firstDivided is FirstNonFinite where other processes have parts of the state: each looks through what it has, and the first of what they find is what all
// say.
func (s *TrainState) firstDivided(ctx context.Context) (string, error) {
	shot := s.snapshot()
	shot.Params = here(shot.Params)
	for i, grads := range shot.Grads {
		shot.Grads[i] = s.config.Own(grads) // the sums of the others are not known here
	}
	shot.Grads = here(shot.Grads)
	var err error
	shot.pieces, err = s.pieces(func(replica, stage, bytes int, read reader) reader {
		if m := s.config.Mesh; m.Has(replica, stage) || !s.config.sharded() && m.Here(stage) {
			return read
		}
		return func(context.Context) ([]byte, error) { return make([]byte, bytes), nil }
	})
	var found string
	if err == nil {
		found, err = shot.FirstNonFinite(ctx)
	}
	if s.config.Mesh.FailRow(err) != nil {
		return "", err
	}
	all, err := s.gather(ctx, []byte(found))
	if err != nil {
		return "", fmt.Errorf("state: scan: %w", err)
	}
	return firstOf(all), nil
}
