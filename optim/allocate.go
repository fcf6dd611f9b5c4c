package optim

import (
	"fmt"
	"slices"
	"strings"

	"gputrain/buffers"
	"gputrain/gpu"
)

// Init makes the state of params on the params' device, at its initial values. Errors: the errors of construction, a
// mask or rate that fits no path, no memory.
func (t Transform) Init(params *buffers.Tree) (*State, error) {
	if params == nil {
		return nil, fmt.Errorf("optim: %s: init: params: found none, wanted a tree", t.Name())
	}
	return t.InitStage(params, specs(params.Layout().Leaves()))
}

// Check is Init without a tree: it finds the errors of the transformation for a model of these leaves, as far as rules
// and shapes tell.
func (t Transform) Check(model []buffers.Spec) error {
	return t.scenes(model, func(o Operator, on Scene) error {
		if o, ok := o.(interface{ Check(s Scene) error }); ok {
			return o.Check(on)
		}
		return nil
	})
}

// scenes goes through the operators and what each works on in a model of these leaves, without a device.
func (t Transform) scenes(model []buffers.Spec, do func(o Operator, on Scene) error) error {
	p, err := newPlan(t)
	if err != nil {
		return err
	}
	whole := t.whole(model)
	leaves := unplaced(whole.leaves)
	r, err := p.resolve(leaves, whole)
	if err != nil {
		return err
	}
	for _, step := range p.steps {
		if step.operator == nil {
			continue
		}
		on, err := p.scene(step, nil, nil, leaves, whole, r)
		if err == nil {
			err = do(step.operator, on)
		}
		if err != nil {
			return fmt.Errorf("optim: %s: %s: %w", t.name, step.Name, err)
		}
	}
	return nil
}

// InitStage is Init for a tree that is one stage of a model; whole is the leaves of all stages, which masks and rates
// speak of, and by which blocks are counted. Frozen leaves may be among them.
func (t Transform) InitStage(params *buffers.Tree, whole []buffers.Spec) (*State, error) {
	return t.initStage(params, t.whole(whole))
}

// wholeModel is the leaves of all stages, made once for them.
type wholeModel struct {
	leaves []buffers.Spec // in the tree's own order
	paths  []string       // of these

	trained []buffers.Spec // in order of their paths
	own     []string       // of these
	byPath  map[string]buffers.Spec
}

func (t Transform) whole(leaves []buffers.Spec) wholeModel {
	w := wholeModel{leaves: t.model(leaves), byPath: map[string]buffers.Spec{}}
	w.trained = byPath(t.Trained(w.leaves))
	w.paths, w.own = pathsOf(w.leaves), pathsOf(w.trained)
	for _, l := range w.leaves {
		w.byPath[l.Path] = l
	}
	return w
}

// facing are leaves with what the model says of how matrices lie, where their tree does not know.
func (w wholeModel) facing(leaves []buffers.Leaf) []buffers.Leaf {
	leaves = slices.Clone(leaves)
	for i, l := range leaves {
		said := w.byPath[l.Path]
		leaves[i].OutIn, leaves[i].InOut, leaves[i].Scanned = l.OutIn || said.OutIn, l.InOut || said.InOut, l.Scanned || said.Scanned
	}
	return leaves
}

func (t Transform) initStage(params *buffers.Tree, whole wholeModel) (*State, error) {
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
	s := &State{plan: p, device: params.Device(), layout: params.Layout(), counts: p.newCounts(), kernels: map[job]*fused{}, whole: whole.own}
	if s.places, err = whole.places(params.Layout().Leaves()); err != nil {
		return nil, fmt.Errorf("optim: %s: params: %w", t.name, err)
	}
	if err := s.allocate(r, whole); err != nil {
		s.Release()
		return nil, fmt.Errorf("optim: %s: %w", t.name, err)
	}
	return s, nil
}

func (s *State) allocate(r *resolved, whole wholeModel) error {
	var subsets []*buffers.Layout
	for _, in := range r.chosen {
		subsets = append(subsets, s.layout.Subset(func(l buffers.Leaf) bool { return in[l.Index] }))
	}
	var err error
	if s.plan.codes() {
		if s.coded, err = buffers.NewCodedLayout(s.layout, codeBlock, codeLeast); err != nil {
			return err
		}
	}
	for _, step := range s.plan.steps {
		layout := s.layout
		if step.route >= 0 {
			layout = subsets[step.route]
		}
		for i, slot := range step.Slots {
			of := layout
			if slot.DType == buffers.U8 {
				of = s.coded.Layout
			}
			tree, err := newSlot(s.device, step.slotNames[i], of, slot)
			if err != nil {
				return err
			}
			s.trees = append(s.trees, namedTree{step.slotNames[i], tree, step.from})
		}
		if step.operator != nil {
			on, err := s.plan.scene(step, s.device, s.layout, s.layout.Leaves(), whole, r)
			if err != nil {
				return fmt.Errorf("%s: %w", step.Name, err)
			}
			on.earlier = s.operations
			o, err := step.operator.Open(on)
			if err != nil {
				return fmt.Errorf("%s: %w", step.Name, err)
			}
			s.operations = append(s.operations, o)
		}
	}
	if len(s.operations) > 0 {
		if s.updates, err = buffers.NewTree(s.device, "optim.updates", s.layout, buffers.F32); err != nil {
			return err
		}
	}
	if s.scalars, err = s.device.NewUniform("gputrain.optim.scalars", s.plan.uniformBytes()); err != nil {
		return err
	}
	groups := make([][]uint32, len(s.layout.Slabs()))
	if len(s.plan.measured) > 0 {
		groups, _ = groupTables(s.layout)
	}
	var rows *rowTables
	if s.plan.rows >= 0 {
		t := s.plan.steps[s.plan.rows].rows.tables(s.layout, r.rows, r.count)
		if s.rowSums, err = s.device.NewBuffer("gputrain.optim.row_sums", t.bytes()); err != nil {
			return err
		}
		rows, s.rows = &t, r.rows
	}
	for slab := range s.layout.Slabs() {
		at := slabTable{values: s.plan.tableValues(s.layout, slab)}
		at.rows = at.values + uint32(len(r.values))
		at.groups = at.rows
		var words []uint32
		if rows != nil {
			words = slices.Concat(make([]uint32, rowWords(r.count)), rows.groups[slab], rows.matrices[slab])
			at.rowGroups, at.rowGroupCount = at.rows+uint32(rowWords(r.count)), uint32(len(rows.groups[slab])/groupOfRow)
			at.matrices, at.matrixCount = at.rowGroups+uint32(len(rows.groups[slab])), uint32(len(rows.matrices[slab])/matrixWord)
			at.groups += uint32(len(words))
		}
		at.codes = at.groups + uint32(len(groups[slab]))
		words = append(words, groups[slab]...)
		if s.coded != nil {
			blocks := codeTable(s.layout, slab)
			words, at.coded = append(words, blocks...), uint32(len(blocks))
		}
		if at.buffer, err = s.device.NewBuffer(fmt.Sprintf("gputrain.optim.table.%d", slab), 4*(uint64(at.rows)+uint64(len(words)))); err != nil {
			return err
		}
		s.tables = append(s.tables, at)
		if s.device.Dry() {
			continue
		}
		if err := s.device.Write(at.buffer.All(), gpu.Bytes(append(s.plan.table(s.layout, slab, r, subsets, s.coded), words...))); err != nil {
			return err
		}
	}
	if len(s.plan.measured) > 0 {
		s.measurements, err = newMeasurements(s.device, s.plan, s.layout, len(s.whole))
	}
	return err
}

// newSlot makes a tree of state with its initial value.
func newSlot(dev *gpu.Device, name string, layout *buffers.Layout, s Slot) (*buffers.Tree, error) {
	tree, err := buffers.NewTree(dev, "optim."+name, layout, s.DType)
	if err != nil || s.Initial == 0 || dev.Dry() {
		return tree, err
	}
	for _, leaf := range layout.Leaves() {
		data := make([]float32, leaf.Elements())
		for i := range data {
			data[i] = float32(s.Initial)
		}
		if err := tree.Write(leaf.Path, data); err != nil {
			tree.Release()
			return nil, err
		}
	}
	return tree, nil
}

// scene is the scene of a step's operator.
func (p *plan) scene(s step, dev *gpu.Device, layout *buffers.Layout, leaves []buffers.Leaf, whole wholeModel, r *resolved) (Scene, error) {
	leaves = whole.facing(leaves)
	c := Scene{Device: dev, Layout: layout, Leaves: leaves, Whole: whole.leaves, Frozen: p.transform.freezes, Chosen: make([]bool, len(leaves))}
	for i := range c.Chosen {
		c.Chosen[i] = s.route < 0 || r.chosen[s.route][i]
	}
	if s.route < 0 {
		return c, nil
	}
	in, err := chosen(p.routes[s.route], unplaced(whole.leaves), whole.paths)
	if err != nil {
		return c, err
	}
	c.Whole = nil
	for i, spec := range whole.leaves {
		if in[i] {
			c.Whole = append(c.Whole, spec)
		}
	}
	return c, nil
}

func specs(leaves []buffers.Leaf) []buffers.Spec {
	out := make([]buffers.Spec, len(leaves))
	for i, l := range leaves {
		out[i] = l.Spec()
	}
	return out
}

// unplaced is the leaves of a model without their places on a device.
func unplaced(model []buffers.Spec) (leaves []buffers.Leaf) {
	for i, s := range model {
		leaves = append(leaves, buffers.Leaf{Path: s.Path, Shape: s.Shape, OutIn: s.OutIn, InOut: s.InOut, Scanned: s.Scanned, Index: i})
	}
	return leaves
}

// byPath is the canonical order of a model's leaves.
func byPath(whole []buffers.Spec) []buffers.Spec {
	return slices.SortedFunc(slices.Values(whole), func(a, b buffers.Spec) int { return strings.Compare(a.Path, b.Path) })
}

// pathsOf are the paths of leaves.
func pathsOf(leaves []buffers.Spec) []string {
	paths := make([]string, len(leaves))
	for i, l := range leaves {
		paths[i] = l.Path
	}
	return paths
}

// places tells where the leaves of a stage stand among the trained leaves of the whole model.
func (w wholeModel) places(leaves []buffers.Leaf) (places []int, err error) {
	for _, l := range leaves {
		at, found := slices.BinarySearch(w.own, l.Path)
		if !found || !slices.Equal(w.trained[at].Shape, l.Shape) {
			return nil, fmt.Errorf("leaf %q of shape %v: found no such leaf in the whole model of %d", l.Path, l.Shape, len(w.trained))
		}
		places = append(places, at)
	}
	return places, nil
}
