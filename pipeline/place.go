package pipeline

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/optim"
	"gputrain/pipeline/partition"
	"gputrain/state"
)

// Placement says on which device each leaf of a value lies, parameters and other variables alike.
type Placement struct {
	Devices []*gpu.Device  // of the stages; one may be several stages'
	Stage   map[string]int // by path
}

// placement finds the stage of each leaf.
func placement(f state.Fields, devices []*gpu.Device, rules []partition.Rule) (Placement, error) {
	p := Placement{Devices: devices, Stage: map[string]int{}}
	var units []partition.Unit
	for _, tree := range buffers.Given(f.Params, f.Frozen, f.Other) {
		for _, leaf := range tree.Layout().Leaves() {
			units = append(units, partition.Unit{Name: leaf.Path, Params: []string{leaf.Path}})
		}
	}
	stages, err := partition.Match(units, rules, len(devices))
	if err == nil {
		err = partition.CheckOccupied(stages[:len(f.Params.Layout().Leaves())], len(devices))
	}
	if err != nil {
		return p, fmt.Errorf("rules: %w", err)
	}
	for i, u := range units {
		p.Stage[u.Name] = stages[i]
	}
	return p, nil
}

// check says why the placement is not one of a value.
func (p Placement) check(f state.Fields) error {
	var stages []int
	for _, tree := range buffers.Given(f.Params, f.Frozen, f.Other) {
		for _, leaf := range tree.Layout().Leaves() {
			s, ok := p.Stage[leaf.Path]
			if !ok {
				return fmt.Errorf("placement: leaf %q: found no stage, wanted one", leaf.Path)
			}
			stages = append(stages, s)
		}
	}
	return partition.CheckOccupied(stages[:len(f.Params.Layout().Leaves())], len(p.Devices))
}

// paths are the leaves of a tree that lie on a stage.
func (p Placement) paths(tree *buffers.Tree, stage int) []string {
	var out []string
	for _, leaf := range tree.Layout().Leaves() {
		if p.Stage[leaf.Path] == stage {
			out = append(out, leaf.Path)
		}
	}
	return out
}

// Place divides a value over devices, one a stage, by rules: each leaf, parameter or other variable, has rules for exactly one stage, and goes
// there with what the optimizer remembers of it; every stage has a parameter. Stages need not follow any forward pass, as no graph is run. The
// value is spent, and what it took is given back once it is copied; after an error it is as it was.
//
// On updates it has the bits of the undivided value: see StageLocal.
func Place(ctx context.Context, v state.Value, devices []*gpu.Device, rules []partition.Rule) (Placed, error) {
	f, err := v.Fields()
	if err != nil {
		return Placed{}, err
	}
	if len(devices) == 0 {
		return Placed{}, fmt.Errorf("pipeline: place: devices: found none, wanted one for each stage")
	}
	if i := slices.Index(devices, nil); i >= 0 {
		return Placed{}, fmt.Errorf("pipeline: place: device of stage %d: found none, wanted one", i)
	}
	p, err := placement(f, slices.Clone(devices), rules)
	if err != nil {
		return Placed{}, fmt.Errorf("pipeline: place: %w", err)
	}
	return place(ctx, v, f, p)
}

// PlaceLike divides a value as another one is divided, which must have all its leaves.
func PlaceLike(ctx context.Context, v state.Value, like Placed) (Placed, error) {
	f, err := v.Fields()
	if err != nil {
		return Placed{}, err
	}
	p, err := like.Placement()
	if err == nil {
		err = p.check(f)
	}
	if err != nil {
		return Placed{}, fmt.Errorf("pipeline: place: %w", err)
	}
	return place(ctx, v, f, p)
}

func place(ctx context.Context, v state.Value, f state.Fields, p Placement) (Placed, error) {
	h := &placed{rest: f, placement: p}
	h.rest.Params, h.rest.Frozen, h.rest.Other, h.rest.OptimizerState = nil, nil, nil, nil
	err := h.fill(ctx, f)
	if err != nil {
		h.release()
		return Placed{}, fmt.Errorf("pipeline: place: %w", err)
	}
	v.Release()
	return Placed{&placedOwner{h}}, nil
}

// fill makes the stages and copies what the value has.
func (h *placed) fill(ctx context.Context, f state.Fields) error {
	var whole []buffers.Spec
	for _, leaf := range f.Params.Layout().Leaves() {
		whole = append(whole, buffers.Spec{Path: leaf.Path, Shape: leaf.Shape})
	}
	for i, dev := range h.placement.Devices {
		h.stages, h.other = append(h.stages, state.Resident{}), append(h.other, nil)
		s := &h.stages[i]
		var err error
		if s.Params, err = state.CopyTree(ctx, dev, []*buffers.Tree{f.Params}, h.placement.paths(f.Params, i)...); err != nil {
			return fmt.Errorf("stage %d: params: %w", i, err)
		}
		if s.Frozen, err = h.copyRest(ctx, f.Frozen, i); err != nil {
			return fmt.Errorf("stage %d: frozen: %w", i, err)
		}
		if h.other[i], err = h.copyRest(ctx, f.Other, i); err != nil {
			return fmt.Errorf("stage %d: other: %w", i, err)
		}
		if f.OptimizerState != nil {
			if s.State, err = f.Transform.InitStage(s.Params, whole); err != nil {
				return fmt.Errorf("stage %d: %w", i, err)
			}
		}
	}
	if f.OptimizerState == nil {
		return nil
	}
	return state.CopyOptimizer(ctx, h.states(), []*optim.State{f.OptimizerState})
}

// copyRest is what a stage has of a tree that need not have leaves everywhere; nil: nothing.
func (h *placed) copyRest(ctx context.Context, from *buffers.Tree, stage int) (*buffers.Tree, error) {
	if from == nil {
		return nil, nil
	}
	paths := h.placement.paths(from, stage)
	if len(paths) == 0 {
		return nil, nil
	}
	return state.CopyTree(ctx, h.placement.Devices[stage], []*buffers.Tree{from}, paths...)
}

// Gather puts a divided value together on one device, with every bit. It is spent.
func (p Placed) Gather(ctx context.Context, dev *gpu.Device) (state.Value, error) {
	h, err := p.use("gather")
	if err != nil {
		return state.Value{}, err
	}
	if dev == nil {
		return state.Value{}, fmt.Errorf("pipeline: gather: device: found none, wanted one")
	}
	v, err := h.gather(ctx, dev)
	if err != nil {
		return state.Value{}, fmt.Errorf("pipeline: gather: %w", err)
	}
	p.Release()
	return v, nil
}

func (h *placed) gather(ctx context.Context, dev *gpu.Device) (v state.Value, err error) {
	f := h.rest
	f.InitOptimizer = len(h.states()) > 0
	if err = f.CopyTrees(ctx, dev, h.params(), h.frozen(), h.others()); err == nil {
		v, err = state.New(f)
	}
	if err != nil {
		for _, tree := range buffers.Given(f.Params, f.Frozen, f.Other) {
			tree.Release()
		}
		return v, err
	}
	if !f.InitOptimizer {
		return v, nil
	}
	if f, err = v.Fields(); err == nil {
		err = state.CopyOptimizer(ctx, []*optim.State{f.OptimizerState}, h.states())
	}
	if err != nil {
		v.Release()
	}
	return v, err
}

// Placement tells where everything lies.
func (p Placed) Placement() (Placement, error) {
	h, err := p.use("placement")
	if err != nil {
		return Placement{}, err
	}
	return Placement{Devices: slices.Clone(h.placement.Devices), Stage: maps.Clone(h.placement.Stage)}, nil
}
