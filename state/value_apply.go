package state

import (
	"context"
	"fmt"
	"slices"

	"gputrain/buffers"
	"gputrain/optim"
)

// ApplyGradients is the value after one more call of its optimizer: params and optimizer state are updated in place, and step n becomes
// step n+1, unless the call is one of several that make an update (optim.Accumulate). grads are one tree for each stage, on its device, f32 or bf16,
// with the leaves of its params, and stay the caller's; on several devices a leaf that they lack, or a nil tree, has a gradient of zero. The update is
// recorded once for trees of gradients and kept, so a loop reuses them; the devices may still be at it when this returns.
//
// Errors: a *FieldsError where there is no optimizer state, and gradients that do not match: found before anything has changed. After an error of the
// device what the trees hold is not known.
func (v Value) ApplyGradients(ctx context.Context, grads ...*buffers.Tree) (Value, error) {
	h, err := v.use("apply gradients")
	if err != nil {
		return Value{}, err
	}
	if err := h.apply(ctx, grads); err != nil {
		return Value{}, fmt.Errorf("state: value: apply gradients: %w", err)
	}
	return v.pass(), nil
}

func (h *content) apply(ctx context.Context, grads []*buffers.Tree) (err error) {
	stages := h.residents()
	switch {
	case len(states(stages)) == 0:
		return &FieldsError{"OptimizerState", "none", "one: InitOptimizer makes it"}
	case len(grads) != len(stages):
		return fmt.Errorf("grads: found %d trees, wanted one for each of %d stages", len(grads), len(stages))
	}
	if h.updater == nil || !slices.Equal(h.grads, grads) {
		h.updater.Release()
		for i := range stages {
			stages[i].Grads = grads[i]
		}
		h.grads = slices.Clone(grads)
		if h.updater, err = NewUpdater(h.Transform, stages, UpdaterConfig{Label: "state.apply_gradients", Absent: len(stages) > 1}); err != nil {
			return err
		}
	}
	collects := stages[0].State.Phase() == optim.Collect
	if err := h.updater.Prepare(ctx, nil); err != nil {
		return err
	}
	if err := h.updater.Apply(ctx, h.updater.Concurrently(ctx)); err != nil {
		return err
	}
	if !collects {
		h.Step++
	}
	return nil
}
