package state

import (
	"context"
	"errors"

	"gputrain/gpu"
)

// averaging are the programs of a stage that make its parameters those that are evaluated, and again those that are trained. These lie in the meantime where
// the gradients of the next update will be, so that a mean of the weights takes no more memory than itself.
type averaging struct{ blend, restore *gpu.Program }

func (a averaging) release() {
	a.blend.Release()
	a.restore.Release()
}

// buildAverage makes them, where the optimizer has a mean of the weights.
func (s *TrainState) buildAverage(ctx context.Context) error {
	if !s.own.Transform.Averages() {
		return nil
	}
	s.average = make([]averaging, len(s.stages))
	for i, r := range s.stages {
		dev, slabs := r.Params.Device(), len(r.Params.Layout().Slabs())
		blend, restore := dev.Record("gputrain.state.average"), dev.Record("gputrain.state.trained")
		for slab := range slabs {
			blend.Copy(r.Grads.Slab(slab), r.Params.Slab(slab))
			restore.Copy(r.Params.Slab(slab), r.Grads.Slab(slab))
		}
		err := s.own.Transform.RecordAverage(blend, r.State, s.job.Own(r.Params))
		if err == nil {
			s.average[i].blend, err = blend.Program(ctx)
		}
		if err == nil {
			s.average[i].restore, err = restore.Program(ctx)
		}
		if err != nil {
			return s.passes.Failed(i, err)
		}
	}
	return nil
}

// Averaged tells whether Evaluated has the share of a mean of the weights in them by now.
func (s *TrainState) Averaged() bool {
	return s.average != nil && s.stages[0].State.Averaged()
}

// Evaluated calls a function while the parameters are those that are evaluated and exported: with the share of the mean of the weights in them, where the
// optimizer has one (optim.Averaging). It waits for the steps in flight. Training goes on from the bits that were there before; the gradients of the last
// step are no longer to be had. Where other ranks have a part of the state, all make the call.
func (s *TrainState) Evaluated(ctx context.Context, do func() error) error {
	if err := s.settle(); err != nil || !s.Averaged() {
		return errors.Join(err, unless(err, do))
	}
	s.forget()
	whole := context.WithoutCancel(ctx)
	run := func(program func(averaging) *gpu.Program) error {
		return s.passes.Each(whole)(func(ctx context.Context, i int) error {
			return s.stages[i].Params.Device().Submit(ctx, program(s.average[i]))
		})
	}
	err := run(func(a averaging) *gpu.Program { return a.blend })
	if err == nil {
		err = s.spread(whole)
	}
	if err != nil {
		s.broken = err
		return err
	}
	failed := do()
	if s.usable() != nil { // what is broken stays so
		return failed
	}
	s.forget()
	err = run(func(a averaging) *gpu.Program { return a.restore })
	if err == nil {
		err = s.passes.Updated(whole)
	}
	s.broken = err
	return errors.Join(failed, err)
}

// unless calls a function if there is no error.
func unless(err error, do func() error) error {
	if err != nil {
		return nil
	}
	return do()
}
