package optim

import (
	"fmt"

	"gputrain/buffers"
	"gputrain/gpu"
)

// Init makes the state of params on the params' device, at its initial values. Errors: those of construction, a mask or rate
// that fits no path, no memory.
func (t Transform) Init(params *buffers.Tree) (*State, error) {
	return t.InitStage(params, specs(params.Layout().Leaves()))
}

// Check is Init without a tree: what is wrong with the transformation for a model of these leaves, as far as rules and shapes tell.
func (t Transform) Check(model []buffers.Spec) error {
	p, err := newPlan(t)
	if err != nil {
		return err
	}
	leaves, _ := unplaced(model)
	r, err := p.resolve(leaves, model)
	if err != nil {
		return err
	}
	for _, step := range p.steps {
		o, ok := step.operator.(interface{ check(s scene) error })
		if !ok {
			continue
		}
		on, err := p.scene(step, nil, nil, leaves, model, r)
		if err == nil {
			err = o.check(on)
		}
		if err != nil {
			return fmt.Errorf("optim: %s: %s: %w", t.name, step.name, err)
		}
	}
	return nil
}

// InitStage is Init for a tree that is one stage of a model; whole is the leaves of all stages, which masks and rates
// speak of, and by which blocks are counted.
func (t Transform) InitStage(params *buffers.Tree, whole []buffers.Spec) (*State, error) {
	p, err := newPlan(t)
	if err != nil {
		return nil, err
	}
	if d := params.DType(); d != buffers.F32 && d != buffers.BF16 {
		return nil, fmt.Errorf("optim: %s: params: dtype %s, wanted f32 or bf16", t.name, d)
	}
	r, err := p.resolve(params.Layout().Leaves(), whole)
	if err != nil {
		return nil, err
	}
	s := &State{plan: p, device: params.Device(), layout: params.Layout(), counts: p.newCounts(), kernels: map[job]*fused{}}
	if err := s.allocate(r, whole); err != nil {
		s.Release()
		return nil, fmt.Errorf("optim: %s: %w", t.name, err)
	}
	return s, nil
}

func (s *State) allocate(r *resolved, whole []buffers.Spec) error {
	var subsets []*buffers.Layout
	for _, in := range r.chosen {
		subsets = append(subsets, s.layout.Subset(func(l buffers.Leaf) bool { return in[l.Index] }))
	}
	for _, step := range s.plan.steps {
		layout := s.layout
		if step.route >= 0 {
			layout = subsets[step.route]
		}
		for i, slot := range step.slots {
			tree, err := newSlot(s.device, step.slotNames[i], layout, slot)
			if err != nil {
				return err
			}
			s.trees = append(s.trees, NamedTree{step.slotNames[i], tree})
		}
		if step.operator != nil {
			on, err := s.plan.scene(step, s.device, s.layout, s.layout.Leaves(), whole, r)
			if err != nil {
				return fmt.Errorf("%s: %w", step.name, err)
			}
			o, err := step.operator.open(on)
			if err != nil {
				return fmt.Errorf("%s: %w", step.name, err)
			}
			s.operations = append(s.operations, o)
		}
	}
	var err error
	if len(s.operations) > 0 {
		if s.updates, err = buffers.NewTree(s.device, "optim.updates", s.layout, buffers.F32); err != nil {
			return err
		}
	}
	if s.scalars, err = s.device.NewUniform("gputrain.optim.scalars", s.plan.uniformBytes()); err != nil {
		return err
	}
	for slab := range s.layout.Slabs() {
		values := s.plan.tableValues(s.layout, slab)
		b, err := s.device.NewBuffer(fmt.Sprintf("gputrain.optim.table.%d", slab), 4*(uint64(values)+uint64(len(r.values))))
		if err != nil {
			return err
		}
		s.tables = append(s.tables, slabTable{b, values})
		if s.device.Dry() {
			continue
		}
		if err := s.device.Write(b.All(), words(s.plan.table(s.layout, slab, r, subsets)...)); err != nil {
			return err
		}
	}
	if len(s.plan.sums) > 0 {
		if s.leafSums, err = newLeafSums(s.device, s.layout, len(s.plan.sums)); err != nil {
			return err
		}
	}
	if len(s.plan.norms) == 0 {
		return nil
	}
	if s.statistics, err = s.device.NewBuffer("gputrain.optim.statistics", uint64(len(s.plan.norms))*StatisticsBytes); err != nil {
		return err
	}
	s.groups = normGroups(s.layout)
	s.partials, err = s.device.NewBuffer("gputrain.optim.partials", partialBytes(s.groups))
	return err
}

// newSlot makes a tree of state with its initial value.
func newSlot(dev *gpu.Device, name string, layout *buffers.Layout, s slot) (*buffers.Tree, error) {
	tree, err := buffers.NewTree(dev, "optim."+name, layout, s.dtype)
	if err != nil || s.initial == 0 || dev.Dry() {
		return tree, err
	}
	for _, leaf := range layout.Leaves() {
		data := make([]float32, leaf.Elements())
		for i := range data {
			data[i] = float32(s.initial)
		}
		if err := tree.Write(leaf.Path, data); err != nil {
			tree.Release()
			return nil, err
		}
	}
	return tree, nil
}

// scene is what the operator of a step works on.
func (p *plan) scene(s step, dev *gpu.Device, layout *buffers.Layout, leaves []buffers.Leaf, whole []buffers.Spec, r *resolved) (scene, error) {
	c := scene{device: dev, layout: layout, leaves: leaves, whole: whole, chosen: make([]bool, len(leaves))}
	for i := range c.chosen {
		c.chosen[i] = s.route < 0 || r.chosen[s.route][i]
	}
	if s.route < 0 {
		return c, nil
	}
	all, paths := unplaced(whole)
	in, err := chosen(p.routes[s.route], all, paths)
	if err != nil {
		return c, err
	}
	c.whole = nil
	for i, spec := range whole {
		if in[i] {
			c.whole = append(c.whole, spec)
		}
	}
	return c, nil
}

func specs(leaves []buffers.Leaf) []buffers.Spec {
	out := make([]buffers.Spec, len(leaves))
	for i, l := range leaves {
		out[i] = buffers.Spec{Path: l.Path, Shape: l.Shape}
	}
	return out
}

// normGroups is the number of workgroups that measure each slab.
func normGroups(layout *buffers.Layout) []uint32 {
	var groups []uint32
	for _, n := range layout.Slabs() {
		const each = 4 * lanes * normSteps
		groups = append(groups, uint32((n+each-1)/each))
	}
	return groups
}

func partialBytes(groups []uint32) uint64 {
	pairs := uint64(1)
	for _, g := range groups {
		pairs += uint64(g)
	}
	return 8 * pairs
}

// unplaced is the leaves of a model without their places on a device, and their paths.
func unplaced(model []buffers.Spec) (leaves []buffers.Leaf, paths []string) {
	for i, s := range model {
		leaves = append(leaves, buffers.Leaf{Path: s.Path, Shape: s.Shape, Index: i})
		paths = append(paths, s.Path)
	}
	return leaves, paths
}
