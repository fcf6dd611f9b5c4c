package state

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gputrain/buffers"
	"gputrain/buffers/array"
	"gputrain/gpu"
	"gputrain/internal/suggest"
	"gputrain/model"
	"gputrain/optim"
)

// Fields are what a Value is made of: either Model, or Params with or without a Definition, and what is beside them. Where the value lies on several
// devices, Stages have its trees and the optimizer's states.
type Fields struct {
	Model      *Model           // whose definition and parameters to take; it is a view of the value then
	Definition model.Definition // nil: the trees are of something that this package does not compute
	Params     *buffers.Tree    // f32, or bf16 without a definition
	Frozen     *buffers.Tree    // parameters of the definition that are read and not trained; nil for none
	Other      *buffers.Tree    // variables without gradients, of any type; nil for none

	Optimizer      optim.Config    // a registered one, which makes Transform where that is left out; its zero value: Transform is one's own
	Transform      optim.Transform // the zero value: none
	OptimizerState *optim.State    // of Transform and Params; nil: there is none yet
	InitOptimizer  bool            // make OptimizerState
	Stages         []Resident      // in place of Params, Frozen, Other and OptimizerState; nil: the value is on one device

	Step int64 // updates that led here
	// Memory is what the objective goes on from (model.Ahead), by name; nil: nothing.
	Memory  map[string]float64
	Skipped int64 // updates among these that changed nothing because they were not finite, as far as known
}

// FieldsError says that the fields of a value do not go together, or lack what an operation needs.
type FieldsError struct {
	Field         string // of Fields
	Found, Wanted string
}

// Error names the field.
func (e *FieldsError) Error() string {
	return fmt.Sprintf("%s: found %s, wanted %s", e.Field, e.Found, e.Wanted)
}

// complete checks the fields and makes what they ask for.
func (f Fields) complete() (Fields, error) {
	if f.Model != nil {
		if f.Model.borrowed {
			return f, &FieldsError{"Model", "one whose parameters are another's", "one of NewModel or LoadModel"}
		}
		if f.Definition != nil || f.Params != nil || f.Frozen != nil {
			return f, &FieldsError{"Model", "one beside Definition or Params", "one or the other"}
		}
		f.Definition, f.Params, f.Frozen = f.Model.Definition(), f.Model.Params(), f.Model.passes.frozen
	}
	if f.Optimizer.Name != "" && f.Transform.Name() == "" {
		var err error
		if f.Transform, err = f.Optimizer.Build(); err != nil {
			return f, err
		}
		f.Transform = f.freeze(f.Transform)
	}
	if err := f.check(); err != nil {
		return f, err
	}
	if f.InitOptimizer {
		var err error
		if f.OptimizerState, err = f.initOptimizer(f.Params, f.leaves(f.Params)); err != nil {
			return f, err
		}
	}
	if f.Model != nil {
		f.Model.borrowed = true
	}
	f.Model, f.InitOptimizer = nil, false
	return f, nil
}

// check finds the first field that makes no sense beside the others.
func (f Fields) check() error {
	wrong := func(field, found, wanted string) error { return &FieldsError{field, found, wanted} }
	switch {
	case f.Step < 0:
		return wrong("Step", fmt.Sprint(f.Step), "0 or more")
	case f.Skipped < 0:
		return wrong("Skipped", fmt.Sprint(f.Skipped), "0 or more")
	case f.Stages != nil:
		return wrong("Stages", strconv.Itoa(len(f.Stages)), "none: New takes trees on one device, and Place divides the value")
	case f.Params == nil && f.Frozen != nil:
		return wrong("Params", "none beside Frozen", "the parameters that are trained too")
	case f.Params == nil && f.Definition == nil && f.Other == nil:
		return wrong("Params", "none", "a tree, or a Model")
	case f.Params == nil:
		return wrong("Params", "none beside Definition or Other", "the parameters too")
	case f.Params.DType() != buffers.F32 && (f.Params.DType() != buffers.BF16 || f.Definition != nil):
		return wrong("Params", f.Params.DType().String(), "f32, or bf16 without a definition")
	}
	if f.Frozen != nil && f.Definition == nil {
		return wrong("Frozen", "a tree without Definition", "Other, for what nothing of this package computes with")
	}
	if f.Definition != nil {
		if err := f.checkParams(); err != nil {
			return err
		}
	}
	if f.Other != nil {
		if f.Other.Device() != f.device() {
			return wrong("Other", "a tree on another device than Params", "one on the same")
		}
		for _, leaf := range f.Other.Layout().Leaves() {
			if _, both := f.Params.Layout().Leaf(leaf.Path); both {
				return wrong("Other", fmt.Sprintf("%q, which is a parameter", leaf.Path), "other paths")
			}
		}
	}
	return f.checkOptimizer()
}

// checkParams compares the parameters with the definition.
func (f Fields) checkParams() error {
	j := Job{Config{Definition: f.Definition, Frozen: f.frozen()}}
	if f.Frozen != nil {
		j.FrozenDType = f.Frozen.DType()
	}
	if err := j.checkFrozen(); err != nil {
		return &FieldsError{"Frozen", "other leaves than parameters of the definition: " + err.Error(), "some of those of the " + f.Definition.Kind()}
	}
	layout, frozen, err := j.layouts(f.device().Limits())
	switch {
	case err != nil:
		return err
	case !sameLeaves(f.Params.Layout(), layout):
		return &FieldsError{"Params", "other leaves than those of the definition", "those of the " + f.Definition.Kind()}
	case f.Frozen == nil:
		return nil
	case f.Frozen.Device() != f.device():
		return &FieldsError{"Frozen", "a tree on another device than Params", "one on the same"}
	case !f.Frozen.Layout().Equal(frozen):
		return &FieldsError{"Frozen", "other leaves than those of the definition, in " + f.Frozen.DType().String(), "those of the " + f.Definition.Kind() + " in " + suggest.Or(array.Names(array.Bases))}
	}
	return nil
}

// sameLeaves tells whether layouts have the same leaves, wherever they place them.
func sameLeaves(a, b *buffers.Layout) bool {
	return slices.EqualFunc(a.Leaves(), b.Leaves(), func(a, b buffers.Leaf) bool { return a.Path == b.Path && slices.Equal(a.Shape, b.Shape) })
}

func (f Fields) checkOptimizer() error {
	none := f.Transform.Name() == ""
	switch {
	case f.InitOptimizer && f.OptimizerState != nil:
		return &FieldsError{"InitOptimizer", "set beside OptimizerState", "one or the other"}
	case f.InitOptimizer && none:
		return &FieldsError{"InitOptimizer", "set without Transform or Optimizer", "one of these too"}
	case f.Optimizer.Name != "" && !strings.Contains(f.Transform.Name(), f.Optimizer.Name): // which may have something around it
		return &FieldsError{"Transform", f.Transform.Name() + " beside Optimizer " + f.Optimizer.Name, "one or the other"}
	case f.OptimizerState == nil:
		return nil
	case none:
		return &FieldsError{"OptimizerState", "one without Transform or Optimizer", "the transformation that it is of"}
	}
	if err := f.Transform.Matches(f.OptimizerState, f.Params); err != nil {
		return &FieldsError{"OptimizerState", "one of something else: " + err.Error(), "one of Transform and Params"}
	}
	return nil
}

func (f Fields) device() *gpu.Device { return f.Params.Device() }

// leaves are those that the optimizer knows of the model whose trained parameters these trees have: as the definition says, where there is one.
func (f Fields) leaves(params ...*buffers.Tree) []buffers.Spec {
	if f.Definition == nil {
		return specsOf(params...)
	}
	own, all := pathsOf(params...), model.Specs(f.Definition)
	trained := f.Transform.Trained(all)
	return slices.DeleteFunc(all, func(s buffers.Spec) bool {
		return !slices.Contains(own, s.Path) && slices.ContainsFunc(trained, func(t buffers.Spec) bool { return t.Path == s.Path })
	})
}

// initOptimizer makes the optimizer's state of some leaves of the whole, unless it does not fit their device.
func (f Fields) initOptimizer(params *buffers.Tree, whole []buffers.Spec) (*optim.State, error) {
	dev := params.Device()
	if dev.Dry() { // takes nothing
		return f.Transform.InitStage(params, whole)
	}
	need, err := f.Transform.StageBytes(params.Layout(), whole, dev.Limits())
	if err != nil {
		return nil, err
	}
	if available, bound, known := dev.Available(); known && need > available {
		return nil, &MemoryError{
			Memory: []MemoryPlan{{Optimizer: need}}, Available: available, Bound: bound, Hint: "choose an optimizer that remembers less, or a smaller model",
		}
	}
	return f.Transform.InitStage(params, whole)
}

// residents are what each stage has; on one device there is one.
func (f Fields) residents() []Resident {
	if f.Params == nil {
		return slices.Clone(f.Stages)
	}
	return []Resident{{Params: f.Params, Frozen: f.Frozen, Other: f.Other, State: f.OptimizerState}}
}

// on are the fields with what stages have.
func (f Fields) on(stages []Resident) Fields {
	r := Resident{}
	if len(stages) == 1 {
		r, stages = stages[0], nil
	}
	f.Params, f.Frozen, f.Other, f.OptimizerState, f.Stages = r.Params, r.Frozen, r.Other, r.State, stages
	return f
}

// releaseUnless gives back what is not among others.
func (f Fields) releaseUnless(others Fields) {
	kept, own := others.residents(), f.residents()
	keptTrees, keptStates := slices.Concat(trees(kept)), states(kept)
	for _, tree := range slices.Concat(trees(own)) {
		if !slices.Contains(keptTrees, tree) {
			tree.Release()
		}
	}
	for _, s := range states(own) {
		if !slices.Contains(keptStates, s) {
			s.Release()
		}
	}
}
