package eformer

import (
	"context"
	"fmt"
	"slices"

	"gputrain/buffers"
	"gputrain/optim"
	"gputrain/state"
)

// clipped calls apply with gradients that are clipped by the norm of the whole model: an update of params of zero by the clip alone.
func clipped(tx optim.Transform, apply ApplyFunc) ApplyFunc {
	return func(ctx context.Context, m Metadata, a Application) error {
		model, err := union(a.Stages)
		if err != nil {
			return fmt.Errorf("eformer: clip: %w", err)
		}
		clip, inner := Application{Stages: make([]state.Resident, len(a.Stages))}, a
		inner.Stages = slices.Clone(a.Stages)
		defer func() {
			for _, r := range clip.Stages {
				r.Params.Release()
				r.State.Release()
			}
		}()
		for i, r := range a.Stages {
			c := &clip.Stages[i]
			if c.Params, err = buffers.NewTree(r.Params.Device(), "eformer.clipped", r.Params.Layout(), buffers.F32); err == nil {
				c.State, err = tx.InitStage(c.Params, model)
			}
			if err != nil {
				return fmt.Errorf("eformer: clip: stage %d: %w", i, err)
			}
			c.Grads, inner.Stages[i].Grads = r.Grads, c.Params
		}
		if err := InRounds(tx)(ctx, m, clip); err != nil {
			return err
		}
		return apply(ctx, m, inner)
	}
}

// union is the leaves of all stages, which have to be those of the whole model.
func union(stages []state.Resident) ([]buffers.Spec, error) {
	var model []buffers.Spec
	for i, r := range stages {
		if r.Params == nil || r.State == nil {
			return nil, fmt.Errorf("stage %d: found no params or no state, wanted both", i)
		}
		for _, leaf := range r.Params.Layout().Leaves() {
			model = append(model, leaf.Spec())
		}
	}
	for i, r := range stages {
		if n := r.State.ModelLeaves(); n != len(model) {
			return nil, fmt.Errorf("stage %d: found %d leaves in %d stages, wanted the %d of the whole model", i, len(model), len(stages), n)
		}
	}
	return model, nil
}
