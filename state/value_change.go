package state

import (
	"bytes"
	"context"
	"fmt"

	"gputrain/buffers"
	"gputrain/optim"
)

// With changes fields of the value: change is given the fields as they are, and must leave what New takes. What is no longer among them is
// released. A changed step becomes the optimizer's step too, but for calls collected towards an update. If Optimizer or Transform was
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
		err = f.OptimizerState.SetCounts(countsAt(f.OptimizerState, f.Step))
	}
	return f, err
}

// rebound is what an optimizer state remembers, as one of the fields' transformation.
func (f Fields) rebound(former *optim.State) (*optim.State, error) {
	if f.Transform.Name() == "" {
		return nil, &FieldsError{"OptimizerState", "one without Transform or Optimizer", "the transformation that it is of"}
	}
	s, err := f.initOptimizer(f.Params, specsOf(f.Params))
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
