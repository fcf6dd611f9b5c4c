package compile

import (
	"fmt"

	"gputrain/buffers"
	"gputrain/graph"
	"gputrain/shaders"
)

func init() {
	lowerings["cross_entropy"] = lowering{lower: lowerCrossEntropy}
	lowerings["cross_entropy_grad"] = lowering{lower: lowerCrossEntropyGrad}
	lowerings["head_loss"] = lowering{lower: func(c *compiler, n *graph.Node) { lowerHead(c, n, nil) }}
	lowerings["head_loss_grad"] = lowering{leaf: true, lower: func(c *compiler, n *graph.Node) { lowerHead(c, nil, n) }}
	pairLowerings = append(pairLowerings, pairLowering{
		forward: "head_loss", gradient: "head_loss_grad", leaf: true, lower: lowerHead,
		match: func(f, g *graph.Node) bool {
			return g.Inputs[0] == f.Inputs[0] && g.Inputs[1] == f.Inputs[1] && g.Inputs[2] == f.Inputs[2] && g.Inputs[3] == f.Outputs[1]
		},
	})
}

// logitsBytes is what the logits of one chunk of rows may take.
const logitsBytes = 64 << 20

// lossParams is Params of cross_entropy.wgsl; its start is that of cross_entropy_grad.wgsl.
type lossParams struct {
	Rows, Columns, Stride, Column0, Row0, First, Last, Unused uint32
}

// logitsRun is the logits of some rows for a run of the vocabulary, as a kernel sees them.
type logitsRun struct {
	span          span
	rows, columns int
	stride        int // of a row, in elements
	row0, column0 int // where they stand among all rows and columns
}

func (l logitsRun) scalar() bool { return l.stride%4 != 0 }

func (l logitsRun) element() string {
	if l.scalar() {
		return "f32"
	}
	return "vec4<f32>"
}

func (l logitsRun) params() lossParams {
	unit := 4
	if l.scalar() {
		unit = 1
	}
	return lossParams{Rows: uint32(l.rows), Columns: uint32(l.columns), Stride: uint32(l.stride / unit), Column0: uint32(l.column0), Row0: uint32(l.row0)}
}

// rowLosses are the buffers that the loss of each row goes through; all [N].
type rowLosses struct{ labels, carried, lse, losses span }

func (c *compiler) rowLosses(labels, lse *graph.Value) rowLosses {
	n := labels.Shape()[0]
	return rowLosses{
		labels: c.one(c.in(labels), "labels"), lse: c.one(c.out(lse), "lse"),
		carried: c.one(c.workspace("carried", buffers.F32, n, 4), "carried"), losses: c.one(c.workspace("losses", buffers.F32, n), "losses"),
	}
}

// rowLoss appends the loss of the rows over one run of columns.
func (c *compiler) rowLoss(l logitsRun, r rowLosses, first, last bool) {
	p := l.params()
	if first {
		p.First = 1
	}
	if last {
		p.Last = 1
	}
	group := !c.cpu // a workgroup a row where there is workgroup memory worth the name
	grid := c.linear(l.rows)
	if group {
		grid = c.linear(64 * l.rows)
	}
	k := c.kernel("cross_entropy", "", shaders.Variant{
		Constants: map[string]string{"ELEMENT": l.element()},
		Flags:     map[string]bool{"SCALAR": l.scalar(), "GROUP": group},
	})
	c.dispatch(k, grid, p, l.span, r.labels, r.carried, r.lse, r.losses)
}

// lossSum appends the sum of the rows' losses.
func (c *compiler) lossSum(n int, losses, total span) {
	k := c.kernel("loss_sum", "", shaders.Variant{})
	c.dispatch(k, c.linear(64), []uint32{uint32(n), 0, 0, 0}, losses, total)
}

// rowLossGrad appends the gradient of the rows' losses over one run of columns, in place when dlogits is the zero span.
func (c *compiler) rowLossGrad(l logitsRun, labels, lse, dloss, dlogits span) {
	p := l.params()
	inPlace := dlogits.st == nil
	name, bind := "dlogits", []span{labels, lse, dloss, l.span, dlogits}
	if inPlace {
		name, bind = "logits", bind[:4]
	}
	k := c.kernel("cross_entropy_grad", "", shaders.Variant{
		Constants: map[string]string{"ELEMENT": l.element(), "OUT": name},
		Flags:     map[string]bool{"SCALAR": l.scalar(), "IN_PLACE": inPlace},
	})
	c.dispatch(k, c.linear(l.rows*((l.columns+3)/4)), p, bind...)
}

func lowerCrossEntropy(c *compiler, n *graph.Node) {
	logits, total := c.in(n.Inputs[0]), c.one(c.out(n.Outputs[0]), "loss")
	rows, columns := logits.Shape[0], logits.Shape[1]
	checkIDs(c, n.Inputs[1], "label", columns, true)
	if logits.elements() == 0 {
		c.zero(total)
		return
	}
	r := c.rowLosses(n.Inputs[1], n.Outputs[1])
	c.rowLoss(logitsRun{span: c.one(logits, "logits"), rows: rows, columns: columns, stride: columns}, r, true, true)
	c.lossSum(rows, r.losses, total)
}

func lowerCrossEntropyGrad(c *compiler, n *graph.Node) {
	logits, labels, lse, dloss := c.in(n.Inputs[0]), c.in(n.Inputs[1]), c.in(n.Inputs[2]), c.in(n.Inputs[3])
	checkIDs(c, n.Inputs[1], "label", logits.Shape[1], true)
	if logits.elements() == 0 {
		return
	}
	l := logitsRun{span: c.one(logits, "logits"), rows: logits.Shape[0], columns: logits.Shape[1], stride: logits.Shape[1]}
	c.rowLossGrad(l, c.one(labels, "labels"), c.one(lse, "lse"), c.one(dloss, "dloss"), c.one(c.out(n.Outputs[0]), "dlogits"))
}

// head is the loss head of one program: x [N,D], W [V,D] in parts, the logits of a chunk of rows at a time in one workspace a
// part of W.
type head struct {
	x       tensor
	w       tensor
	n, d    int
	rows    int // a chunk
	logits  []span
	strides []int
}

// lowerHead lowers HeadLoss, HeadLossGrad, or both together with the logits made once; the node that is not there is nil.
func lowerHead(c *compiler, forward, gradient *graph.Node) {
	node := forward
	if node == nil {
		node = gradient
	}
	h := head{x: c.in(node.Inputs[0]), w: c.in(node.Inputs[1])}
	h.n, h.d = h.x.Shape[0], h.x.Shape[1]
	labels := node.Inputs[2]
	checkIDs(c, labels, "label", h.w.rows(), true)
	if h.x.elements() == 0 || h.w.elements() == 0 {
		c.emptyHead(h, forward, gradient)
		return
	}
	h.makeRoom(c)
	var r rowLosses
	if forward != nil {
		r = c.rowLosses(labels, forward.Outputs[1])
	} else {
		r = rowLosses{labels: c.one(c.in(labels), "labels"), lse: c.one(c.in(gradient.Inputs[3]), "lse")}
	}
	for row := 0; row < h.n; row += h.rows {
		chunk := run{start: row, length: min(h.rows, h.n-row)}
		for i := range h.w.Parts {
			c.gemm(h.product(c, chunk, i))
			if forward != nil {
				c.rowLoss(h.run(chunk, i), r, i == 0, i == len(h.w.Parts)-1)
			}
		}
		if gradient != nil {
			h.backward(c, gradient, chunk, r)
		}
	}
	if forward != nil {
		c.lossSum(h.n, r.losses, c.one(c.out(forward.Outputs[0]), "loss"))
	}
}

// emptyHead is the loss of no rows, or of rows of no width.
func (c *compiler) emptyHead(h head, forward, gradient *graph.Node) {
	if h.n > 0 {
		c.fail("head of width %d and %d classes, want them positive", h.d, h.w.rows())
		return
	}
	if forward != nil {
		c.zero(c.one(c.out(forward.Outputs[0]), "loss"))
	}
	if gradient == nil {
		return
	}
	dw := c.out(gradient.Outputs[1])
	for _, p := range dw.Parts {
		if !dw.Accumulate {
			c.zero(p.Span)
		}
	}
}

// makeRoom takes the workspaces: as many rows as fit in logitsBytes, and each part's logits in a binding, in whole tiles.
func (h *head) makeRoom(c *compiler) {
	width, widest := 0, 0
	for _, p := range h.w.Parts {
		stride := (p.Rows + 3) / 4 * 4
		h.strides = append(h.strides, stride)
		width += stride
		widest = max(widest, stride)
	}
	limit := int(min(c.limits.BindingBytes, c.limits.BufferBytes))
	h.rows = max(1, min(logitsBytes/(4*width), limit/(4*widest), h.n))
	if h.rows < h.n && h.rows > 16 {
		h.rows = h.rows / 16 * 16
	}
	for i, stride := range h.strides {
		h.logits = append(h.logits, c.one(c.workspace(fmt.Sprintf("logits.%d", i), buffers.F32, h.rows, stride), "logits"))
	}
}

// run is the logits of a chunk for part i of W.
func (h *head) run(chunk run, i int) logitsRun {
	p := h.w.Parts[i]
	return logitsRun{span: h.logits[i], rows: chunk.length, columns: p.Rows, stride: h.strides[i], row0: chunk.start, column0: p.Row}
}

// product makes the logits of a chunk for part i of W.
func (h *head) product(c *compiler, chunk run, i int) gemm {
	p := h.w.Parts[i]
	return gemm{
		m: chunk.length, n: p.Rows, k: h.d, count: 1, transB: true, paddedC: true,
		a: operand{span: c.one(h.x, "x"), offset: chunk.start * h.d, row: h.d},
		b: operand{span: p.Span, row: h.d}, c: operand{span: h.logits[i], row: h.strides[i]},
	}
}

// backward turns the logits of a chunk to their gradient, in place, and appends dx and what the chunk adds to dW.
func (h *head) backward(c *compiler, gradient *graph.Node, chunk run, r rowLosses) {
	dx, dw := c.out(gradient.Outputs[0]), c.out(gradient.Outputs[1])
	dloss := c.one(c.in(gradient.Inputs[4]), "dloss")
	for i, p := range h.w.Parts {
		c.rowLossGrad(h.run(chunk, i), r.labels, r.lse, dloss, span{})
		if c.used(gradient.Outputs[0]) {
			c.gemm(gemm{
				m: chunk.length, n: h.d, k: p.Rows, count: 1, paddedA: true, accumulate: dx.Accumulate || i > 0,
				a: operand{span: h.logits[i], row: h.strides[i]}, b: operand{span: p.Span, row: h.d},
				c: operand{span: c.one(dx, "dx"), offset: chunk.start * h.d, row: h.d},
			})
		}
		if !c.used(gradient.Outputs[1]) {
			continue
		}
		for _, out := range dw.Parts {
			from, to := max(p.Row, out.Row), min(p.Row+p.Rows, out.Row+out.Rows)
			if from >= to {
				continue
			}
			c.gemm(gemm{
				m: to - from, n: h.d, k: chunk.length, count: 1, transA: true, accumulate: dw.Accumulate || chunk.start > 0,
				a: operand{span: h.logits[i], offset: from - p.Row, row: h.strides[i]},
				b: operand{span: c.one(h.x, "x"), offset: chunk.start * h.d, row: h.d},
				c: operand{span: out.Span, offset: (from - out.Row) * h.d, row: h.d},
			})
		}
	}
}
