package compile

import (
	"fmt"
	"strconv"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/shaders"
)

func init() {
	Register(graph.Router{}, Lowering{Lower: lowerRoute, Checks: expertChecks})
	Register(graph.RouteGrad{}, Lowering{Lower: lowerRouteGrad})
	Register(graph.Group{}, Lowering{Lower: lowerGroup})
	Register(graph.Spread{}, Lowering{Lower: lowerSpread})
	Register(graph.Combine{}, Lowering{Lower: lowerCombine})
	Register(graph.ChoiceDots{}, Lowering{Lower: lowerChoiceDots})
	Register(graph.RaggedMatMul{}, Lowering{Lower: lowerRaggedMatMul})
	Register(graph.RaggedOuter{}, Lowering{Lower: lowerRaggedOuter})
}

// groupChunk is how many choices an invocation of group_count goes through.
const groupChunk = 128

// expertsParams is Params of route.wgsl and route_grad.wgsl.
type expertsParams struct{ Count, Experts uint32 }

// groupParams is Params of group_count.wgsl, group_offsets.wgsl, group_place.wgsl and router_counts.wgsl.
type groupParams struct{ Choices, Experts, Chunks, PerRow uint32 }

// choiceParams is Params of spread.wgsl, combine.wgsl and choice_dots.wgsl.
type choiceParams struct{ Count, Width, Choices, Unused uint32 }

// raggedParams is Params of ragged_matmul.wgsl.
type raggedParams struct{ Inner, Outer, Experts, First, Count, Tiles uint32 }

// outerParams is Params of ragged_outer.wgsl.
type outerParams struct{ AWidth, BWidth, First, Unused uint32 }

// expertChecks go from logits through a mixture to all of its gradients, by tiles of both sizes and matrices as either family has them.
var expertChecks = []Check{
	{Name: "experts", Tolerance: 64, Build: func(g *graph.Graph) []*graph.Value { return checkedExperts(g, 70, 6, 3, 20, 36, false) }},
	{Name: "experts of few rows", Tolerance: 64, Build: func(g *graph.Graph) []*graph.Value { return checkedExperts(g, 3, 70, 5, 19, 67, true) }},
}

func checkedExperts(g *graph.Graph, rows, experts, k, in, out int, inOut bool) []*graph.Value {
	matrices := []int{experts, out, in}
	if inOut {
		matrices = []int{experts, in, out}
	}
	logits, x, w := checkedInput(g, "logits", rows, experts), checkedInput(g, "x", rows, in), checkedInput(g, "w", matrices...)
	route := g.Append(graph.Router{K: k, All: inOut}, logits)
	tile := graph.RaggedTile(rows*k, experts)
	group := g.Append(graph.Group{Experts: experts, Tile: tile}, route.Outputs[1])
	at, slots := group.Outputs[0], group.Outputs[1]
	laid := g.Append(graph.Spread{}, x, at, slots).Outputs[0]
	y := g.Append(graph.RaggedMatMul{TransW: !inOut, Tile: tile, Rows: rows * k}, laid, w, group.Outputs[2]).Outputs[0]
	sum := g.Append(graph.Combine{}, y, at, slots, route.Outputs[0]).Outputs[0]
	loss := g.Sum(g.Mul(sum, checkedInput(g, "dy", rows, out)))
	grads, err := graph.Gradients(g, loss, []*graph.Value{logits, x, w})
	if err != nil {
		return nil // the graph tells
	}
	return append(grads, sum, route.Outputs[0])
}

// operands are where operands are, each in one binding.
func (c *Compiler) operands(n *graph.Node, inputs ...int) (spans []Span) {
	for _, i := range inputs {
		spans = append(spans, c.One(c.In(n.Inputs[i]), fmt.Sprintf("input %d", i)))
	}
	return spans
}

func routeVariant(op graph.Router) (string, shaders.Variant) {
	suffix := ""
	if op.All {
		suffix = "_all"
	}
	return suffix, shaders.Variant{Flags: map[string]bool{"ALL": op.All}, Constants: map[string]string{"K": strconv.Itoa(op.K)}}
}

func lowerRoute(c *Compiler, n *graph.Node) {
	shape := n.Inputs[0].Shape()
	if shape[0] == 0 {
		return
	}
	suffix, v := routeVariant(n.Op.(graph.Router))
	out := []Span{c.One(c.Out(n.Outputs[0]), "weights"), c.One(c.Out(n.Outputs[1]), "ids")}
	c.Dispatch(c.kernel("route", suffix, v), c.Linear(shape[0]), expertsParams{uint32(shape[0]), uint32(shape[1])}, append(c.operands(n, 0), out...)...)
}

func lowerRouteGrad(c *Compiler, n *graph.Node) {
	shape := n.Inputs[0].Shape()
	count := graph.Elements(shape)
	if count == 0 {
		return
	}
	op := graph.Router(n.Op.(graph.RouteGrad))
	suffix, v := routeVariant(op)
	spans := c.operands(n, 1, 2, 3)
	if op.All {
		spans = c.operands(n, 0, 1, 2, 3)
	}
	c.Dispatch(c.kernel("route_grad", suffix, v), c.Linear(count), expertsParams{uint32(count), uint32(shape[1])}, append(spans, c.One(c.Out(n.Outputs[0]), "dlogits"))...)
}

// lowerGroup counts the choices of each expert in chunks, adds the counts up, and places each choice behind those before it.
func lowerGroup(c *Compiler, n *graph.Node) {
	op, choices := n.Op.(graph.Group), n.Inputs[0].Type().Elements()
	if choices == 0 {
		return
	}
	chunks := (choices + groupChunk - 1) / groupChunk
	p := groupParams{Choices: uint32(choices), Experts: uint32(op.Experts), Chunks: uint32(chunks)}
	ids, counts := c.operands(n, 0)[0], c.One(c.workspaceOf(buffers.U32, "counts", chunks, op.Experts), "counts")
	rows, slots, offsets := c.One(c.Out(n.Outputs[0]), "rows"), c.One(c.Out(n.Outputs[1]), "slots"), c.One(c.Out(n.Outputs[2]), "offsets")
	chunk := shaders.Variant{Constants: map[string]string{"CHUNK": strconv.Itoa(groupChunk)}}
	c.Dispatch(c.kernel("group_count", "", chunk), c.Linear(chunks*op.Experts), p, ids, counts)
	offset := c.kernel("group_offsets", "", shaders.Variant{Constants: map[string]string{"TILE": strconv.Itoa(op.Tile)}})
	c.Dispatch(offset, gpu.Grid{X: 1, Y: 1, Z: 1}, p, counts, offsets)
	c.zero(rows)
	c.Dispatch(c.kernel("group_place", "", chunk), c.Linear(choices), p, ids, counts, offsets, rows, slots)
}

// choiceKernel is spread or combine for rows of a width, with weights or without.
func (c *Compiler) choiceKernel(name string, n *graph.Node, width int) (*gpu.Kernel, int) {
	kind, units := rowElement(width)
	weighted, suffix := len(n.Inputs) > 3, ""
	if weighted {
		suffix = "_weighted"
	}
	return c.kernel(name, suffix, shaders.Variant{Flags: map[string]bool{"WEIGHTED": weighted}, Constants: map[string]string{"ELEMENT": kind}}), units
}

func (c *Compiler) choose(name string, n *graph.Node, inputs ...int) {
	shape := n.Outputs[0].Shape()
	if graph.Elements(shape) == 0 {
		return
	}
	k, units := c.choiceKernel(name, n, shape[1])
	if len(n.Inputs) > 3 {
		inputs = append(inputs, 3)
	}
	count := shape[0] * units
	p := choiceParams{Count: uint32(count), Width: uint32(units), Choices: uint32(n.Inputs[2].Shape()[1])}
	c.Dispatch(k, c.Linear(count), p, append(c.operands(n, inputs...), c.One(c.Out(n.Outputs[0]), "y"))...)
}

func lowerSpread(c *Compiler, n *graph.Node) { c.choose("spread", n, 0, 1) }

func lowerCombine(c *Compiler, n *graph.Node) { c.choose("combine", n, 0, 2) }

func lowerChoiceDots(c *Compiler, n *graph.Node) {
	shape := n.Outputs[0].Shape()
	count := graph.Elements(shape)
	if count == 0 {
		return
	}
	p := choiceParams{Count: uint32(count), Width: uint32(n.Inputs[0].Shape()[1]), Choices: uint32(shape[1])}
	grid := gpu.Linear(uint64(count), 1, c.limits)
	c.Dispatch(c.kernel("choice_dots", "", shaders.Variant{}), grid, p, append(c.operands(n, 0, 1, 2), c.One(c.Out(n.Outputs[0]), "dots"))...)
}

func lowerRaggedMatMul(c *Compiler, n *graph.Node) {
	op, y := n.Op.(graph.RaggedMatMul), n.Outputs[0]
	if op.Tile%4 != 0 || op.Tile > 16 {
		c.fail("ragged_matmul: tiles of %d rows, want a multiple of 4, at most 16", op.Tile)
		return
	}
	if y.Type().Elements() == 0 {
		return
	}
	x, w := n.Inputs[0].Shape(), c.In(n.Inputs[1])
	rows, offsets, out := c.operands(n, 0)[0], c.operands(n, 2)[0], c.One(c.Out(y), "y")
	g := gemm{m: x[0], n: y.Shape()[1], k: x[1], count: 1, transB: op.TransW, f16: op.F16}
	g.a, g.b, g.c = operand{span: rows, row: g.k}, operand{row: w.Shape[2], batch: w.Shape[1] * w.Shape[2]}, operand{span: out, row: g.n}
	tile, tiled := c.raggedTile(g, op.Rows/w.rows())
	for _, part := range w.Parts {
		if tiled {
			g.b.span, g.ragged = part.Span, &ragged{offsets: offsets, experts: w.rows(), first: part.Row, count: part.Rows}
			c.raggedProduct(g, tile, gpu.Grid{X: tiles(g.n, tile.tileN), Y: uint32(g.m/tile.tileM + w.rows() + 1), Z: 1})
			continue
		}
		grid := gpu.Grid{X: uint32(x[0] / op.Tile), Y: uint32((y.Shape()[1] + 63) / 64), Z: 1}
		p := raggedParams{uint32(x[1]), uint32(y.Shape()[1]), uint32(w.rows()), uint32(part.Row), uint32(part.Rows), grid.X}
		k, matrices := c.raggedKernel(op, w, part)
		c.Dispatch(k, grid, p, append(append([]Span{rows, offsets}, matrices...), out)...)
	}
}

// ragged is what makes products of experts, rows of C by matrices B of their own, of one that matmul_tiled.wgsl or matmul_matrix.wgsl makes; or outer ones, a
// matrix C for each expert of its rows of A and B. A part of these matrices has count, from the one of expert first on.
type ragged struct {
	offsets               Span
	experts, first, count int
	outer                 bool
}

// specialise gives a product kernel its form, and what it binds for it; r may be nil.
func (r *ragged) specialise(variant shaders.Variant) (suffix string, spans []Span) {
	outer := r != nil && r.outer
	variant.Flags["OFFSETS"], variant.Flags["RAGGED"], variant.Flags["RAGGED_OUTER"] = r != nil, r != nil && !outer, outer
	switch {
	case r == nil:
		return "", nil
	case outer:
		return "_outer", []Span{r.offsets}
	}
	return "_ragged", []Span{r.offsets}
}

// raggedTile is the tile of a product of experts with so many rows each; false: few rows wait for memory, whoever multiplies them, and processors have no use for
// workgroup memory. An expert has half a tile of no rows, on average.
func (c *Compiler) raggedTile(g gemm, rows int) (gemmVariant, bool) {
	units, byUnits := units(c.limits)
	byUnits = byUnits && c.takesUnits(g)
	if c.limits.Software && !byUnits || !g.loadsVec4() || !g.storesVec4() || rows < 16 || min(g.m, g.n) < 32 {
		return gemmVariant{}, false
	}
	if byUnits {
		if half := units; !g.transA && rows < units.tileM && units.matrix.unit.M == 16 {
			if half.tileM /= 2; half.fits(c.limits) {
				return half, true
			}
		}
		return units, true
	}
	if g.transA {
		rows = g.m
	}
	switch {
	case rows >= 512 && g.n >= 512 && c.limits.Invocations >= 256:
		return tiled(128), true
	case rows >= 48 && g.n >= 64:
		return tiled(64), true
	}
	return tiled(32), true
}

// raggedProduct appends the kernel of products of experts.
func (c *Compiler) raggedProduct(g gemm, v gemmVariant, grid gpu.Grid) {
	k, spans := v.kernel(c, g)
	ofA, ofB := g.a.vector(), g.b.vector()
	c.Dispatch(k, grid, gemmParams{
		M: uint32(g.m), N: uint32(g.n), K: uint32(g.k), Depth: uint32(g.k), LDA: uint32(g.a.row / ofA), LDB: uint32(g.b.row / ofB), LDC: uint32(g.c.row / 4),
		SB: uint32(g.b.batch / ofB), SC: uint32(g.c.batch / 4), Slices: uint32(g.ragged.experts), Z0: uint32(g.ragged.first), Count: uint32(g.ragged.count),
	}, spans...)
	c.multiplies(g.m, g.n, g.k)
}

// raggedKernel is the kernel for the matrices of a part, and what it binds of these. Rows that are no whole quads it reads in f32.
func (c *Compiler) raggedKernel(op graph.RaggedMatMul, w Tensor, part Part) (*gpu.Kernel, []Span) {
	suffix, wide := fmt.Sprintf("_%d", op.Tile), w.Shape[2]%4 == 0
	if op.TransW {
		suffix += "_trans"
	}
	variant := shaders.Variant{
		Flags:     map[string]bool{"TRANS": op.TransW, "WIDE": wide},
		Constants: map[string]string{"TILE": strconv.Itoa(op.Tile), "QUADS": strconv.Itoa(op.Tile / 4), "STAGED": strconv.Itoa(4 * op.Tile)},
	}
	matrices, g := []Span{part.Span}, gemm{b: operand{span: part.Span}, f16: op.F16}
	if wide {
		var kept string
		kept, matrices = gemmVariant{file: "ragged_matmul"}.specialise(g, variant, c.limits.Software)
		suffix += kept + g.rounds(variant, "half4")
	} else {
		suffix += "_narrow" + g.rounds(variant, "half1")
	}
	variant.Constants["LOAD_X"] = map[bool]string{true: "half4"}[op.F16]
	return c.kernel("ragged_matmul", suffix, variant), matrices
}

func lowerRaggedOuter(c *Compiler, n *graph.Node) {
	out, shape := c.Out(n.Outputs[0]), n.Outputs[0].Shape()
	if graph.Elements(shape) == 0 {
		return
	}
	op, spans := n.Op.(graph.RaggedOuter), c.operands(n, 0, 1, 2)
	g := gemm{m: shape[1], n: shape[2], k: n.Inputs[0].Shape()[0], count: 1, transA: true, f16: op.F16}
	g.a, g.b, g.c = operand{span: spans[0], row: g.m}, operand{span: spans[1], row: g.n}, operand{row: g.n, batch: g.m * g.n}
	tile, tiled := c.raggedTile(g, op.Rows/shape[0])
	for _, part := range out.Parts {
		if tiled {
			g.c.span, g.ragged = part.Span, &ragged{offsets: spans[2], experts: shape[0], first: part.Row, count: part.Rows, outer: true}
			c.raggedProduct(g, tile, gpu.Grid{X: tiles(g.n, tile.tileN), Y: tiles(g.m, tile.tileM), Z: uint32(part.Rows)})
			continue
		}
		suffix, variant := "", shaders.Variant{Flags: map[string]bool{}, Constants: map[string]string{}}
		suffix = g.rounds(variant, "half1")
		p := outerParams{AWidth: uint32(shape[1]), BWidth: uint32(shape[2]), First: uint32(part.Row)}
		grid := gpu.Grid{X: uint32((shape[2] + 63) / 64), Y: uint32((shape[1] + 15) / 16), Z: uint32(part.Rows)}
		c.Dispatch(c.kernel("ragged_outer", suffix, variant), grid, p, append(spans[:3:3], part.Span)...)
	}
}
