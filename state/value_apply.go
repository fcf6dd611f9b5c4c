package state

import (
	"context"
	"errors"
	"fmt"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/optim"
)

// applied are the programs of an update with one tree of gradients.
type applied struct {
	grads    *buffers.Tree
	programs map[optim.Phase]*gpu.Program
}

func (a applied) release() {
	for _, p := range a.programs {
		p.Release()
	}
}

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
	switch {
	case h.OptimizerState == nil:
		return &FieldsError{"OptimizerState", "none", "one: InitOptimizer makes it"}
	case grads == nil:
		return fmt.Errorf("grads: found none, wanted a tree")
	case grads != h.applied.grads:
		h.applied.release()
		h.applied = applied{grads: grads, programs: map[optim.Phase]*gpu.Program{}}
	}
	if _, err := h.program(ctx, h.OptimizerState.Phase()); err != nil {
		return err
	}
	before := h.OptimizerState.Counts()
	phase, err := h.OptimizerState.Prepare()
	if err == nil {
		err = h.submit(ctx, phase)
	}
	if err != nil { // nothing of it has run
		return errors.Join(err, h.OptimizerState.SetCounts(before))
	}
	if phase != optim.Collect {
		h.Step++
	}
	return nil
}

func (h *held) submit(ctx context.Context, phase optim.Phase) error {
	p, err := h.program(ctx, phase) // it may turn out to reuse what the last update has made
	if err != nil {
		return err
	}
	return p.Submit(ctx)
}

// program is the update of a phase, recorded on first use.
func (h *held) program(ctx context.Context, phase optim.Phase) (*gpu.Program, error) {
	if p := h.applied.programs[phase]; p != nil {
		return p, nil
	}
	rec := h.device().Record("gputrain.state.apply_gradients")
	if err := h.Transform.Record(rec, phase, h.applied.grads, h.OptimizerState, h.Params); err != nil {
		return nil, err
	}
	p, err := rec.Program(ctx)
	if err == nil {
		h.applied.programs[phase] = p
	}
	return p, err
}
