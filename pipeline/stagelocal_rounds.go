package pipeline

import (
	"context"
	"fmt"
	"slices"

	"gputrain/buffers"
	"gputrain/optim"
	"gputrain/state"
)

// InRounds is the stage-local path of a transformation of package optim: on each stage the pieces of its update, with the norms of the whole
// model put together between them.
func InRounds(tx optim.Transform) ApplyFunc {
	return func(ctx context.Context, _ Metadata, a Application) error {
		if err := inRounds(ctx, tx, a); err != nil {
			return fmt.Errorf("pipeline: stage local: %s: %w", tx.Name(), err)
		}
		return nil
	}
}

func inRounds(ctx context.Context, tx optim.Transform, a Application) error {
	stages := slices.Clone(a.Stages)
	for i, r := range stages {
		if r.Params == nil || r.Grads != nil && len(r.Grads.Layout().Leaves()) >= len(r.Params.Layout().Leaves()) {
			continue
		}
		filled, err := fill(ctx, r)
		if err != nil {
			return fmt.Errorf("stage %d: %w", i, err)
		}
		defer filled.Release()
		stages[i].Grads = filled
	}
	u, err := state.NewUpdater(tx, stages, state.UpdaterConfig{Label: "pipeline.stage_local"})
	if err != nil {
		return err
	}
	defer u.Release()
	if err := u.Prepare(ctx, a.LearningRate); err != nil {
		return err
	}
	return u.Apply(ctx, u.Concurrently(ctx))
}

// fill makes a tree of gradients of all params of a stage: those that it has, and zeros.
func fill(ctx context.Context, r state.Resident) (*buffers.Tree, error) {
	dtype := buffers.F32
	if r.Grads != nil {
		dtype = r.Grads.DType()
	}
	all, err := buffers.NewTree(r.Params.Device(), "pipeline.grads", r.Params.Layout(), dtype)
	if err != nil || r.Grads == nil {
		return all, err
	}
	rec := r.Params.Device().Record("gputrain.pipeline.fill")
	for _, leaf := range r.Grads.Layout().Leaves() {
		to, found := all.Layout().Leaf(leaf.Path)
		if !found || !slices.Equal(to.Shape, leaf.Shape) {
			all.Release()
			return nil, fmt.Errorf("grads: leaf %q of shape %v: found no such param", leaf.Path, leaf.Shape)
		}
		if !slices.EqualFunc(to.Parts, leaf.Parts, func(a, b buffers.Part) bool { return a.Count == b.Count }) {
			all.Release()
			return nil, fmt.Errorf("grads: leaf %q: found it in %d parts, wanted those of the params, %d", leaf.Path, len(leaf.Parts), len(to.Parts))
		}
		for i, part := range leaf.Parts {
			rec.Copy(all.Part(to.Parts[i]), r.Grads.Part(part))
		}
	}
	if err := rec.Submit(ctx); err != nil {
		all.Release()
		return nil, fmt.Errorf("grads: %w", err)
	}
	return all, nil
}
