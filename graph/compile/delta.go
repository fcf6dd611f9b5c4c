package compile

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/shaders"
)

func init() {
	Register(graph.GatedDelta{}, Lowering{Lower: lowerGatedDelta, Checks: deltaChecks})
	Register(graph.GatedDeltaGrad{}, Lowering{Lower: lowerGatedDeltaGrad})
	Register(graph.CachedDelta{}, Lowering{Lower: lowerCachedDelta, InPlace: map[int]int{1: 0}})
}

var deltaChecks = []Check{
	{Name: "gated delta", Tolerance: 1024, Build: func(g *graph.Graph) []*graph.Value {
		return checkedDelta(g, graph.GatedDelta{Heads: 4, KeyHeads: 2, KeyDim: 8, ValueDim: 12, Chunk: 16}, 2, 41)
	}},
	{Name: "gated delta of odd heads", Tolerance: 1024, Build: func(g *graph.Graph) []*graph.Value {
		return checkedDelta(g, graph.GatedDelta{Heads: 3, KeyHeads: 3, KeyDim: 6, ValueDim: 5, Chunk: 8}, 1, 19)
	}},
	{Name: "gated delta of documents", Tolerance: 2048, Given: map[string][]float64{"positions": checkedDocuments(1, 70)}, Build: func(g *graph.Graph) []*graph.Value {
		return checkedDelta(g, graph.GatedDelta{Heads: 2, KeyHeads: 1, KeyDim: 8, ValueDim: 20, Chunk: 16, Documents: true}, 1, 70)
	}},
	{Name: "gated delta with states", Tolerance: 256, Given: checkedPasses, Build: func(g *graph.Graph) []*graph.Value {
		op := graph.GatedDelta{Heads: 4, KeyHeads: 2, KeyDim: 6, ValueDim: 9}
		in := []*graph.Value{checkedInput(g, "state", 3, 4, 6, 9), checkedInts(g, "row", 1, 9), checkedInts(g, "positions", 1, 9)}
		return g.Append(graph.CachedDelta(op), append(in, deltaOperands(g, op, 1, 9)...)...).Outputs
	}},
}

// deltaOperands are of the sizes that norms and gates give.
func deltaOperands(g *graph.Graph, op graph.GatedDelta, b, t int) []*graph.Value {
	unit := func(name string) *graph.Value {
		x := g.Reshape(checkedInput(g, name, b, t, op.KeyHeads*op.KeyDim), b*t*op.KeyHeads, op.KeyDim)
		ones := g.BroadcastTo(g.Constant(1), op.KeyDim)
		return g.Reshape(g.Scale(g.RMSNorm(x, ones, 1e-6), 1/float64(op.KeyDim)), b, t, op.KeyHeads*op.KeyDim)
	}
	return []*graph.Value{
		g.Scale(unit("q"), float64(op.KeyDim)), g.Scale(unit("k"), 2), checkedInput(g, "v", b, t, op.Heads*op.ValueDim),
		g.Scale(g.Apply("abs", checkedInput(g, "g", b, t, op.Heads)), -0.5), g.Apply("sigmoid", checkedInput(g, "beta", b, t, op.Heads)),
	}
}

// checkedDelta is the outputs and the gradients over inputs of its own.
func checkedDelta(g *graph.Graph, op graph.GatedDelta, b, t int) []*graph.Value {
	in := deltaOperands(g, op, b, t)
	if op.Documents {
		in = append(in, checkedInts(g, "positions", b, t))
	}
	n := g.Append(op, in...)
	grad := g.Append(graph.GatedDeltaGrad(op), append(in, n.Outputs[1], checkedInput(g, "do", b, t, op.Heads*op.ValueDim))...)
	return slices.Concat(n.Outputs, grad.Outputs)
}

// deltaParams is Params of shared/delta.wgsl.
type deltaParams struct{ T, Chunks, Heads, Group, C, Key4, Value4 uint32 }

// deltaKernels says how the kernels of one GatedDelta are made and called.
type deltaKernels struct {
	op       graph.GatedDelta
	b, t     int
	backward bool
}

func quadsOf(n int) int { return (n + 3) / 4 }

func (d deltaKernels) scalar() bool { return d.op.KeyDim%4 != 0 || d.op.ValueDim%4 != 0 }

// stride is how many quads work has of a chunk of a head.
func (d deltaKernels) stride() int {
	c := d.op.Chunk
	quads := 7*c/4 + 1 + 2*c*c/4
	if d.backward {
		quads += c*c/4 + 2*c*quadsOf(d.op.ValueDim)
	}
	return quads
}

// work is where chunks keep what kernels tell one another.
func (d deltaKernels) work(c *Compiler) rowOperand {
	return rowOperand{tensor: c.workspace("chunks", d.b, d.op.Heads*d.op.Chunks(d.t)*d.stride()*4), name: "chunks"}
}

func (d deltaKernels) params() deltaParams {
	return deltaParams{
		uint32(d.t), uint32(d.op.Chunks(d.t)), uint32(d.op.Heads), uint32(d.op.Heads / d.op.KeyHeads),
		uint32(d.op.Chunk), uint32(quadsOf(d.op.KeyDim)), uint32(quadsOf(d.op.ValueDim)),
	}
}

// variant has what all kernels have in common, and constants besides.
func (d deltaKernels) variant(flags map[string]bool, constants map[string]int) shaders.Variant {
	v := shaders.Variant{Flags: map[string]bool{"SCALAR": d.scalar()}, Constants: map[string]string{"ELEMENT": "vec4<f32>"}}
	if d.scalar() {
		v.Constants["ELEMENT"] = "f32"
	}
	maps.Copy(v.Flags, flags)
	for name, n := range map[string]int{
		"CHUNK": d.op.Chunk, "KEY_DIM": d.op.KeyDim, "VALUE_DIM": d.op.ValueDim, "KEY4": quadsOf(d.op.KeyDim), "VALUE4": quadsOf(d.op.ValueDim), "STRIDE": d.stride(),
	} {
		v.Constants[name] = strconv.Itoa(n)
	}
	for name, n := range constants {
		v.Constants[name] = strconv.Itoa(n)
	}
	return v
}

// dispatch runs one of the kernels.
func (d deltaKernels) dispatch(c *Compiler, name, suffix string, grid gpu.Grid, v shaders.Variant, bind ...Span) {
	k := c.kernel(name, fmt.Sprintf("_%dx%d", d.op.KeyDim, d.op.ValueDim)+suffix, v)
	c.Dispatch(k, grid, d.params(), bind...)
}

// heads is a grid of chunks by heads of rows.
func (d deltaKernels) heads(x int) gpu.Grid {
	return gpu.Grid{X: uint32(x), Y: uint32(d.b * d.op.Heads), Z: 1}
}

// chunks computes what chunks have before any state is known.
func (d deltaKernels) chunks(c *Compiler, q, k, g, beta Span, positions []Span, work Span) {
	block, suffix := 8, ""
	if d.op.KeyDim > 128 {
		block = 4
	}
	if d.op.Documents {
		suffix = "_documents"
	}
	v := d.variant(map[string]bool{"BACK": d.backward, "DOCUMENTS": d.op.Documents}, map[string]int{
		"BLOCK": block, "KEYS": block * quadsOf(d.op.KeyDim), "LOWER": d.op.Chunk * (d.op.Chunk - 1) / 2,
	})
	d.dispatch(c, "delta_chunks", suffix, d.heads(d.op.Chunks(d.t)), v, slices.Concat([]Span{q, k, g, beta}, positions, []Span{work})...)
}

// columns are the quads of columns of a workgroup that goes from chunk to chunk, and its constants: state and tile are in its memory.
func (d deltaKernels) columns() (grid gpu.Grid, constants map[string]int) {
	q := min(4, quadsOf(d.op.ValueDim), 256/d.op.Chunk)
	for q > 1 && q*(4*quadsOf(d.op.KeyDim)+d.op.Chunk)*16 > 16<<10 { // what all devices have
		q--
	}
	rows := 4 * quadsOf(d.op.KeyDim)
	return d.heads((quadsOf(d.op.ValueDim) + q - 1) / q), map[string]int{"QUADS": q, "STATE": rows * q, "TILE": d.op.Chunk * q, "LANES": d.op.Chunk * q}
}

func lowerGatedDelta(c *Compiler, n *graph.Node) {
	op, shape := n.Op.(graph.GatedDelta), n.Outputs[0].Shape()
	if graph.Elements(shape) == 0 {
		return
	}
	whole := deltaKernels{op: op, b: shape[0], t: shape[1]}
	states := c.used(n.Outputs[1])
	operands := slices.Concat(c.rowOperands("operand", n.Inputs[:5]...), c.rowOperands("result", n.Outputs[0]), []rowOperand{whole.work(c)}, c.documents(op.Documents, n.Inputs[5:]))
	if states {
		operands = append(operands, c.rowOperands("states", n.Outputs[1])...)
	}
	c.rowwise(operands, func(share func(int) int, s []Span) {
		d := whole
		d.b = share(shape[0])
		q, k, v, g, beta, o, work, rest := s[0], s[1], s[2], s[3], s[4], s[5], s[6], s[7:]
		var positions []Span
		if op.Documents {
			positions, rest = rest[:1], rest[1:]
		}
		d.chunks(c, q, k, g, beta, positions, work)
		grid, constants := d.columns()
		d.dispatch(c, "delta", "", grid, d.variant(map[string]bool{"AGAIN": false, "STATES": states}, constants), append([]Span{q, k, v, work, o}, rest...)...)
	})
}

func lowerGatedDeltaGrad(c *Compiler, n *graph.Node) {
	op, shape := graph.GatedDelta(n.Op.(graph.GatedDeltaGrad)), n.Inputs[0].Shape()
	if n.Outputs[2].Type().Elements() == 0 {
		return
	}
	whole := deltaKernels{op: op, b: shape[0], t: shape[1], backward: true}
	dstates := rowOperand{tensor: c.workspace("states", n.Inputs[len(n.Inputs)-2].Shape()...), name: "states"}
	operands := slices.Concat(
		c.rowOperands("operand", n.Inputs[:5]...), c.rowOperands("operand", n.Inputs[len(n.Inputs)-2:]...), c.rowOperands("result", n.Outputs...),
		[]rowOperand{whole.work(c), dstates}, c.documents(op.Documents, n.Inputs[5:len(n.Inputs)-2]),
	)
	c.rowwise(operands, func(share func(int) int, s []Span) {
		d := whole
		d.b = share(shape[0])
		q, k, v, g, beta, states, dout := s[0], s[1], s[2], s[3], s[4], s[5], s[6]
		dq, dk, dv, dg, dbeta, work, dstates, positions := s[7], s[8], s[9], s[10], s[11], s[12], s[13], s[14:]
		chunks := op.Chunks(d.t)
		d.chunks(c, q, k, g, beta, positions, work)
		grid, constants := d.columns()
		again := grid
		again.Z = uint32(chunks)
		d.dispatch(c, "delta", "_again", again, d.variant(map[string]bool{"AGAIN": true, "STATES": false}, constants), k, v, states, work)
		d.dispatch(c, "delta_back", "", grid, d.variant(nil, constants), q, k, dout, work, dstates, dv)
		values := quadsOf(op.ValueDim)
		d.dispatch(c, "delta_pairs", "", d.heads(chunks), d.variant(nil, map[string]int{"ROWS": 8 * values, "TERMS": 8 * op.Chunk}), v, dout, work)
		turn := 2 // quads of keys at a time
		if values > 32 || op.KeyDim <= 4 {
			turn = 1
		}
		keys := gpu.Grid{X: uint32(chunks), Y: uint32(d.b * op.KeyHeads), Z: 1}
		d.dispatch(c, "delta_keys", "", keys, d.variant(nil, map[string]int{"STATE": 4 * turn * values, "TURN": turn, "TILE": turn * op.Chunk}), q, k, states, dstates, dout, work, dq, dk)
		gates := d.variant(nil, nil) // reads no vectors
		delete(gates.Flags, "SCALAR")
		delete(gates.Constants, "ELEMENT")
		d.dispatch(c, "delta_gates", "", c.Linear(d.b*d.t*op.Heads), gates, work, dg, dbeta)
	})
}

// lowerCachedDelta is a workgroup a head of a row and 64 columns.
func lowerCachedDelta(c *Compiler, n *graph.Node) {
	op, rows := n.Op.(graph.CachedDelta), n.Inputs[0].Shape()[0]
	state, out := c.kept(n.Inputs[0]), c.One(c.Out(n.Outputs[0]), "o")
	if c.err != nil || n.Outputs[0].Type().Elements() == 0 {
		return
	}
	order, operands := c.ordered(n.Inputs[1], n.Inputs[2], rows), c.spans(n.Inputs[3:])
	c.zero(out) // of idle tokens
	k := c.kernel("delta_cached", fmt.Sprintf("_%dx%d", op.KeyDim, op.ValueDim), shaders.Variant{Constants: map[string]string{
		"KEY_DIM": strconv.Itoa(op.KeyDim), "VALUE_DIM": strconv.Itoa(op.ValueDim),
	}})
	grid := gpu.Grid{X: tiles(op.ValueDim, 64), Y: uint32(op.Heads), Z: uint32(rows)}
	c.Dispatch(k, grid, struct{ Heads, Group, KeyDim uint32 }{uint32(op.Heads), uint32(op.Heads / op.KeyHeads), uint32(op.KeyDim)}, slices.Concat([]Span{order}, operands, []Span{state, out})...)
}
