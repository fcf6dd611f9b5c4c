package state

import (
	"context"
	"fmt"

	"gputrain/buffers"
	"gputrain/optim"
)

// ApplyGradients is the value after one more call of its optimizer: params and optimizer state are updated in place, and step n becomes
// step n+1, unless the call is one of several that make an update (optim.Accumulate). grads are f32 or bf16, have the leaves of the params and stay
// the caller's. The update is recorded once for a tree of gradients and kept, so a loop reuses one tree; the device may still be at it when
// this returns.
//
// Errors: a *FieldsError where there is no optimizer state, and gradients that do not match: found before anything has changed. After an error of the
// device what the trees hold is not known.
func (v Value) ApplyGradients(ctx context.Context, grads *buffers.Tree) (Value, error) {
	h, err := v.use("apply gradients")
	if err != nil {
		return Value{}, err
	}
	if err := h.apply(ctx, grads); err != nil {
		return Value{}, fmt.Errorf("state: value: apply gradients: %w", err)
	}
	return v.pass(), nil
}

func (h *held) apply(ctx context.Context, grads *buffers.Tree) error {
	if h.OptimizerState == nil {
		return &FieldsError{"OptimizerState", "none", "one: InitOptimizer makes it"}
	}
	if h.updater == nil || h.updater.stages[0].Grads != grads {
		h.updater.Release()
		var err error
		h.updater, err = NewUpdater(h.Transform, []Resident{{Params: h.Params, Frozen: h.Frozen, Grads: grads, State: h.OptimizerState}}, UpdaterConfig{Label: "state.apply_gradients"})
		if err != nil {
			return err
		}
	}
	collects := h.OptimizerState.Phase() == optim.Collect
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
