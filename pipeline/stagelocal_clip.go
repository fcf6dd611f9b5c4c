package pipeline

import (
	"context"
	"fmt"

	"gputrain/buffers"
	"gputrain/optim"
	"gputrain/state"
)

// clipped calls apply with gradients that are clipped by the norm of the whole model: what an update by the clip alone leaves of params of zero.
func clipped(limit float64, apply ApplyFunc) ApplyFunc {
	tx := optim.ClipByGlobalNorm(limit)
	return func(ctx context.Context, m Metadata, a Application) error {
		model, err := union(a.Stages)
		if err != nil {
			return fmt.Errorf("pipeline: stage local: clip: %w", err)
		}
		clip, inner := Application{}, a
		inner.Stages = nil
		defer func() {
			for _, r := range clip.Stages {
				r.Params.Release()
				r.State.Release()
			}
		}()
		for i, r := range a.Stages {
			zeros, err := buffers.NewTree(r.Params.Device(), "pipeline.clipped", r.Params.Layout(), buffers.F32)
			if err != nil {
				return fmt.Errorf("pipeline: stage local: clip: stage %d: %w", i, err)
			}
			opt, err := tx.InitStage(zeros, model)
			if err != nil {
				zeros.Release()
				return fmt.Errorf("pipeline: stage local: clip: stage %d: %w", i, err)
			}
			clip.Stages = append(clip.Stages, state.Resident{Params: zeros, Grads: r.Grads, State: opt})
			inner.Stages = append(inner.Stages, state.Resident{Params: r.Params, Frozen: r.Frozen, Grads: zeros, State: r.State})
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
			model = append(model, buffers.Spec{Path: leaf.Path, Shape: leaf.Shape})
		}
	}
	for i, r := range stages {
		if n := r.State.ModelLeaves(); n != len(model) {
			return nil, fmt.Errorf("stage %d: found %d leaves in %d stages, wanted the %d of the whole model", i, len(model), len(stages), n)
		}
	}
	return model, nil
}
