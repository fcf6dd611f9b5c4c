package state

import (
	"context"
	"fmt"
	"slices"

	"gputrain/buffers"
	"gputrain/state/checkpoint"
)

// Where Config.Mesh has several ranks, each has its replica's stages of the model that are here, and of the optimizer's state its own. What is on another
// rank lies on devices without hardware, so each rank knows of it all except the numbers. All ranks make the same calls in the same order.

// replicas says which of how many replicas of the model this is.
func (j Job) replicas() (rank, count int) { return j.Mesh.Replica() }

// joined tells whether other ranks take part in an update.
func (j Job) joined() bool { return j.Reducer != nil || j.Mesh.Spread() }

// hasLosses tells whether the passes of this process leave the losses of its share.
func (s *TrainState) hasLosses() bool { return s.job.Mesh.Here(s.updater.config.LossStage) }

// divided tells whether other processes have what this one lacks: stages, or the optimizer's state of some leaves.
func (s *TrainState) divided() bool { return s.job.Mesh.Spread() || s.job.sharded() }

// gather gives every rank what all have given.
func (s *TrainState) gather(ctx context.Context, own []byte) (all [][]byte, err error) {
	err = s.passes.Among(ctx, "gather", func(ctx context.Context) (err error) {
		all, err = s.job.Mesh.Gather(ctx, "figures of a step", own)
		return err
	})
	return all, err
}

// gatherRow gives every rank what those of its replica have given.
func (s *TrainState) gatherRow(ctx context.Context, own []byte) (all [][]byte, err error) {
	err = s.passes.Among(ctx, "exchange", func(ctx context.Context) (err error) {
		all, err = s.job.Mesh.GatherRow(ctx, "figures of the stages", own)
		return err
	})
	return all, err
}

// owned are what this rank updates of the stages, how norms are exchanged, and what leaves are measured where: on each stage of each rank, of each
// replica where these divide the update.
func (s *TrainState) owned() (own []Resident, exchange func(context.Context, []byte) ([][]byte, error), places []*buffers.Layout) {
	for _, r := range s.stages {
		r.Params, r.Grads = s.job.Own(r.Params), s.job.Own(r.Grads)
		own = append(own, r)
	}
	replicas := 1
	switch {
	case s.job.sharded():
		exchange = s.gather
		_, replicas = s.job.replicas()
	case s.divided():
		exchange = s.gatherRow
	default:
		return own, nil, nil
	}
	for replica := range replicas {
		for _, stage := range slices.Concat(s.job.Mesh.Stages(len(s.stages))...) {
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
	err := s.passes.Among(ctx, "delivery of a checkpoint", func(ctx context.Context) error { return s.job.Mesh.ToLeader(ctx, replica, stage, b) })
	if err != nil && !s.job.Mesh.Spread() {
		return fmt.Errorf("reduce: optimizer: %w", err)
	}
	return err
}

// relay counts what goes from one rank to another of a checkpoint.
type relay struct {
	state      *TrainState
	done, skip int // reads that were made, and that are not to be made again
	err        error
}

// carry reads a tensor of a replica's stage where it is, and gives it to the rank that leads; elsewhere it reads nothing. All ranks read the
// same tensors in the same order and in the same pieces.
func (r *relay) carry(replica, stage int, read reader) reader {
	return func(ctx context.Context, dst []byte, at int) error {
		if r.skip > 0 {
			r.skip--
			return nil
		}
		if r.state.job.Mesh.Has(replica, stage) {
			r.err = read(ctx, dst, at)
		}
		for piece := range slices.Chunk(dst, stagingBytes) {
			if r.err == nil {
				r.err = r.state.deliver(ctx, replica, stage, piece)
			}
		}
		r.done++
		return r.err
	}
}

// relayed is the snapshot with what other processes have of it.
func (s *TrainState) relayed() (shot snapshot, r *relay, err error) {
	shot, r = s.snapshot(), &relay{state: s}
	shot.carry = r.carry
	shot.pieces, err = s.pieces(r.carry)
	return shot, r, err
}

// copyDivided is CopyToHost where other processes have parts of the state: they hand them to the one that leads, tensor by tensor.
func (s *TrainState) copyDivided(ctx context.Context, run checkpoint.Run) (all checkpoint.HostCopy, err error) {
	shot, _, err := s.relayed()
	if err == nil {
		if s.job.Mesh.Leads() {
			all, err = shot.CopyToHost(ctx, run)
		} else {
			all.Step, err = s.own.Step, shot.give(ctx)
		}
	}
	return all, s.job.Mesh.FailRow(err)
}

// streamDivided is Stream where other processes have parts of the state. What write has left unread is read after it, so that the others are never kept waiting.
func (s *TrainState) streamDivided(ctx context.Context, run checkpoint.Run, write func(checkpoint.HostCopy)) error {
	shot, r, err := s.relayed()
	if err == nil && s.job.Mesh.Leads() {
		var sources []checkpoint.Source
		if sources, err = shot.sources(ctx, run); err == nil {
			write(checkpoint.HostCopy{Step: s.own.Step, Sources: sources})
			r.skip, err = r.done, r.err
		}
	}
	if err == nil {
		err = shot.give(ctx)
	}
	return s.job.Mesh.FailRow(err)
}

// give reads all tensors for others.
func (s snapshot) give(ctx context.Context) error {
	s = s.withStaging()
	t, err := s.tensors()
	if err == nil {
		var order []*stored
		order, err = s.inOrder(t)
		for _, one := range order {
			if err == nil {
				err = one.each(ctx, s.staging, func([]byte, int) error { return nil })
			}
		}
	}
	if err != nil {
		return fmt.Errorf("state: copy of step %d: %w", s.Step, err)
	}
	return nil
}

// firstDivided is FirstNonFinite where other processes have parts of the state: each looks through what it has, and the first of what they find is what all
// say.
func (s *TrainState) firstDivided(ctx context.Context) (string, error) {
	shot := s.snapshot()
	shot.Params = here(shot.Params)
	for i, grads := range shot.Grads {
		shot.Grads[i] = s.job.Own(grads) // the sums of the others are not known here
	}
	shot.Grads = here(shot.Grads)
	var err error
	shot.pieces, err = s.pieces(func(replica, stage int, read reader) reader {
		if m := s.job.Mesh; m.Has(replica, stage) || !s.job.sharded() && m.Here(stage) {
			return read
		}
		return func(_ context.Context, dst []byte, _ int) error {
			clear(dst)
			return nil
		}
	})
	var found string
	if err == nil {
		found, err = shot.FirstNonFinite(ctx)
	}
	if s.job.Mesh.FailRow(err) != nil {
		return "", err
	}
	all, err := s.gather(ctx, []byte(found))
	if err != nil {
		return "", fmt.Errorf("state: scan: %w", err)
	}
	return firstOf(all), nil
}
