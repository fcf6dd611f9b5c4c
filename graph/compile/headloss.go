package compile

import (
	"fmt"
	"slices"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/shaders"
)

func init() {
	Register(graph.CrossEntropy{}, Lowering{Lower: lowerCrossEntropy, Checks: lossChecks})
	Register(graph.CrossEntropyGrad{}, Lowering{Lower: lowerCrossEntropyGrad})
	Register(graph.HeadLoss{}, Lowering{Lower: func(c *Compiler, n *graph.Node) { lowerHead(c, n, nil) }})
	Register(graph.HeadLossGrad{}, Lowering{Leaf: true, Lower: func(c *Compiler, n *graph.Node) { lowerHead(c, nil, n) }})
	pairLowerings = append(pairLowerings, pairLowering{
		forward: "head_loss", gradient: "head_loss_grad", leaf: true, lower: lowerHead,
		match: func(f, g *graph.Node) bool {
			return graph.HeadLoss(g.Op.(graph.HeadLossGrad)) == f.Op.(graph.HeadLoss) && g.Inputs[0] == f.Inputs[0] && g.Inputs[1] == f.Inputs[1] && g.Inputs[2] == f.Inputs[2] && g.Inputs[3] == f.Outputs[1]
		},
	})
}

var lossChecks = []Check{
	{Name: "cross entropy", Tolerance: 512, Below: 65, Build: func(g *graph.Graph) []*graph.Value {
		labels, dloss := checkedInts(g, "labels", 70), checkedInput(g, "dloss")
		var out []*graph.Value
		for _, columns := range []int{65, 260} {
			logits := checkedInput(g, map[int]string{65: "odd", 260: "even"}[columns], 70, columns)
			f := g.Append(graph.CrossEntropy{}, logits, labels)
			out = append(out, f.Outputs[0], f.Outputs[1], g.Append(graph.CrossEntropyGrad{}, logits, labels, f.Outputs[1], dloss).Outputs[0])
		}
		return out
	}},
	{Name: "loss head", Tolerance: 1024, Below: 65, Build: func(g *graph.Graph) []*graph.Value {
		x, w, labels := checkedInput(g, "x", 70, 16), checkedInput(g, "w", 65, 16), checkedInts(g, "labels", 70)
		f := g.Append(graph.HeadLoss{}, x, w, labels)
		d := g.Append(graph.HeadLossGrad{}, x, w, labels, f.Outputs[1], checkedInput(g, "dloss"))
		return []*graph.Value{f.Outputs[0], f.Outputs[1], d.Outputs[0], d.Outputs[1]}
	}},
	{Name: "loss head f16", Tolerance: 4096, Below: 65, Build: func(g *graph.Graph) []*graph.Value {
		x, w, labels := checkedInput(g, "x", 70, 36), checkedInput(g, "w", 65, 36), checkedInts(g, "labels", 70)
		f := g.Append(graph.HeadLoss{F16: true}, x, w, labels)
		d := g.Append(graph.HeadLossGrad{F16: true}, x, w, labels, f.Outputs[1], checkedInput(g, "dloss"))
		return []*graph.Value{f.Outputs[0], f.Outputs[1], d.Outputs[0], d.Outputs[1]}
	}},
	{Name: "loss head with options", Tolerance: 1024, Below: 65, Build: func(g *graph.Graph) []*graph.Value {
		x, w, labels := checkedInput(g, "x", 70, 16), checkedInput(g, "w", 65, 16), checkedInts(g, "labels", 70)
		op := graph.HeadLoss{Smoothing: 0.1, ZLoss: 0.01}
		f := g.Append(op, x, w, labels)
		d := g.Append(graph.HeadLossGrad(op), x, w, labels, f.Outputs[1], checkedInput(g, "dloss"))
		return []*graph.Value{f.Outputs[0], f.Outputs[1], f.Outputs[2], d.Outputs[0], d.Outputs[1]}
	}},
	{Name: "loss head by row", Tolerance: 1024, Below: 65, Build: func(g *graph.Graph) []*graph.Value {
		x, w, labels := checkedInput(g, "x", 70, 16), checkedInput(g, "w", 65, 16), checkedInts(g, "labels", 70)
		f := g.Append(graph.HeadLoss{Each: true}, x, w, labels)
		d := g.Append(graph.HeadLossGrad{Each: true}, x, w, labels, f.Outputs[1], checkedInput(g, "dloss", 70))
		return []*graph.Value{f.Outputs[0], d.Outputs[0], d.Outputs[1]}
	}},
	{Name: "loss head with entropies", Tolerance: 1024, Below: 65, Build: func(g *graph.Graph) []*graph.Value {
		x, labels, dloss := checkedInput(g, "x", 70, 16), checkedInts(g, "labels", 70), checkedInput(g, "dloss", 70)
		var out []*graph.Value
		for _, columns := range []int{65, 260} {
			w, op := checkedInput(g, map[int]string{65: "odd", 260: "even"}[columns], columns, 16), graph.HeadLoss{Each: true, Entropy: true}
			f := g.Append(op, x, w, labels)
			d := g.Append(graph.HeadLossGrad(op), x, w, labels, f.Outputs[1], dloss)
			out = append(out, f.Outputs[0], f.Outputs[2], d.Outputs[0], d.Outputs[1])
		}
		return out
	}},
}

// A chunk has as few blocks of rows as come to chunkRows. Every chunk reads W twice and dW once, and writes it: products of some 200 rows have the 40
// operations a byte that cards' limits ask for. A block has as many rows as have blockBytes of logits. dW adds up blocks, one after the other, so that its
// bits do not depend on the chunks. Variables for tests.
var chunkRows, blockBytes = 256, 64 << 20

// On a GPU a chunk is a block, of whole tiles of cardTile rows: as many as fit in blockBytes, or more up to cardBytes to have cardRows of logits in f32,
// twice as many in 16 bits, and half of that on a card of less than cardSmall multiprocessors or that nobody knows. By matrix units 1024 rows have 500
// operations for each byte of W and dW, in f32 512 have 190, and cards ask for 20 to 100. Variables for tests.
var cardRows, cardBytes, cardTile = 512, 320 << 20, 128

const cardSmall = 32

// lossGradParams is Params of cross_entropy_grad.wgsl, and the start of those of cross_entropy.wgsl.
type lossGradParams struct{ Rows, Columns, Stride, Column0, Row0 uint32 }

type lossParams struct {
	lossGradParams
	First, Last uint32
}

// cappedLossParams and cappedLossGradParams are Params where logits are capped.
type (
	cappedLossParams struct {
		lossParams
		Cap float32
	}
	cappedLossGradParams struct {
		lossGradParams
		Cap float32
	}
	// The same with the options of a HeadLoss; Cap is 0 for none.
	optionLossParams struct {
		cappedLossParams
		Smoothing, Inverse, ZLoss float32
	}
	optionLossGradParams struct {
		cappedLossGradParams
		Kept, Share, Steep float32
	}
)

// logitsRun is the logits of some rows for a run of the vocabulary, as a kernel sees them.
type logitsRun struct {
	span          Span
	rows, columns int
	stride        int // of a row, in elements
	row0, column0 int // where they stand among all rows and columns
	all           int // columns, of all runs
	op            graph.HeadLoss
}

func (l logitsRun) scalar() bool { return l.stride%4 != 0 }

func (l logitsRun) element() string {
	if l.scalar() {
		return "f32"
	}
	return "vec4<f32>"
}

func (l logitsRun) params() lossGradParams {
	unit := 4
	if l.scalar() {
		unit = 1
	}
	return lossGradParams{uint32(l.rows), uint32(l.columns), uint32(l.stride / unit), uint32(l.column0), uint32(l.row0)}
}

// rowLosses are the buffers that the loss of each row goes through; all [N]. Without a third output figures is the zero span.
type rowLosses struct{ labels, carried, lse, losses, figures Span }

// rowLosses are those of a loss, which the rows' are where each is wanted.
func (c *Compiler) rowLosses(labels *graph.Value, out []*graph.Value, op graph.HeadLoss) rowLosses {
	n, loss, carried := labels.Shape()[0], out[0], 4
	if op.Tells() {
		carried = 8
	}
	r := rowLosses{
		labels: c.One(c.In(labels), "labels"), lse: c.One(c.Out(out[1]), "lse"), carried: c.One(c.workspace("carried", n, carried), "carried"),
	}
	if len(out) > 2 {
		r.figures = c.One(c.Out(out[2]), "figures")
	}
	if op.Each {
		r.losses = c.One(c.Out(loss), "losses")
	} else {
		r.losses = c.One(c.workspace("losses", n), "losses")
	}
	return r
}

// rowLoss appends the loss of the rows over one run of columns.
func (c *Compiler) rowLoss(l logitsRun, r rowLosses, first, last bool) {
	p := lossParams{lossGradParams: l.params()}
	if first {
		p.First = 1
	}
	if last {
		p.Last = 1
	}
	group := !c.limits.Software // a workgroup a row where there is workgroup memory worth the name
	grid, lanes := c.Linear(l.rows), "64"
	if group {
		grid, lanes = gpu.Linear(uint64(l.rows), 1, c.limits), "256"
	}
	k := c.kernel("cross_entropy", "", shaders.Variant{
		Constants: map[string]string{"ELEMENT": l.element(), "LANES": lanes},
		Flags:     map[string]bool{"SCALAR": l.scalar(), "GROUP": group, "CAPPED": l.op.Cap > 0, "ENTROPY": l.op.Entropy, "OPTIONS": l.op.Tells()},
	})
	params, bind := any(p), []Span{l.span, r.labels, r.carried, r.lse, r.losses}
	capped := cappedLossParams{p, float32(l.op.Cap)}
	switch {
	case l.op.Tells():
		params = optionLossParams{cappedLossParams: capped, Smoothing: float32(l.op.Smoothing), Inverse: float32(1 / float64(l.all)), ZLoss: float32(l.op.ZLoss)}
	case l.op.Cap > 0:
		params = capped
	}
	if r.figures.st != nil {
		bind = append(bind, r.figures)
	}
	c.Dispatch(k, grid, params, bind...)
}

// lossSum appends the sum of the rows' losses.
func (c *Compiler) lossSum(n int, losses, total Span) {
	k := c.kernel("loss_sum", "", shaders.Variant{})
	c.Dispatch(k, c.Linear(64), uint32(n), losses, total)
}

// rowLossGrad appends the gradient of the rows' losses over one run of columns, in place when dlogits is the zero span.
func (c *Compiler) rowLossGrad(l logitsRun, labels, lse, dloss, dlogits Span) {
	inPlace := dlogits.st == nil
	name, bind := "dlogits", []Span{labels, lse, dloss, l.span, dlogits}
	if inPlace {
		name, bind = "logits", bind[:4]
		c.taken[unitStorage{c.current, l.span.st}] = true
	}
	k := c.kernel("cross_entropy_grad", "", shaders.Variant{
		Constants: map[string]string{"ELEMENT": l.element(), "OUT": name},
		Flags:     map[string]bool{"SCALAR": l.scalar(), "IN_PLACE": inPlace, "CAPPED": l.op.Cap > 0, "EACH": l.op.Each, "OPTIONS": l.op.Weighs()},
	})
	params := any(l.params())
	capped := cappedLossGradParams{l.params(), float32(l.op.Cap)}
	switch {
	case l.op.Weighs():
		params = optionLossGradParams{
			cappedLossGradParams: capped,
			Kept:                 float32(1 - l.op.Smoothing), Share: float32(l.op.Smoothing / float64(l.all)), Steep: float32(2 * l.op.ZLoss),
		}
	case l.op.Cap > 0:
		params = capped
	}
	c.Dispatch(k, c.Linear(l.rows*((l.stride+3)/4)), params, bind...)
}

func lowerCrossEntropy(c *Compiler, n *graph.Node) {
	logits, total := c.In(n.Inputs[0]), c.One(c.Out(n.Outputs[0]), "loss")
	rows, columns := logits.Shape[0], logits.Shape[1]
	checkIDs(c, n.Inputs[1], "label", columns, true)
	if logits.elements() == 0 {
		c.zero(total)
		return
	}
	r := c.rowLosses(n.Inputs[1], n.Outputs, graph.HeadLoss{})
	c.rowLoss(logitsRun{span: c.One(logits, "logits"), rows: rows, columns: columns, stride: columns}, r, true, true)
	c.lossSum(rows, r.losses, total)
}

func lowerCrossEntropyGrad(c *Compiler, n *graph.Node) {
	logits, labels, lse, dloss := c.In(n.Inputs[0]), c.In(n.Inputs[1]), c.In(n.Inputs[2]), c.In(n.Inputs[3])
	checkIDs(c, n.Inputs[1], "label", logits.Shape[1], true)
	if logits.elements() == 0 {
		return
	}
	l := logitsRun{span: c.One(logits, "logits"), rows: logits.Shape[0], columns: logits.Shape[1], stride: logits.Shape[1]}
	c.rowLossGrad(l, c.One(labels, "labels"), c.One(lse, "lse"), c.One(dloss, "dloss"), c.One(c.Out(n.Outputs[0]), "dlogits"))
}

// head is the loss head of one program: x [N,D], W [V,D] in parts, the logits of a chunk of rows at a time in one workspace a
// part of W.
type head struct {
	x, w    Tensor
	halves  struct{ x, w Tensor } // copies in f16, where these pay
	n, d    int
	rows    int // a chunk: whole blocks
	block   int // of rows
	logits  []Tensor
	strides []int
	op      graph.HeadLoss
	widest  int  // the least that a row of logits is counted as
	exact   bool // logits are in f32 whatever products round
}

// lowerHead lowers HeadLoss, HeadLossGrad, or both together with the logits made once; the node that is not there is nil.
func lowerHead(c *Compiler, forward, gradient *graph.Node) {
	node := forward
	if node == nil {
		node = gradient
	}
	h := head{x: c.In(node.Inputs[0]), w: c.In(node.Inputs[1]), op: headLossOf(node)}
	h.n, h.d = h.x.Shape[0], h.x.Shape[1]
	labels := node.Inputs[2]
	checkIDs(c, labels, "label", h.w.rows(), true)
	if h.x.elements() == 0 || h.w.elements() == 0 {
		c.emptyHead(h, forward, gradient)
		return
	}
	h.makeRoom(c)
	if h.op.BF16 {
		h.w = c.inBF16(h.w)
	}
	h.inHalves(c, node)
	var r rowLosses
	if forward != nil {
		r = c.rowLosses(labels, forward.Outputs, h.op)
	} else {
		r = rowLosses{labels: c.One(c.In(labels), "labels"), lse: c.One(c.In(gradient.Inputs[3]), "lse")}
	}
	for row := 0; row < h.n; row += h.rows {
		chunk := run{start: row, length: min(h.rows, h.n-row)}
		for i := range h.w.Parts {
			h.product(c, chunk, i)
			if forward != nil {
				c.rowLoss(h.run(chunk, i), r, i == 0, i == len(h.w.Parts)-1)
			}
		}
		if gradient != nil {
			h.backward(c, gradient, chunk, r)
		}
	}
	if forward != nil && !h.op.Each {
		c.lossSum(h.n, r.losses, c.One(c.Out(forward.Outputs[0]), "loss"))
	}
}

// headLossOf is a HeadLoss, or the one that a gradient is of.
func headLossOf(n *graph.Node) graph.HeadLoss {
	if op, ok := n.Op.(graph.HeadLoss); ok {
		return op
	}
	return graph.HeadLoss(n.Op.(graph.HeadLossGrad))
}

// emptyHead is the loss of no rows, or of rows of no width.
func (c *Compiler) emptyHead(h head, forward, gradient *graph.Node) {
	if h.n > 0 {
		c.fail("head of width %d and %d classes, want them positive", h.d, h.w.rows())
		return
	}
	if forward != nil && !h.op.Each {
		c.zero(c.One(c.Out(forward.Outputs[0]), "loss"))
	}
	if gradient == nil {
		return
	}
	dw := c.Out(gradient.Outputs[1])
	for _, p := range dw.Parts {
		if !dw.Accumulate {
			c.zero(p.Span)
		}
	}
}

// blockOf is the rows of a block, at most so many, where a row has so many logits of so many bytes.
func (h *head) blockOf(c *Compiler, most, width, bytes int) int {
	if c.limits.Software {
		return wholeTiles(max(1, min(blockBytes/(bytes*width), most)), h.n, 16)
	}
	rows := cardRows * 4 / bytes
	if c.limits.Multiprocessors < cardSmall {
		rows /= 2
	}
	rows = min(max(rows, blockBytes/(bytes*width)), cardBytes/(bytes*width))
	block := wholeTiles(max(1, min(rows, most)), h.n, cardTile)
	if chunks := (h.n + block - 1) / block; block%cardTile == 0 { // as even as tiles allow
		block = min(h.n, ((h.n+chunks-1)/chunks+cardTile-1)/cardTile*cardTile)
	}
	return block
}

// wholeTiles is a number of the n rows, in whole tiles where it is not all of them, or in tiles of 16 where one has not so many.
func wholeTiles(rows, n, tile int) int {
	if rows <= tile {
		tile = 16
	}
	if rows < n && rows > tile {
		rows = rows / tile * tile
	}
	return rows
}

// makeRoom takes the workspaces. Each part's logits of a block fit a binding; a chunk has as few blocks as come to chunkRows, if a binding has them.
func (h *head) makeRoom(c *Compiler) {
	width, widest, whole := 0, h.widest, 4
	if h.op.F16 && !h.exact {
		whole = 8 // which rows in f16 begin at
	}
	for _, p := range h.w.Parts {
		stride := (p.Rows + whole - 1) / whole * whole
		h.strides = append(h.strides, stride)
		width += stride
		widest = max(widest, stride)
	}
	logit := buffers.F32
	if (h.op.BF16 || h.op.F16) && !h.exact { // f16, where values are not in BF16, has the same size
		logit = buffers.BF16
	}
	most := min(int(c.largest())/(4*widest), h.n)
	h.block = h.blockOf(c, most, width, logit.Bits()/8)
	h.rows = h.block
	if h.addsBlocks(c) {
		h.rows = min((chunkRows+h.block-1)/h.block*h.block, most)
		if h.rows < h.n {
			h.rows = h.rows / h.block * h.block
		}
	}
	for i, stride := range h.strides {
		logits := c.workspaceOf(logit, fmt.Sprintf("logits.%d", i), h.rows, stride)
		if st := logits.Parts[0].Span.st; h.op.F16 && !h.op.BF16 && !h.exact {
			st.bf16, st.half, c.halves = false, true, true
		}
		h.logits = append(h.logits, logits)
	}
}

// inHalves makes the copies of x and W in f16 for products by units, which read each of them by several rows or columns of tiles; of a W that takes more
// memory than a chunk's logits may, none.
func (h *head) inHalves(c *Compiler, n *graph.Node) {
	g := gemm{count: 1, m: h.rows, n: h.w.rows(), k: h.d, transB: true, f16: h.op.F16, a: operand{row: h.d}, b: operand{row: h.d}}
	if h.op.BF16 || h.d%8 > 0 || len(h.x.Parts)*len(h.w.Parts) != 1 || !c.takesUnits(g) || typeBytes(h.w.Shape, buffers.BF16) > uint64(cardBytes) {
		return
	}
	copied := func(i int, t Tensor) Tensor {
		st := c.copyInHalves(n.Inputs[i], t, c.copyPays(g, i))
		if st == nil {
			return Tensor{}
		}
		t.Parts = []Part{{Rows: t.rows(), Span: Span{st: st, Bytes: st.bytes, asKept: true}}}
		return t
	}
	h.halves.x, h.halves.w = copied(0, h.x), copied(1, h.w)
}

// operands are x, part i of W and its logits as a product reads them: in f16 where units make it.
func (h *head) operands(c *Compiler, g gemm, i int) (x, w, logits Tensor) {
	x, w, logits = h.x, h.part(i), h.logits[i]
	if !c.takesUnits(g) {
		return x, w, logits
	}
	if h.halves.x.Parts != nil {
		x = h.halves.x
	}
	if h.halves.w.Parts != nil {
		w = h.halves.w
	}
	logits.Parts = slices.Clone(logits.Parts)
	logits.Parts[0].Span.asKept = logits.Parts[0].Span.st.half
	return x, w, logits
}

// run is the logits of a chunk for part i of W.
func (h *head) run(chunk run, i int) logitsRun {
	p := h.w.Parts[i]
	return logitsRun{span: h.logits[i].Parts[0].Span, rows: chunk.length, columns: p.Rows, stride: h.strides[i], row0: chunk.start, column0: p.Row, all: h.w.rows(), op: h.op}
}

// addsBlocks is whether a product can add up the blocks of dW. Scalar products cannot, nor those that cut a block into slices.
func (h *head) addsBlocks(c *Compiler) bool {
	for i, p := range h.w.Parts {
		for _, rows := range []int{h.block, h.n % h.block} {
			g := h.gradW(i)
			g.m, g.n, g.k = p.Rows, h.d, rows
			if !g.loadsVec4() || !g.storesVec4() || rows > 0 && c.depth(g) < rows {
				return false
			}
		}
	}
	return true
}

// gradW is what some rows add to the rows of dW for part i of W.
func (h *head) gradW(i int) gemm {
	return gemm{count: 1, transA: true, f16: h.op.F16, a: operand{row: h.strides[i]}, b: operand{row: h.d}, c: operand{row: h.d}}
}

// products calls do with rows of a chunk, N columns each, whose products take slices of K as those of a block do: whole blocks, as many as the slices'
// products fit a binding, and what is left of one.
func (h *head) products(c *Compiler, g gemm, chunk run, n, k int, do func(g gemm, rows run)) {
	for at, end := chunk.start, chunk.start+chunk.length; at < end; {
		g.alike = min(h.block, end-at)
		g.m, g.n, g.k = g.alike, n, k
		rows := (end - at) / g.alike
		if depth := c.depth(g); depth < k {
			slices := (k + depth - 1) / depth
			rows = max(1, min(rows, int(c.largest())/(16*slices*((n+3)/4)*g.alike)))
		}
		do(g, run{start: at, length: rows * g.alike})
		at += rows * g.alike
	}
}

// product makes the logits of a chunk for part i of W.
func (h *head) product(c *Compiler, chunk run, i int) {
	g := gemm{count: 1, transB: true, paddedC: true, f16: h.op.F16, a: operand{row: h.d}, b: operand{row: h.d}, c: operand{row: h.strides[i]}}
	columns := h.w.Parts[i].Rows
	h.products(c, g, chunk, columns, h.d, func(g gemm, rows run) {
		x, w, _ := h.operands(c, g, i)
		c.product(g, rows.length, columns, h.d, matrix{x, rows.start}, matrix{w, 0}, matrix{h.logits[i], rows.start - chunk.start})
	})
}

// part is part i of W alone.
func (h *head) part(i int) Tensor {
	p := h.w.Parts[i]
	p.Row = 0
	return Tensor{Shape: []int{p.Rows, h.d}, DType: h.w.DType, Parts: []Part{p}}
}

// backward turns the logits of a chunk to their gradient, in place, and appends dx and what the chunk adds to dW.
func (h *head) backward(c *Compiler, gradient *graph.Node, chunk run, r rowLosses) {
	dloss := c.One(c.In(gradient.Inputs[4]), "dloss")
	for i := range h.w.Parts {
		c.rowLossGrad(h.run(chunk, i), r.labels, r.lse, dloss, Span{})
		h.spread(c, gradient, chunk, i)
	}
}

// spread appends dx and what a chunk adds to dW, of the gradient of its logits for part i of W.
func (h *head) spread(c *Compiler, gradient *graph.Node, chunk run, i int) {
	dx, dw, p := c.Out(gradient.Outputs[0]), c.Out(gradient.Outputs[1]), h.w.Parts[i]
	if c.used(gradient.Outputs[0]) {
		g := gemm{count: 1, paddedA: true, f16: h.op.F16, accumulate: dx.Accumulate && i == 0, continues: i > 0, a: operand{row: h.strides[i]}, b: operand{row: h.d}, c: operand{row: h.d}}
		h.products(c, g, chunk, h.d, p.Rows, func(g gemm, rows run) {
			_, w, logits := h.operands(c, g, i)
			c.product(g, rows.length, h.d, p.Rows, matrix{logits, rows.start - chunk.start}, matrix{w, 0}, matrix{dx, rows.start})
		})
	}
	if !c.used(gradient.Outputs[1]) {
		return
	}
	for at, end := chunk.start, chunk.start+chunk.length; at < end; {
		rows := h.blocks(at, end)
		to, g := dw, h.gradW(i)
		to.Accumulate = dw.Accumulate || at > 0
		if g.accumulate = to.Accumulate; rows > h.block {
			g.block = h.block
		}
		g.m, g.n, g.k = p.Rows, h.d, rows
		x, _, logits := h.operands(c, g, i)
		c.product(g, p.Rows, h.d, rows, matrix{logits, at - chunk.start}, matrix{x, at}, matrix{to, p.Row})
		at += rows
	}
}

// blocks is the number of rows from one on that a product can add up block by block: those of the blocks in the same part of x, or of one block.
func (h *head) blocks(from, end int) int {
	to := min(from+h.block, end)
	for to < end && len(runs(min(to+h.block, end)-from, []matrix{{h.x, from}})) == 1 {
		to = min(to+h.block, end)
	}
	return to - from
}
