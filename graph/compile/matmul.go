package compile

import (
	"fmt"
	"slices"

	"gputrain/graph"
)

func init() {
	Register(graph.MatMul{}, Lowering{
		Lower: func(c *Compiler, n *graph.Node) { lowerMatMul(c, n, nil) }, Leaf: true, Checks: append(matMulChecks, sumsChecks...),
		finishes: finishesProduct, finish: lowerMatMul,
	})
}

// matMulChecks reach every kernel that the table of variants has for the adapter.
var matMulChecks = []Check{
	{Name: "matmul", Tolerance: 256, Build: func(g *graph.Graph) []*graph.Value {
		a, b, bt := checkedInput(g, "a", 70, 68), checkedInput(g, "b", 68, 132), checkedInput(g, "bt", 132, 68)
		at, wide := checkedInput(g, "at", 70, 132), checkedInput(g, "wide", 3, 20, 24)
		return []*graph.Value{
			g.MatMul(a, b, false, false), g.MatMul(a, bt, false, true), g.MatMul(a, at, true, false),
			g.MatMul(wide, checkedInput(g, "c", 3, 24, 36), false, false), g.MatMul(wide, wide, false, true),
		}
	}},
	{Name: "matmul tiles", Tolerance: 64, Build: func(g *graph.Graph) []*graph.Value { // of 64 and of 128 rows; of 32 in the check above
		var values []*graph.Value
		for i, s := range [][3]int{{388, 516, 16}, {516, 900, 8}} {
			input := func(name string, rows, cols int) *graph.Value {
				return checkedInput(g, fmt.Sprint(name, i), rows, cols)
			}
			a, b := input("a", s[0], s[2]), input("b", s[2], s[1])
			values = append(values, g.MatMul(a, b, false, false), g.MatMul(a, input("bt", s[1], s[2]), false, true), g.MatMul(input("at", s[2], s[0]), b, true, false))
		}
		return values
	}},
	// The twin rounds the operands too, so the tolerances are those of sums in f32.
	{Name: "matmul f16", Tolerance: 256, Build: func(g *graph.Graph) []*graph.Value {
		a, b, bt, at := checkedInput(g, "a", 70, 68), checkedInput(g, "b", 68, 132), checkedInput(g, "bt", 132, 68), checkedInput(g, "at", 70, 132)
		values := []*graph.Value{
			g.MatMul(a, b, false, false), g.MatMul(a, bt, false, true), g.MatMul(a, at, true, false), // tiles
			g.MatMul(checkedInput(g, "odd", 7, 13), checkedInput(g, "d", 13, 35), false, false), // elements alone
			g.MatMul(checkedInput(g, "x", 1, 64), checkedInput(g, "w", 64, 260), false, false),  // one row
		}
		g.RoundProducts()
		return values
	}},
	// What units read in f16: a value that they alone read, one with another reader, and one that an epilogue stores twice. A rounding of f16 may differ where
	// that of a sum in f32 does.
	{Name: "matmul f16 operands", Tolerance: 16384, Build: func(g *graph.Graph) []*graph.Value {
		a, b, w := checkedInput(g, "a", 72, 128), checkedInput(g, "b", 72, 128), checkedInput(g, "w", 128, 520)
		own, shared := g.Add(a, b), g.Mul(a, b)
		twice := g.Apply("tanh", g.MatMul(a, checkedInput(g, "v", 128, 128), false, false))
		values := []*graph.Value{g.Mul(shared, a), g.Mul(twice, a)}
		for _, x := range []*graph.Value{own, shared, twice} {
			values = append(values, g.MatMul(x, w, false, false), g.MatMul(x, x, true, false))
		}
		g.RoundProducts()
		return values
	}},
	{Name: "matmul f16 slices", Tolerance: 4096, Build: func(g *graph.Graph) []*graph.Value {
		y := g.MatMul(checkedInput(g, "a", 1030, 36), checkedInput(g, "b", 1030, 40), true, false)
		g.RoundProducts()
		return []*graph.Value{y}
	}},
	{Name: "matmul odd sizes", Tolerance: 128, Build: func(g *graph.Graph) []*graph.Value {
		a, b, bt := checkedInput(g, "a", 7, 13), checkedInput(g, "b", 13, 35), checkedInput(g, "bt", 35, 13)
		return []*graph.Value{g.MatMul(a, b, false, false), g.MatMul(a, bt, false, true), g.MatMul(a, checkedInput(g, "c", 7, 5), true, false)}
	}},
	{Name: "matmul one row", Tolerance: 256, Build: func(g *graph.Graph) []*graph.Value {
		x := checkedInput(g, "x", 1, 64)
		return []*graph.Value{g.MatMul(x, checkedInput(g, "w", 64, 260), false, false), g.MatMul(x, checkedInput(g, "wt", 130, 64), false, true)}
	}},
	{Name: "matmul slices", Tolerance: 4096, Build: func(g *graph.Graph) []*graph.Value {
		a, b := checkedInput(g, "a", 1030, 36), checkedInput(g, "b", 1030, 40)
		return []*graph.Value{g.MatMul(a, b, true, false), g.MatMul(checkedInput(g, "odd", 3, 1030), b, false, false)}
	}},
}

// lowerMatMul lowers Y = op(A) op(B), M by N by K, for operands and results in row parts: rows of A (not transposed) and of
// Y cut M, rows of B transposed cut N, rows of A transposed and of B cut K. Each piece is a product of its own.
func lowerMatMul(c *Compiler, n *graph.Node, e *epilogue) { c.lowerProduct(n, e, nil) }

// lowerProduct is lowerMatMul with the sums of B's columns, where they are wanted; see sums.go.
func (c *Compiler) lowerProduct(n *graph.Node, e *epilogue, sums *Tensor) {
	a, b := c.In(n.Inputs[0]), c.In(n.Inputs[1])
	y := Tensor{Shape: n.Outputs[0].Shape(), Parts: []Part{{Rows: 1}}} // which an epilogue stores, or not
	if e == nil {
		y = c.Out(n.Outputs[0])
	}
	if y.elements() == 0 {
		return
	}
	g := productOf(n)
	if g.k == 0 {
		for _, p := range y.Parts {
			if !y.Accumulate {
				c.zero(p.Span)
			}
		}
		return
	}
	g.accumulate, g.epilogue, g.sums = y.Accumulate, e, sums
	g.b.copied = c.copies(g, b)
	for i, t := range []Tensor{a, b, y} {
		if len(t.Shape) > 2 {
			c.One(t, []string{"a", "b", "y"}[i])
		}
	}
	a, b = c.halvesOf(n, g, 0, a), c.halvesOf(n, g, 1, b)
	if c.err != nil {
		return
	}
	c.product(g, g.m, g.n, g.k, matrix{a, 0}, matrix{b, 0}, matrix{y, 0})
}

// matrix begins at a row of a tensor.
type matrix struct {
	Tensor
	row int
}

// product appends the products of the pieces of g, M by N by K, that the parts of its operands cut. What is chosen for a product is chosen for the whole
// of it, and a piece goes on along K where the one before ends, so that the result has the bits of a product of whole operands.
func (c *Compiler) product(g gemm, m, n, k int, a, b, y matrix) {
	byM, byN, byK := []matrix{y}, []matrix{}, []matrix{}
	if g.transA {
		byK = append(byK, a)
	} else {
		byM = append(byM, a)
	}
	if g.transB {
		byN = append(byN, b)
	} else {
		byK = append(byK, b)
	}
	ms, ns, ks := runs(m, byM), runs(n, byN), runs(k, byK)
	piece := func(y matrix, mm, nn, kk run) gemm {
		p := g
		p.m, p.n, p.k = mm.length, nn.length, kk.length
		p.a, p.b, p.c = g.a.at(a, mm.start, kk.start, g.transA), g.b.at(b, kk.start, nn.start, g.transB), g.c.at(y, mm.start, nn.start, false)
		return p
	}
	if len(ms)*len(ns)*len(ks) == 1 {
		c.gemm(piece(y, ms[0], ns[0], ks[0]))
		return
	}
	whole := piece(y, run{length: m}, run{length: n}, run{length: k})
	variant, depth := c.chooseGemm(whole), c.depth(whole)
	terms := func(y matrix, accumulate bool) {
		for _, mm := range ms {
			for _, nn := range ns {
				var pieces []gemm
				for _, kk := range ks {
					p := piece(y, mm, nn, kk)
					p.accumulate = accumulate
					pieces = append(pieces, p)
				}
				part := piece(y, mm, nn, run{length: k})
				part.accumulate = accumulate
				c.gemmAlong(part, variant, depth, pieces)
			}
		}
	}
	if depth >= k && len(ks) > 1 && !g.continues {
		y.Accumulate = g.accumulate
		c.inTurns(y.Tensor, run{y.row, m}, func(to Tensor) { terms(matrix{to, y.row}, false) })
		return
	}
	terms(y, g.accumulate)
}

// productOf is the product of a node, without the spans.
func productOf(n *graph.Node) gemm {
	op, a, b := n.Op.(graph.MatMul), n.Inputs[0].Shape(), n.Inputs[1].Shape()
	m, k, _ := graph.Matrix(a, op.TransA)
	_, cols, _ := graph.Matrix(b, op.TransB)
	g := gemm{m: m, n: cols, k: k, transA: op.TransA, transB: op.TransB, f16: op.F16, count: graph.Elements(n.Outputs[0].Shape()) / max(1, m*cols)}
	g.a, g.b, g.c = operand{row: k, batch: m * k}, operand{row: cols, batch: k * cols}, operand{row: cols, batch: m * cols}
	if op.TransA {
		g.a.row = m
	}
	if op.TransB {
		g.b.row = k
	}
	if len(a) == 2 {
		g.a.batch = 0
	}
	if len(b) == 2 {
		g.b.batch = 0
	}
	if g.b.batch == 0 && !op.TransA {
		g.m, g.count = m*g.count, 1 // a batch of A is just more rows
	}
	return g
}

// tiledProduct is whether a node is one product that matmul_tiled.wgsl or matmul_matrix.wgsl makes.
func tiledProduct(c *Compiler, n *graph.Node) bool {
	if !oneProduct(c, n) {
		return false
	}
	v, _ := c.gpuChoice(productOf(n))
	return v.file == "matmul_tiled" || v.file == "matmul_matrix"
}

// finishesProduct is whether a node is one product whose results these store, or the sum of slices of K.
func finishesProduct(c *Compiler, n *graph.Node) bool {
	g := productOf(n)
	return oneProduct(c, n) && (tiledProduct(c, n) || c.depth(g) < g.k)
}

// oneProduct is whether a node is one product, and stores whole quads.
func oneProduct(c *Compiler, n *graph.Node) bool {
	g := productOf(n)
	return c.allWhole(n) && n.Outputs[0].Type().Elements() > 0 && g.k > 0 && g.storesVec4()
}

// run is a range of rows, or of K.
type run struct{ start, length int }

// runs cuts [0, n) where any of the matrices, each n rows of it, goes from one part to the next.
func runs(n int, matrices []matrix) []run {
	starts := []int{0}
	for _, b := range matrices {
		for _, p := range b.Parts {
			if at := p.Row - b.row; at > 0 && at < n {
				starts = append(starts, at)
			}
		}
	}
	slices.Sort(starts)
	starts = slices.Compact(starts)
	out := make([]run, len(starts))
	for i, s := range starts {
		end := n
		if i+1 < len(starts) {
			end = starts[i+1]
		}
		out[i] = run{start: s, length: end - s}
	}
	return out
}

// at is the operand o of matrix t from a row and column on, in the part that holds the row; transposed, the operand's rows
// are the matrix's columns.
func (o operand) at(t matrix, row, col int, transposed bool) operand {
	if transposed {
		row, col = col, row
	}
	row += t.row
	part := t.Parts[0]
	for _, p := range t.Parts[1:] {
		if row >= p.Row {
			part = p
		}
	}
	o.span = part.Span
	o.offset = (row-part.Row)*o.row + col
	return o
}
