package pipeline

import (
	"context"

	"gputrain/gpu"
	"gputrain/optim"
	"gputrain/state"
)

// An updater is a stage's half of an update: the optimizer's pieces, cut where a norm of the whole model is needed, and the ways by which
// its leaves' share of each norm comes to the host.
type updater struct {
	stage    *stage
	pieces   map[optim.Phase][]*gpu.Program
	rings    []*gpu.Readback // of each norm
	measured []byte
}

// buildUpdate makes the programs of an update.
func (s *State) buildUpdate(ctx context.Context) error {
	last := s.training.stageOf(s.config.Assignment.Parts - 1)
	s.last = last
	s.combined = make([]byte, pairBytes*len(s.specs))
	losses, room := s.training.results[0].buffer, s.config.State.StatisticsBytes()
	s.lossBytes = make([]byte, losses.Bytes())
	var err error
	if s.losses, err = last.device.NewReadback("gputrain.pipeline.losses", losses.Bytes(), 1); err != nil {
		return err
	}
	if s.results, err = last.device.NewReadback("gputrain.pipeline.metrics", room, 1); err != nil {
		return err
	}
	s.training.taken(last, losses.Bytes()+room)
	metrics, err := s.training.buffer(last, "metrics", room)
	if err != nil {
		return err
	}
	for _, st := range s.stages {
		u := &updater{stage: st, pieces: map[optim.Phase][]*gpu.Program{}, measured: make([]byte, pairBytes*len(st.params.Layout().Leaves()))}
		s.updates = append(s.updates, u)
		ends := func(*gpu.Recording, int) {}
		if st == last {
			ends = func(rec *gpu.Recording, round int) {
				switch round {
				case 0:
					rec.ReadBack(s.losses, losses.All())
				case st.opt.Rounds() - 1:
					state.CopyStatistics(rec, metrics, 0, st.opt)
					rec.ReadBack(s.results, metrics.All())
				}
			}
		}
		if err := u.build(ctx, s.tx, ends); err != nil {
			return st.failed("update", err)
		}
		s.training.taken(st, u.bytes())
		var begin *gpu.Program
		if s.training.accumulate {
			rec := st.device.Record("gputrain.pipeline.begin")
			for i := range st.grads.Layout().Slabs() {
				rec.Zero(st.grads.Slab(i))
			}
			if begin, err = rec.Program(ctx); err != nil {
				return st.failed("update", err)
			}
		}
		s.begin = append(s.begin, begin)
	}
	return nil
}

// pairBytes is what a leaf contributes to a norm.
const pairBytes = 8

// build makes the programs; ends is called at the end of each piece.
func (u *updater) build(ctx context.Context, tx optim.Transform, ends func(rec *gpu.Recording, round int)) error {
	st := u.stage
	rounds := st.opt.Rounds()
	for range rounds - 1 {
		ring, err := st.device.NewReadback("gputrain.pipeline.norm", uint64(len(u.measured)), 1)
		if err != nil {
			return err
		}
		u.rings = append(u.rings, ring)
	}
	for _, phase := range st.opt.Phases() {
		for round := range rounds {
			rec := st.device.Record("gputrain.pipeline.update")
			if err := tx.RecordRound(rec, phase, round, st.grads, st.opt, st.params); err != nil {
				return err
			}
			if round < rounds-1 {
				rec.ReadBack(u.rings[round], st.opt.Measured(round))
			}
			ends(rec, round)
			p, err := rec.Program(ctx)
			if err != nil {
				return err
			}
			u.pieces[phase] = append(u.pieces[phase], p)
		}
	}
	return nil
}

// update applies the gradients, every stage its own. The losses, which the last stage has, go to all stages: each decides by itself whether
// the update is left out, and by the same numbers. A norm of the whole model crosses as one number a leaf, which each stage adds up in the
// order of the model's leaves: the sum that one device would come to.
func (s *State) update(ctx context.Context, phases []optim.Phase) error {
	states := s.optimizers()
	measured := make([][]byte, len(s.updates))
	rounds := s.stages[0].opt.Rounds()
	for round := range rounds {
		c := newCrew(ctx, s.config.Timeout)
		for i, u := range s.updates {
			c.do(u.stage, "update", func() error {
				if err := u.stage.device.Submit(c.ctx, u.pieces[phases[i]][round]); err != nil {
					return err
				}
				if round == rounds-1 {
					return nil
				}
				measured[i] = u.measured
				if _, err := u.rings[round].NextInto(c.ctx, u.measured); err != nil || round > 0 || u.stage != s.last {
					return err
				}
				_, err := s.losses.NextInto(c.ctx, s.lossBytes)
				return err
			})
		}
		if err := c.wait(nobody, func() {}); err != nil {
			return err
		}
		if round == rounds-1 {
			break
		}
		if err := optim.GatherNorms(s.combined, states, measured); err != nil {
			return err
		}
		for _, u := range s.updates {
			if err := u.stage.device.Write(u.stage.opt.Combined(round), s.combined); err != nil {
				return u.stage.failed("update", err)
			}
			if round > 0 {
				continue
			}
			if err := u.stage.device.Write(u.stage.opt.Losses(), s.lossBytes); err != nil {
				return u.stage.failed("update", err)
			}
		}
	}
	return s.mirror(ctx)
}

// nobody is the culprit where every stage works by itself: whoever has not ended.
func nobody(error) error { return nil }

// mirror brings the copies of parameters that other stages own up to date.
func (s *State) mirror(ctx context.Context) error {
	c := newCrew(ctx, s.config.Timeout)
	for _, st := range s.stages {
		if st.mirrors == nil {
			continue
		}
		for _, leaf := range st.mirrors.Layout().Leaves() {
			owner := s.training.stageOf(s.config.Assignment.Part[leaf.Path])
			c.do(st, "copy of "+leaf.Path, func() error {
				raw, err := owner.params.ReadRaw(c.ctx, leaf.Path)
				if err != nil {
					return owner.failed("read of "+leaf.Path, err)
				}
				return st.mirrors.WriteRaw(leaf.Path, raw)
			})
		}
	}
	return c.wait(nobody, func() {})
}

// bytes is what the updater takes of its device.
func (u *updater) bytes() uint64 {
	n := uint64(len(u.rings) * len(u.measured))
	for _, pieces := range u.pieces {
		for _, p := range pieces {
			n += p.UniformBytes()
		}
	}
	return n
}

func (u *updater) release() {
	for _, pieces := range u.pieces {
		for _, p := range pieces {
			p.Release()
		}
	}
	for _, r := range u.rings {
		r.Release()
	}
}
