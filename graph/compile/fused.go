package compile

import (
	"slices"
	"strings"

	"gputrain/buffers"
	"gputrain/graph"
	"gputrain/shaders"
)

// Nodes that compute an element from a bounded number of operand elements fuse: arithmetic, and the moves (broadcast,
// transpose, slice, pad, concat) that only change where an element is read. A node computed inside its readers' kernels
// is "inlined"; the others are roots, one kernel each. Inlining a node into its only reader is always a saving of memory
// traffic; into several, the node is computed again in each, so it must be cheap, and must not keep more alive than its
// own result would be.

// maxFusedCalls bounds a kernel's text and registers; chosen, not measured.
const maxFusedCalls = 48

// maxFusedLoads bounds the operands of a fused kernel below what every device binds (see gpu.DefaultLimits).
const maxFusedLoads = 12

func fusable(n *graph.Node) bool { return lowerings[n.Op.Kind()].fuse != nil }

// again is whether computing n in several kernels costs less than reading its result. A GPU has the arithmetic at hand while it waits for
// memory: it may compute any function of one operand that others read too.
func (c *Compiler) again(n *graph.Node) bool {
	_, function := n.Op.(graph.Elementwise)
	return cheap(n) || !c.limits.Software && function && len(n.Inputs) == 1 && len(c.readers[n.Inputs[0]]) > 1
}

func cheap(n *graph.Node) bool { return lowerings[n.Op.Kind()].cheap(n) }

// fuse decides which nodes are inlined, from the readers towards the inputs.
func (c *Compiler) fuse() {
	roots := map[*graph.Node][]*graph.Node{}
	for _, n := range slices.Backward(c.live) {
		if c.over() {
			return
		}
		if !fusable(n) || c.dropped[n] || c.viewed(n.Outputs[0]) != nil {
			continue
		}
		v := n.Outputs[0]
		if c.wanted(v) || len(c.readers[v]) == 0 {
			continue
		}
		into, ok := c.rootsOf(v, roots)
		if !ok || len(into) > 1 && !(c.again(n) && c.largeInputs(n) <= 1) || !cheap(n) && c.replicated(n) {
			continue
		}
		c.inlined[n] = true
		for _, r := range into {
			if loads, calls := c.weigh(r); loads > min(maxFusedLoads, c.limits.StorageBuffers-1) || calls > maxFusedCalls {
				c.inlined[n] = false
			}
		}
		if c.inlined[n] {
			roots[n] = into
		}
	}
}

// rootsOf are the kernels that would compute v if it were inlined; false when some reader cannot.
func (c *Compiler) rootsOf(v *graph.Value, roots map[*graph.Node][]*graph.Node) ([]*graph.Node, bool) {
	var into []*graph.Node
	for _, r := range c.readers[v] {
		switch {
		case c.inlined[r]:
			for _, root := range roots[r] {
				if !slices.Contains(into, root) {
					into = append(into, root)
				}
			}
		case fusable(r) && c.viewed(r.Outputs[0]) == nil || lowerings[r.Op.Kind()].prologue:
			if !slices.Contains(into, r) {
				into = append(into, r)
			}
		default:
			return nil, false
		}
	}
	return into, true
}

// largeInputs counts the inputs as large as the result, params (which live anyway) not among them.
func (c *Compiler) largeInputs(n *graph.Node) int {
	count := 0
	for _, v := range n.Inputs {
		if _, param := c.root(v).Node().Op.(graph.Param); !param && v.Type().Elements() >= n.Outputs[0].Type().Elements() {
			count++
		}
	}
	return count
}

// replicated is whether some kernel that would compute n's result broadcasts it, and computes it once for every copy.
func (c *Compiler) replicated(n *graph.Node) bool {
	v := n.Outputs[0]
	for _, r := range c.readers[v] {
		if lowerings[r.Op.Kind()].repeats && r.Outputs[0].Type().Elements() > v.Type().Elements() {
			return true
		}
		if c.inlined[r] && c.replicated(r) {
			return true
		}
	}
	return false
}

// weigh counts the loads and the calls of the kernel that computes a root.
func (c *Compiler) weigh(root *graph.Node) (loads, calls int) {
	seen := map[*graph.Value]bool{}
	var visit func(v *graph.Value)
	visit = func(v *graph.Value) {
		switch {
		case seen[v]:
			return
		case !c.expands(v):
			loads++
		default:
			calls++
			for _, in := range v.Node().Inputs {
				visit(in)
			}
		}
		seen[v] = true
	}
	for _, in := range root.Inputs {
		visit(in)
	}
	return loads, calls
}

// expands is whether v is computed in the kernels that read it.
func (c *Compiler) expands(v *graph.Value) bool {
	_, constant := v.Node().Op.(graph.Constant)
	return constant || c.inlined[v.Node()]
}

// loads are the values that the kernel computing n reads, each once.
func (c *Compiler) loads(n *graph.Node) []*graph.Value {
	var out []*graph.Value
	seen := map[*graph.Value]bool{}
	var visit func(v *graph.Value)
	visit = func(v *graph.Value) {
		if seen[v] {
			return
		}
		seen[v] = true
		if !c.expands(v) {
			out = append(out, v)
			return
		}
		for _, in := range v.Node().Inputs {
			visit(in)
		}
	}
	for _, v := range n.Inputs {
		visit(v)
	}
	return out
}

// lowerFused emits the kernel of a root.
func (c *Compiler) lowerFused(n *graph.Node) {
	out := n.Outputs[0]
	c.emitFused(out, c.Out(out), func(f *fused) *ir { return f.computed(out, f.identity()) })
}

// deliver copies or adds a value to a leaf that its own kernel does not write.
func (c *Compiler) deliver(v *graph.Value, s *sink) {
	t := c.leafTensor(c.grads, gradStorage, s.path, s.leaf.Shape)
	t.Shape = v.Shape()
	t.Accumulate = s.accumulate
	c.emitFused(nil, t, func(f *fused) *ir { return f.value(v, f.identity()) })
}

// emitFused dispatches one kernel for each run of rows that no operand's or result's parts cut. v is nil for a delivery.
func (c *Compiler) emitFused(v *graph.Value, out Tensor, build func(f *fused) *ir) {
	c.emitRows(v, out, run{length: out.rows()}, build)
}

// emitRows is emitFused for some rows.
func (c *Compiler) emitRows(v *graph.Value, out Tensor, rows run, build func(f *fused) *ir) {
	whole := newFused(c, out.Shape)
	build(whole)
	runs := whole.runs(append(slices.Clone(out.Parts), Part{Row: rows.start}, Part{Row: rows.start + rows.length})...)
	for _, r := range runs {
		if r.start < rows.start || r.start >= rows.start+rows.length {
			continue
		}
		f := whole
		if len(runs) > 1 {
			f = newFused(c, append([]int{r.length}, out.Shape[1:]...))
			f.firstRow = r.start
		}
		f.out, f.result = out, v
		f.dispatch(build(f))
	}
}

// runs cuts the rows of a whole domain where an operand's next part begins, or one of the given ones.
func (f *fused) runs(parts ...Part) (out []run) {
	cuts := []int{0, f.rows()}
	for _, p := range parts {
		cuts = append(cuts, p.Row)
	}
	for _, l := range f.loads {
		cuts = append(cuts, l.cuts()...)
	}
	slices.Sort(cuts)
	cuts = slices.Compact(cuts)
	for i := 1; i < len(cuts); i++ {
		if cuts[i-1] >= 0 && cuts[i] <= f.rows() {
			out = append(out, run{start: cuts[i-1], length: cuts[i] - cuts[i-1]})
		}
	}
	return out
}

// dispatch writes and runs the elementwise kernel of one run of rows.
func (f *fused) dispatch(root *ir) {
	c := f.c
	part := f.out.Parts[0]
	for _, p := range f.out.Parts {
		if p.Row <= f.firstRow {
			part = p
		}
	}
	if f.out.DType == buffers.BF16 {
		root = unrounded(root)
	}
	f.collapse(root, f.paddable(part))
	start := (f.firstRow - part.Row) * f.out.width() // the result's first element in its part
	f.vec = f.vec && start%4 == 0
	f.chooseBindings(root, 1)
	part = f.takeOver(f.result, f.out, part, "result")
	v := shaders.Variant{Flags: map[string]bool{"ACCUMULATE": f.out.Accumulate}, Constants: map[string]string{}}
	k, params := f.kernel("elementwise", f.suffix(root), root, v, uint32(f.items()), uint32(start/f.lanes()))
	c.Dispatch(k, c.Linear(f.items()), params, append(f.spans(), part.Span)...)
}

// paddable is whether a last vec4 may run over the end: every storage is a multiple of 16 bytes, but the padding of a
// gradient leaf must stay zero.
func (f *fused) paddable(part Part) bool {
	return part.Span.st.kind != gradStorage && part.Row == f.firstRow && part.Rows == f.rows()
}

// suffix names the calls of a kernel for profiles.
func (f *fused) suffix(root *ir) string {
	var names []string
	f.visit(root, func(x *ir) {
		if x.kind == irCall && x.fn != roundBF16 || x.kind == irDropout {
			names = append(names, x.fn)
		}
	})
	if len(names) == 0 {
		return "_move"
	}
	if len(names) > 4 {
		names = append(names[:2], "etc", names[len(names)-1])
	}
	return "_" + strings.Join(names, "_")
}
