package compile

import (
	"context"
	"fmt"
	"slices"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph"
)

// Compiler lowers the live nodes of a graph to commands over symbolic storages, then plans the buffers behind them.
// It needs no device: New and PlanNarrow run the same code.
type Compiler struct {
	targets []Target
	named   []Target // those without a leaf
	limits  gpu.Limits

	ctx         context.Context                   // looked at between nodes, units and storages
	dev         *gpu.Device                       // nil when only planning; for lowerings that choose between variants by measuring
	materialize bool                              // constant tables are wanted, not just their sizes
	accumulate  bool                              // leaf targets add
	params      []*buffers.Layout                 // each param is in one of them, the first that has it
	narrow      map[*buffers.Layout]buffers.DType // of those that are not in f32
	tables      map[string]table                  // params that the host keeps
	grads       *buffers.Layout
	bound       map[string]gpu.Range    // inputs and targets in the caller's buffers
	boundAt     map[*graph.Value]Target // the first of those targets at each root value

	bf16     bool                            // some values are in BF16, or some workspace
	live     []*graph.Node                   // what the targets need, in graph order
	readers  map[*graph.Value][]*graph.Node  // live readers of a value, without eliminated adds
	reshaped map[*graph.Value][]*graph.Value // what reshapes make of a root value
	names    map[*graph.Value]bool           // values with a named target
	pins     map[*graph.Value]bool           // what those are, or are views of
	sinks    map[*graph.Value][]*sink        // gradient leaves a value is delivered to
	dropped  map[*graph.Node]bool            // adds replaced by accumulation into a leaf
	inlined  map[*graph.Node]bool            // fusable nodes computed inside their readers' kernels
	summed   map[*graph.Node]*graph.Node     // sums over rows, and the products that make them
	units    []*unit
	chosen   map[gemmForm]gemmChoice
	current  int                  // index of the unit being lowered
	lastUse  map[*graph.Value]int // the last unit that reads the storage behind a root value

	places     map[*graph.Value]Tensor
	taken      map[unitStorage]bool  // by a unit's result from an operand
	halved     map[*graph.Value]bool // values that are kept in f16, or not: see halves.go
	halves     bool                  // some are
	halfParams uint64                // bytes of copies of all params that products read
	halfCopy   map[halfCopy]*storage // copies in f16
	inputs     map[string]*programInput
	constants  map[string]Tensor
	slabs      map[slabKey]*storage
	storages   []*storage
	commands   []command
	group      string

	visits  int      // of units, gaps and nodes of trees, by searches that could grow with the square of the graph
	planned []uint64 // bytes of the shared buffers
	plan    Plan
	err     error
}

// sink is one gradient leaf that wants a value.
type sink struct {
	leaf       buffers.Leaf
	path       string
	accumulate bool
}

func newCompiler(g *graph.Graph, targets []Target, lim gpu.Limits) (*Compiler, error) {
	if err := g.Err(); err != nil {
		return nil, err
	}
	c := &Compiler{
		targets: targets, limits: lim, ctx: context.Background(),
		readers: map[*graph.Value][]*graph.Node{}, reshaped: map[*graph.Value][]*graph.Value{}, names: map[*graph.Value]bool{}, pins: map[*graph.Value]bool{}, sinks: map[*graph.Value][]*sink{}, dropped: map[*graph.Node]bool{},
		inlined: map[*graph.Node]bool{}, summed: map[*graph.Node]*graph.Node{}, lastUse: map[*graph.Value]int{}, places: map[*graph.Value]Tensor{}, taken: map[unitStorage]bool{}, halved: map[*graph.Value]bool{}, halfCopy: map[halfCopy]*storage{}, inputs: map[string]*programInput{},
		constants: map[string]Tensor{}, slabs: map[slabKey]*storage{}, narrow: map[*buffers.Layout]buffers.DType{}, tables: map[string]table{},
	}
	if c.limits.StorageAlign == 0 {
		c.limits = gpu.DefaultLimits()
	}
	seen := map[string]bool{}
	for i, t := range targets {
		switch {
		case t.Value == nil:
			return nil, fmt.Errorf("graph: compile: target %d %q: no value", i, t.Name)
		case t.Leaf == "" && t.Name == "":
			return nil, fmt.Errorf("graph: compile: target %d: neither a name nor a leaf", i)
		case t.Leaf == "" && seen[t.Name]:
			return nil, fmt.Errorf("graph: compile: target %q: given twice", t.Name)
		case t.Leaf == "":
			seen[t.Name] = true
			c.names[t.Value] = true
			c.named = append(c.named, t)
		}
	}
	c.findLive()
	for v := range c.names {
		c.pins[c.root(v)] = true
	}
	return c, nil
}

// findLive collects the nodes that targets need, in graph order, and who reads what.
func (c *Compiler) findLive() {
	seen := map[*graph.Node]bool{}
	var visit func(n *graph.Node)
	visit = func(n *graph.Node) {
		if seen[n] {
			return
		}
		seen[n] = true
		for _, v := range n.Inputs {
			visit(v.Node())
		}
		c.live = append(c.live, n)
	}
	for _, t := range c.targets {
		visit(t.Value.Node())
	}
	slices.SortFunc(c.live, func(a, b *graph.Node) int { return a.ID - b.ID })
	for _, n := range c.live {
		for _, v := range n.Inputs {
			c.readers[v] = append(c.readers[v], n)
		}
		c.bf16 = c.bf16 || slices.ContainsFunc(n.Outputs, inBF16)
		if _, ok := n.Op.(graph.Reshape); ok {
			v := c.root(n.Outputs[0])
			c.reshaped[v] = append(c.reshaped[v], n.Outputs[0])
		}
	}
}

// run lowers everything and draws the plan.
func (c *Compiler) run() error {
	c.placeLeaves()
	if c.err == nil {
		c.fuse()
	}
	if !c.over() {
		c.order()
	}
	for i, u := range c.units {
		if c.over() {
			break
		}
		c.current = i
		c.group = c.groupName(u)
		u.lower(c)
	}
	c.group = ""
	for _, t := range c.named { // one may be an input that no unit reads
		c.place(t.Value)
	}
	if c.err == nil {
		c.widen()
	}
	if c.err == nil && (c.bf16 || c.halves) {
		c.storeBF16()
	}
	if !c.over() {
		c.allocate()
	}
	return c.err
}

// over tells whether the compilation has failed, or its context has ended, which is then its error.
func (c *Compiler) over() bool {
	if c.err == nil {
		c.err = context.Cause(c.ctx)
	}
	return c.err != nil
}

// fail records the first error of the compilation; the node being lowered names it.
func (c *Compiler) fail(format string, args ...any) { c.failErr(fmt.Errorf(format, args...)) }

func (c *Compiler) failErr(err error) {
	if c.err != nil {
		return
	}
	if c.group != "" {
		err = fmt.Errorf("%s: %w", c.group, err)
	}
	c.err = fmt.Errorf("graph: compile: %w", err)
}

func (c *Compiler) append(cmd command) {
	cmd.unit = c.current
	c.commands = append(c.commands, cmd)
}

// groupName is the profile group of a unit: the label of its first labelled node, of what is computed in its kernel, or of
// what it reads; the kind of its operation where none has one.
func (c *Compiler) groupName(u *unit) string {
	for _, n := range u.nodes {
		if placeName(n) != "" {
			return n.Label
		}
	}
	for _, n := range u.nodes {
		for _, v := range n.Inputs {
			if c.expands(v) && placeName(v.Node()) != "" {
				return v.Node().Label
			}
		}
	}
	for _, v := range u.reads {
		switch v.Node().Op.(type) {
		case graph.Input, graph.Param, graph.Constant:
			continue
		}
		if placeName(v.Node()) != "" {
			return v.Node().Label
		}
	}
	return u.nodes[0].Op.Kind()
}

// placeName is a node's label if it says where in the model the node is; gradients of unlabelled nodes are called "grad".
func placeName(n *graph.Node) string {
	if n.Label == "grad" {
		return ""
	}
	return n.Label
}

// newStorage makes a storage of at least the given bytes, refusing what no binding can hold.
func (c *Compiler) newStorage(kind storageKind, label string, size uint64) *storage {
	st := &storage{kind: kind, label: label, bytes: roundUp(max(size, spanAlign), spanAlign), first: -1, last: -1, buffer: -1}
	if limit := c.largest(); st.bytes > limit {
		c.tooLarge(label, st.bytes, limit, "BindingBytes", "the batch or the context")
	}
	c.storages = append(c.storages, st)
	return st
}

func wholeTensor(st *storage, shape []int, d buffers.DType) Tensor {
	t := Tensor{Shape: shape, DType: d}
	if graph.Elements(shape) > 0 {
		t.Parts = []Part{{Rows: t.rows(), Span: Span{st: st, Bytes: roundUp(typeBytes(shape, d), spanAlign)}}}
	}
	return t
}

// place is where a value lives, decided at the first question: views follow what they view, inputs and params their own
// memory, leaf targets the grads tree, everything else a fresh storage.
func (c *Compiler) place(v *graph.Value) Tensor {
	if t, ok := c.places[v]; ok {
		return t
	}
	t := c.placeNew(v)
	t.Shape, t.DType = v.Shape(), v.DType()
	c.places[v] = t
	return t
}

func (c *Compiler) placeNew(v *graph.Value) Tensor {
	if in, ok := v.Node().Op.(graph.Input); ok {
		return c.input(in.Name, v).tensor
	}
	if p, ok := v.Node().Op.(graph.Param); ok {
		if _, ok := c.tables[p.Path]; ok {
			c.fail("param %q: found it read whole, wanted rows of it alone: the host keeps it", p.Path)
			return Tensor{}
		}
		if len(c.params) == 0 {
			c.fail("param %q: no params tree", p.Path)
			return Tensor{}
		}
		return c.leafTensor(c.layoutOf(p.Path), paramStorage, p.Path, p.Shape)
	}
	if t, ok := c.view(v); ok {
		return t
	}
	if in, ok := lowerings[v.Node().Op.Kind()].InPlace[v.Index()]; ok {
		return c.place(v.Node().Inputs[in])
	}
	if s := c.direct(v); s != nil {
		t := c.leafTensor(c.grads, gradStorage, s.path, s.leaf.Shape)
		t.Accumulate = s.accumulate
		return t
	}
	if name := c.boundTarget(v); name != "" {
		t, _ := c.newTensor(boundStorage, name, v)
		return t
	}
	kind := transientStorage
	if c.pinned(v) {
		kind = outputStorage
	}
	t, _ := c.newTensor(kind, c.valueLabel(v), v)
	return t
}

// layoutOf is the layout of the params that have a leaf; the first where none has.
func (c *Compiler) layoutOf(path string) *buffers.Layout {
	for _, layout := range c.params {
		if _, ok := layout.Leaf(path); ok {
			return layout
		}
	}
	return c.params[0]
}

// leafTensor is a leaf of the params or grads trees.
func (c *Compiler) leafTensor(layout *buffers.Layout, kind storageKind, path string, shape []int) Tensor {
	t := Tensor{Shape: shape, DType: buffers.F32}
	leaf, ok := layout.Leaf(path)
	if !ok {
		c.fail("leaf %q: not in the tree", path)
		return t
	}
	if !slices.Equal(leaf.Shape, shape) {
		c.fail("leaf %q: shape %v in the tree, want %v", path, leaf.Shape, shape)
		return t
	}
	for _, p := range leaf.Parts {
		st := c.slab(layout, kind, p.Slab)
		t.Parts = append(t.Parts, Part{
			Row: p.Row, Rows: p.Rows,
			Span: Span{st: st, Offset: uint64(p.Offset) * 4, Bytes: roundUp(uint64(p.Count)*4, spanAlign)},
		})
	}
	return t
}

func (c *Compiler) slab(layout *buffers.Layout, kind storageKind, index int) *storage {
	key := slabKey{kind, layout, index}
	if st, ok := c.slabs[key]; ok {
		return st
	}
	name := map[storageKind]string{paramStorage: "params", gradStorage: "grads"}[kind]
	if i := slices.Index(c.params, layout); kind == paramStorage && i > 0 {
		name = fmt.Sprintf("beside.%d", i-1)
	}
	st := &storage{
		kind: kind, label: fmt.Sprintf("%s.%d", name, index), bytes: uint64(layout.Slabs()[index]) * 4, slab: index,
		first: -1, last: -1, buffer: -1,
	}
	if d, ok := c.narrow[layout]; ok && kind == paramStorage {
		st.narrow, st.kept = layout, layout.SlabType(d, index)
	}
	c.slabs[key] = st
	return st
}

// wanted is whether a target names v itself.
func (c *Compiler) wanted(v *graph.Value) bool { return c.names[v] || len(c.sinks[v]) > 0 }

// pinned is whether the storage of a root value must outlive the program: a named target is it, or a view of it.
func (c *Compiler) pinned(v *graph.Value) bool { return c.pins[v] }

func (c *Compiler) valueLabel(v *graph.Value) string {
	name := c.group
	if name == "" {
		name = v.Node().Op.Kind()
	}
	if v.Node().Label == "" {
		return fmt.Sprintf("%s.%d", name, v.Node().ID)
	}
	if len(v.Node().Outputs) > 1 {
		return fmt.Sprintf("%s.%s.%d", name, v.Node().Op.Kind(), v.Index())
	}
	return fmt.Sprintf("%s.%s", name, v.Node().Op.Kind())
}
