package pipeline

import (
	"context"

	"gputrain/gpu"
	"gputrain/state"
)

// buildUpdate makes the programs of an update. The losses, which the last stage has, go to all stages with the first norm: each decides by itself
// whether the update is left out, and by the same numbers.
func (s *State) buildUpdate(ctx context.Context) error {
	s.last = s.training.stageOf(s.config.Assignment.Parts - 1)
	losses := s.training.results[0].buffer
	size := s.config.State.ResultBytes()
	var err error
	if s.results, err = s.last.device.NewReadback("gputrain.pipeline.metrics", size, 1); err != nil {
		return err
	}
	results, err := s.training.buffer(s.last, "metrics", size)
	if err != nil {
		return err
	}
	s.training.taken(s.last, size)
	var stages []state.Resident
	for _, st := range s.stages {
		stages = append(stages, state.Resident{Params: st.params, Grads: st.grads, State: st.opt})
	}
	s.updater, err = state.NewUpdater(s.tx, stages, state.UpdaterConfig{
		Label: "pipeline.update", Losses: losses.All(), LossStage: s.last.index,
		End: func(rec *gpu.Recording, stage int) {
			if stage == s.last.index {
				s.config.State.RecordResults(rec, results, s.last.opt)
				rec.ReadBack(s.results, results.All())
			}
		},
	})
	if err == nil {
		err = s.updater.Build(ctx)
	}
	if err != nil {
		return err
	}
	for i, st := range s.stages {
		s.training.taken(st, s.updater.Bytes(i))
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

// update applies the gradients, every stage its own.
func (s *State) update(ctx context.Context) error {
	err := s.updater.Apply(ctx, func(do func(ctx context.Context, stage int) error) error {
		c := newCrew(ctx, s.config.Timeout)
		for i, st := range s.stages {
			c.do(st, "update", func() error { return do(c.ctx, i) })
		}
		return c.wait(nobody, func() {})
	})
	if err != nil {
		return err
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
