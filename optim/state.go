package optim

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"

	"gputrain/buffers"
	"gputrain/gpu"
)

// State is what a transformation remembers of one tree of params on its device: trees shaped like the params, what operators
// keep, and counts on the host. Beside it live the scalars of the call in hand, the statistics and a table of the leaves. It is not safe
// for concurrent use.
type State struct {
	plan    *plan
	device  *gpu.Device
	layout  *buffers.Layout
	trees   []NamedTree
	counts  map[string]int64
	rate    float64
	kernels map[job]*fused

	operations []operation   // one a segment but the last
	updates    *buffers.Tree // the update between segments; nil where there is one only

	scalars    *gpu.Buffer
	statistics *gpu.Buffer
	partials   *gpu.Buffer
	tables     []slabTable
	groups     []uint32 // pairs of partial sums of each slab
	leafSums   *leafSums
}

// NamedTree is one kind of elementwise state: "mu", "nu", "trace", "acc". It has the leaves that its element acts on.
type NamedTree struct {
	Name string
	Tree *buffers.Tree
}

type slabTable struct {
	buffer *gpu.Buffer
	values uint32
}

// Init makes the state of params on the params' device, at its initial values. Errors: those of construction, a mask or rate
// that fits no path, no memory.
func (t Transform) Init(params *buffers.Tree) (*State, error) {
	return t.InitStage(params, specs(params.Layout().Leaves()))
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
	all := make([]buffers.Leaf, len(whole))
	paths := make([]string, len(whole))
	for i, spec := range whole {
		all[i], paths[i] = buffers.Leaf{Path: spec.Path, Shape: spec.Shape, Index: i}, spec.Path
	}
	in, err := chosen(p.routes[s.route], all, paths)
	c.whole = nil
	for i, spec := range whole {
		if in[i] {
			c.whole = append(c.whole, spec)
		}
	}
	return c, err
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

// Trees lists the elementwise state, in a fixed order.
func (s *State) Trees() []NamedTree { return s.trees }

// Tensors lists all state as it is saved: "mu/h.0.ln_1.weight", "dense/Ql". To restore a state, write them all, and SetCounts.
func (s *State) Tensors() []buffers.Tensor {
	var out []buffers.Tensor
	for _, t := range s.trees {
		for _, leaf := range t.Tree.Layout().Leaves() {
			out = append(out, treeTensor(t.Name, t.Tree, leaf))
		}
	}
	for _, o := range s.operations {
		out = append(out, o.tensors()...)
	}
	return out
}

// Counts tells how often what has happened: "updates", "mini_step" where gradients are accumulated, and one count for each
// element of the chain that has scalars.
func (s *State) Counts() map[string]int64 { return maps.Clone(s.counts) }

// treeTensor is a leaf of a tree as it is saved.
func treeTensor(name string, tree *buffers.Tree, leaf buffers.Leaf) buffers.Tensor {
	return buffers.Tensor{
		Name: name + "/" + leaf.Path, DType: tree.DType(), Shape: leaf.Shape,
		Read:  func(ctx context.Context) ([]byte, error) { return tree.ReadRaw(ctx, leaf.Path) },
		Write: func(raw []byte) error { return tree.WriteRaw(leaf.Path, raw) },
	}
}

// SetCounts restores counts: exactly those that Counts has.
func (s *State) SetCounts(counts map[string]int64) error {
	for _, name := range slices.Sorted(maps.Keys(s.counts)) {
		if v, ok := counts[name]; !ok || v < 0 {
			return fmt.Errorf("optim: %s: counts: %q: found %d, wanted one not below 0", s.plan.transform.name, name, v)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if _, ok := s.counts[name]; !ok {
			return fmt.Errorf("optim: %s: counts: found %q, which this optimizer does not count", s.plan.transform.name, name)
		}
	}
	if k := int64(s.plan.transform.accumulate); k > 1 && counts[miniStepCount] >= k {
		return fmt.Errorf("optim: %s: counts: %q: found %d, wanted less than the %d calls of an update",
			s.plan.transform.name, miniStepCount, counts[miniStepCount], k)
	}
	s.counts = maps.Clone(counts)
	return nil
}

// Phase is what the next call does: Collect for the first k-1 of k calls, else Emit; whether an Emit is a Reuse, Prepare tells.
func (s *State) Phase() Phase { return s.plan.phase(s.counts) }

// Phases lists what Prepare can name; a trainer that submits prebuilt programs makes one for each.
func (s *State) Phases() []Phase {
	var phases []Phase
	if s.plan.transform.accumulate > 1 {
		phases = append(phases, Collect)
	}
	phases = append(phases, Emit)
	if slices.ContainsFunc(s.operations, operation.reuses) {
		phases = append(phases, Reuse)
	}
	return phases
}

// Prepare begins a call: it writes the call's scalars to the device, ordered before the next submit, advances the counts
// and tells what recording to submit. Rates and bias corrections are evaluated in float64.
func (s *State) Prepare() (Phase, error) {
	phase := s.Phase()
	values := s.plan.evaluate(s.counts)
	data := make([]byte, 0, s.plan.uniformBytes())
	for _, v := range values {
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(v)))
	}
	data = binary.LittleEndian.AppendUint32(data, uint32(s.counts[updatesCount]))
	if err := s.device.Write(s.scalars.All(), data[:s.plan.uniformBytes()]); err != nil {
		return phase, fmt.Errorf("optim: %s: scalars: %w", s.plan.transform.name, err)
	}
	if phase == Emit {
		s.rate = s.plan.rate(values)
		reuse, err := s.prepareOperations()
		if err != nil {
			return phase, fmt.Errorf("optim: %s: %w", s.plan.transform.name, err)
		}
		if reuse {
			phase = Reuse
		}
	}
	s.plan.advance(s.counts, phase)
	return phase, nil
}

// prepareOperations tells whether all operators that can reuse want to.
func (s *State) prepareOperations() (reuse bool, err error) {
	wanted, can, next := 0, 0, 0
	for _, step := range s.plan.steps {
		if step.operator == nil {
			continue
		}
		o := s.operations[next]
		next++
		r, err := o.prepare(s.counts[step.count])
		if err != nil {
			return false, fmt.Errorf("%s: %w", step.name, err)
		}
		if o.reuses() {
			can++
		}
		if r {
			wanted++
		}
	}
	return can > 0 && wanted == can, nil
}

// LearningRate is the rate of the last update that Prepare began; 0 before the first, and where the chain has none.
func (s *State) LearningRate() float64 { return s.rate }

// Statistics is where updates leave what they measured, StatisticsBytes for each place in the chain that measures: the
// first is the gradient's. It has no bytes where nothing measures.
func (s *State) Statistics() gpu.Range {
	if s.statistics == nil {
		return gpu.Range{}
	}
	return s.statistics.All()
}

// Bytes is what the state takes on the device, the tables beside it included: Transform.Bytes of the layout.
func (s *State) Bytes() uint64 {
	n := s.scalars.Bytes()
	for _, t := range s.trees {
		n += t.Tree.Bytes()
	}
	for _, t := range s.tables {
		n += t.buffer.Bytes()
	}
	if s.statistics != nil {
		n += s.statistics.Bytes() + s.partials.Bytes()
	}
	for _, o := range s.operations {
		n += o.bytes()
	}
	if s.updates != nil {
		n += s.updates.Bytes()
	}
	if s.leafSums != nil {
		n += s.leafSums.bytes()
	}
	return n
}

// Release gives the memory back.
func (s *State) Release() {
	for _, t := range s.trees {
		t.Tree.Release()
	}
	for _, t := range s.tables {
		t.buffer.Release()
	}
	for _, b := range []*gpu.Buffer{s.scalars, s.statistics, s.partials} {
		if b != nil {
			b.Release()
		}
	}
	for _, o := range s.operations {
		o.release()
	}
	if s.updates != nil {
		s.updates.Release()
	}
	if s.leafSums != nil {
		s.leafSums.release()
	}
	s.trees, s.tables, s.operations = nil, nil, nil
}
