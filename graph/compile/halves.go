package compile

import (
	"slices"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/shaders"
)

// Products of f16 round their operands, so matrix units may as well find them in f16: half the bytes from every level of memory, eight elements a load, nothing
// to convert. A value that products and attention by units alone read is stored so by who makes it, through the forms of bf16.go. What others read too, and
// params, get copies, made before the first product that reads one and kept until the last: copies of params in f32 for the whole program where all of them
// together are small, else, and of params that are kept in fewer bytes, for one unit. All round to nearest even, so results have the bits that they had.

const (
	halfReads = 4         // of an operand by rows or columns of tiles, that pay for a copy
	halfSteps = 4         // of K, which do: one of an operand in f16 spares 600 clocks, and a dispatch takes modelPass
	halfKept  = 512 << 20 // bytes of copies of params that a program keeps
)

// halfCopy is what a copy in f16 is of.
type halfCopy struct {
	value *graph.Value
	at    uint64
	many  int // elements: a slice may begin where the whole does
	unit  int // of a copy that one unit has; -1
}

// inHalves tells whether a product reads the elements of a span in f16, as they are kept.
func (s Span) inHalves() bool { return s.st != nil && s.st.half && s.asKept }

// inHalves tells whether a value is stored in f16: it lies in one binding, and all that read it take it so.
func (c *Compiler) inHalves(v *graph.Value) bool {
	known, ok := c.halved[v]
	if !ok {
		known = len(c.limits.Matrix.Shapes) > 0 && v.DType() == buffers.F32 && c.whole(v) && v.Type().Elements()%8 == 0 && len(c.readers[v]) > 0 && c.halfReaders(v)
		c.halved[v] = known
	}
	return known
}

// halfReaders tells whether products that take a value in f16 are all that read it and what reshapes it.
func (c *Compiler) halfReaders(v *graph.Value) bool {
	if c.wanted(v) {
		return false
	}
	return !slices.ContainsFunc(c.readers[v], func(n *graph.Node) bool {
		if _, ok := n.Op.(graph.Reshape); ok {
			return !c.halfReaders(n.Outputs[0])
		}
		for i, in := range n.Inputs {
			if in == v && !c.takesHalf(n, i) {
				return true
			}
		}
		return false
	})
}

// takesHalf tells whether a node is a product, or attention, by units that takes its operand i in f16: rows of it begin at whole eights.
func (c *Compiler) takesHalf(n *graph.Node, i int) bool {
	switch op := n.Op.(type) {
	case graph.Reduce:
		return c.summed[n] != nil && c.takesHalf(c.summed[n], 1)
	case graph.Attention:
		return i < op.Operands() && c.allWhole(n) && op.F16 && UnitsAttend(c.limits, op.HeadDim, op.Cap > 0)
	case graph.AttentionGrad:
		a := graph.Attention(op)
		return (i < a.Operands() || i == len(n.Inputs)-1) && c.allWhole(n) && a.F16 && UnitsAttend(c.limits, a.HeadDim, a.Cap > 0)
	}
	op, ok := n.Op.(graph.MatMul)
	if !ok || !op.F16 || len(c.limits.Matrix.Shapes) == 0 || n.Outputs[0].Type().Elements() == 0 || !c.allWhole(n) {
		return false
	}
	g := productOf(n)
	if g.k == 0 || !c.takesUnits(g) {
		return false
	}
	o, along := g.a, !g.transA
	if i == 1 {
		o, along = g.b, g.transB
	}
	return o.row%8 == 0 && o.batch%8 == 0 && (!along || g.k%8 == 0)
}

// halvesOf is operand i of the product g of a node as its units read it: in f16 where it is kept so, or where a copy pays.
func (c *Compiler) halvesOf(n *graph.Node, g gemm, i int, t Tensor) Tensor {
	if c.err != nil || len(t.Parts) != 1 || !c.takesHalf(n, i) {
		return t
	}
	p := t.Parts[0]
	if !p.Span.st.half {
		copied := c.copyInHalves(n.Inputs[i], t, c.copyPays(g, i))
		if copied == nil {
			return t
		}
		p.Span = Span{st: copied, Bytes: copied.bytes}
	}
	p.Span.asKept = true
	t.Parts = []Part{p}
	return t
}

// bornInHalves is memory for a copy in f16 that who makes a value makes of it, too; nil where no product will read one.
func (c *Compiler) bornInHalves(v *graph.Value) *storage {
	if v.DType() != buffers.F32 || c.inHalves(v) || !c.whole(v) || v.Type().Elements()%8 != 0 || !c.halfPays(v) {
		return nil
	}
	to := c.newStorage(transientStorage, c.valueLabel(v)+".f16", typeBytes(v.Shape(), buffers.BF16))
	to.half, c.halves = true, true
	c.halfCopy[halfCopy{v, 0, v.Type().Elements(), -1}] = to
	return to
}

// halfPays tells whether a product will read a copy of a value, or of what reshapes it.
func (c *Compiler) halfPays(v *graph.Value) bool {
	return slices.ContainsFunc(c.readers[v], func(n *graph.Node) bool {
		if _, ok := n.Op.(graph.Reshape); ok {
			return c.halfPays(n.Outputs[0])
		}
		_, product := n.Op.(graph.MatMul)
		for i, in := range n.Inputs {
			if product && in == v && c.takesHalf(n, i) && c.copyPays(productOf(n), i) {
				return true
			}
		}
		return false
	})
}

// copyPays tells whether a copy of operand i of a product by units pays: as many rows or columns of tiles read it, each in as many steps. A product of
// adapters, with a K of their rank, has no such step.
func (c *Compiler) copyPays(g gemm, i int) bool {
	v, _ := c.gpuChoice(g)
	reads := int(tiles(g.n, v.tileN)) * g.count
	if i == 1 {
		reads = int(tiles(g.m, v.tileM)) * g.count
	}
	return reads >= halfReads && g.k >= halfSteps*v.matrix.step
}

// copyInHalves is a copy in f16 of a value; nil where there is none and another does not pay.
func (c *Compiler) copyInHalves(v *graph.Value, t Tensor, pays bool) *storage {
	from, root := t.Parts[0].Span, c.root(v)
	key := halfCopy{root, from.Offset, t.elements(), -1}
	if _, param := root.Node().Op.(graph.Param); param && (from.kept() != buffers.F32 || !c.keepsHalves()) {
		key.unit = c.current
	}
	if st := c.halfCopy[key]; st != nil || !pays {
		return st
	}
	to := c.newStorage(transientStorage, c.valueLabel(v)+".f16", typeBytes(t.Shape, buffers.BF16))
	to.half, to.workspace = true, key.unit >= 0
	kept, spans := from.kept(), []Span{from}
	switch {
	case from.st.bf16:
		kept, spans[0].asKept = buffers.BF16, true
	case kept != buffers.F32:
		spans = from.stored()
	}
	kernel, grid, params := c.castHalves(kept, uint64(t.elements())/8)
	c.Dispatch(kernel, grid, params, append(spans, Span{st: to, Bytes: to.bytes, asKept: true})...)
	c.halfCopy[key] = to
	return to
}

// keepsHalves tells whether copies of all params that products read are small.
func (c *Compiler) keepsHalves() bool {
	multiplies := func(n *graph.Node) bool {
		switch n.Op.(type) {
		case graph.MatMul, graph.HeadLoss, graph.HeadLossGrad:
			return true
		}
		return false
	}
	if c.halfParams == 0 {
		c.halfParams = 1
		for _, n := range c.live {
			if _, ok := n.Op.(graph.Param); ok && slices.ContainsFunc(c.readers[n.Outputs[0]], multiplies) {
				c.halfParams += typeBytes(n.Outputs[0].Shape(), buffers.BF16)
			}
		}
	}
	return c.halfParams <= halfKept
}

// castHalves is what rounds so many eights of elements to f16, as they are kept.
func (c *Compiler) castHalves(kept buffers.DType, eights uint64) (*gpu.Kernel, gpu.Grid, castParams) {
	variant, suffix := shaders.Variant{Flags: map[string]bool{"BF16": kept == buffers.BF16, "CODED": kept.Packed()}, Constants: map[string]string{}}, ""
	if kept != buffers.F32 {
		suffix = "_" + kept.Format().Load
	}
	if kept.Packed() {
		variant.Flags["TABLE"] = false
		codesOf(kept, variant)
	}
	return c.kernel("cast_halves", suffix, variant), gpu.Linear(eights, castQuads, c.limits), castParams{uint32(eights)}
}
