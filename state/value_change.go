package state

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"gputrain/buffers"
	"gputrain/optim"
)

// With changes fields of the value: change is given the fields as they are, and must leave what New takes. What is no longer among them is
// released. A changed step becomes the optimizer's step too, but for calls collected towards an update; one that leaves out where
// the optimizer's mean of the weights begins is refused. If Optimizer or Transform was
// changed, the changed one holds; an optimizer state of the same kind goes on with the new rates.
func (v Value) With(change func(f *Fields)) (Value, error) { return v.with("with", change) }

func (v Value) with(operation string, change func(f *Fields)) (Value, error) {
	h, err := v.whole(operation)
	if err != nil {
		return Value{}, err
	}
	f, err := h.changed(change)
	if err != nil {
		return Value{}, fmt.Errorf("state: value: %s: %w", operation, err)
	}
	h.forget()
	h.releaseUnless(f)
	h.Fields = f
	return v.pass(), nil
}

// changed are the fields as change makes them.
func (h *content) changed(change func(f *Fields)) (Fields, error) {
	f := h.Fields
	change(&f)
	configured, transformed := !bytes.Equal(jsonText(f.Optimizer), jsonText(h.Optimizer)), !f.Transform.Is(h.Transform)
	switch {
	case configured && !transformed:
		f.Transform = optim.Transform{}
	case transformed && !configured && f.Transform.Name() != "":
		f.Optimizer = optim.Config{}
	}
	former := f.OptimizerState
	if configured && former != nil && former == h.OptimizerState && f.Optimizer.Name == h.Optimizer.Name {
		f.Optimizer = f.Optimizer.Following(h.Optimizer)
	}
	rebind := (configured || transformed) && former != nil && former == h.OptimizerState && !f.InitOptimizer
	if rebind {
		f.OptimizerState = nil
	}
	f, err := f.complete()
	if err != nil {
		return f, err
	}
	if rebind {
		if f.OptimizerState, err = f.rebound(former); err != nil {
			return f, err
		}
	}
	if f.Step != h.Step && f.OptimizerState != nil {
		err = setStep(f.OptimizerState, f.Step)
	}
	return f, err
}

// setStep sets an optimizer's counts. A mean of the weights begins with one update, which a step behind it would leave out.
func setStep(s *optim.State, step int64) error {
	before, averaged := s.Counts(), s.Averaged()
	err := s.SetCounts(countsAt(s, step))
	if err == nil && s.Averaged() && !averaged {
		err = &FieldsError{"Step", fmt.Sprintf("%d, where the optimizer has a mean of the weights, and a state that has none", step), "a step before average.from"}
		err = errors.Join(err, s.SetCounts(before))
	}
	return err
}

// rebound is what an optimizer state remembers, as one of the fields' transformation.
func (f Fields) rebound(former *optim.State) (*optim.State, error) {
	if f.Transform.Name() == "" {
		return nil, &FieldsError{"OptimizerState", "one without Transform or Optimizer", "the transformation that it is of"}
	}
	s, err := f.initOptimizer(f.Params, f.leaves(f.Params))
	if err != nil {
		return nil, err
	}
	if err := copyOptimizer(context.Background(), []*optim.State{s}, []*optim.State{former}); err != nil {
		s.Release()
		return nil, &FieldsError{"OptimizerState", "one of something else: " + err.Error(), "one of " + f.Transform.Name() + ", none or InitOptimizer"}
	}
	return s, nil
}

// countsAt are an optimizer's counts after that many updates.
func countsAt(s *optim.State, step int64) map[string]int64 {
	counts := s.Counts()
	for name := range counts {
		if name != "mini_step" {
			counts[name] = step
		}
	}
	return counts
}

// InitOptimizer is the value with a new optimizer, whose state is at its beginning. Transform.Bytes tells what that takes; what the device
// cannot hold is a *MemoryError. For a transformation of one's own, see With and Fields.
func (v Value) InitOptimizer(c optim.Config) (Value, error) {
	return v.with("init optimizer", func(f *Fields) {
		f.Optimizer, f.Transform, f.OptimizerState, f.InitOptimizer = c, optim.Transform{}, nil, true
	})
}

// Model is the language model that the value trains. It reads the parameters as they are, now and after each update. The value owns it, and
// it is valid as long as the value is only updated.
func (v Value) Model() (*Model, error) {
	h, err := v.whole("model")
	if err != nil {
		return nil, err
	}
	if h.view == nil {
		if h.view, err = h.merge(h.Params); err != nil {
			return nil, err
		}
	}
	return h.view, nil
}

// Merge makes a model of the value's definition and frozen parameters, and of the given trained ones. These stay the caller's: releasing
// the model leaves them.
func (v Value) Merge(params *buffers.Tree) (*Model, error) {
	h, err := v.whole("merge")
	if err != nil {
		return nil, err
	}
	return h.merge(params)
}

func (h *content) merge(params *buffers.Tree) (*Model, error) {
	if h.Definition == nil || h.Definition.Vocab() == 0 {
		return nil, fmt.Errorf("state: value: model: %w", &FieldsError{"Definition", "none of a language model", "one"})
	}
	if err := (Fields{Definition: h.Definition, Params: params, Frozen: h.Frozen}).check(); err != nil {
		return nil, fmt.Errorf("state: value: model: %w", err)
	}
	return borrowing(h.Definition, params, h.Frozen, h.Definition.Context()), nil
}

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
	case h.Transform.LooksAhead():
		return &FieldsError{"Transform", "one with a lookahead", "one without: gradients that are given were not taken ahead of the weights"}
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
