package graph

import (
	"math"
	"slices"
)

// Gradient is AttentionGrad.
func (o Attention) Gradient(g *Graph, n *Node, dy []*Value) []*Value {
	if !g.onlyFirst(n, dy) {
		return make([]*Value, len(n.Inputs))
	}
	in := append(slices.Clone(n.Inputs), n.Outputs[0], n.Outputs[1], dy[0])
	grads := g.Append(AttentionGrad(o), in...).Outputs[:o.Operands()]
	return append(slices.Clone(grads), make([]*Value, len(n.Inputs)-len(grads))...) // positions have none
}

// heads is one of q, k, v: the rows of HeadDim numbers of its heads lie in data, width apart in time, from offset on.
type heads struct {
	data          []float64
	width, offset int
	time, dim     int
}

func (h heads) row(batch, time, head int) []float64 {
	i := (batch*h.time+time)*h.width + h.offset + head*h.dim
	return h.data[i : i+h.dim]
}

// split gives q, k and v (or their gradients) as they lie in one packed array or in three.
func (o Attention) split(a []*Array) (q, k, v heads) {
	qw, kvw, packed := o.Widths()
	t := a[0].Shape[1]
	if o.Packed {
		d := a[0].Data
		return heads{d, packed, 0, t, o.HeadDim}, heads{d, packed, qw, t, o.HeadDim}, heads{d, packed, qw + kvw, t, o.HeadDim}
	}
	return heads{a[0].Data, qw, 0, t, o.HeadDim}, heads{a[1].Data, kvw, 0, t, o.HeadDim}, heads{a[2].Data, kvw, 0, t, o.HeadDim}
}

// seen are the positions from first to before end that position t of T sees, document is how many are before it in its document.
func (o Attention) seen(t, all, document int) (first, end int) {
	if !o.Causal {
		return 0, all
	}
	if o.Window > 0 {
		document = min(document, o.Window-1)
	}
	return t - document, t + 1
}

// documents tells of each position of in how many of its document are before it: all, without Documents.
func (o Attention) documents(n *Node, in []*Array, t int, e *Env) []int {
	before := make([]int, in[0].Shape[0]*t)
	for i := range before {
		before[i] = i % t
	}
	if !o.Documents {
		return before
	}
	for i, p := range in[o.Operands()].Data {
		if p != 0 && (i%t == 0 || p != in[o.Operands()].Data[i-1]+1) {
			e.fail(n, "position %d: %g, want 0, or one more than that before it", i, p)
			return nil
		}
		before[i] = int(p)
	}
	return before
}

// score is that of the product of a query and a key, and its derivative.
func (o Attention) score(product float64) (score, slope float64) {
	scale := o.ScoreScale()
	if o.Cap == 0 {
		return scale * product, scale
	}
	bounded := math.Tanh(scale * product / o.Cap)
	return o.Cap * bounded, scale * (1 - bounded*bounded)
}

// each visits every query row.
func (o Attention) each(b, t int, visit func(batch, head, kvHead, time int)) {
	for batch := range b {
		for head := range o.Heads {
			for time := range t {
				visit(batch, head, head/(o.Heads/o.KVHeads), time)
			}
		}
	}
}

// Eval is the definition.
func (o Attention) Eval(n *Node, in []*Array, e *Env) []*Array {
	out, lse := NewArray(n.Outputs[0].Shape()), NewArray(n.Outputs[1].Shape())
	q, k, v := o.split(in)
	b, t := out.Shape[0], out.Shape[1]
	result := heads{out.Data, out.Shape[2], 0, t, o.HeadDim}
	before := o.documents(n, in, t, e)
	if before == nil {
		return nil
	}
	o.each(b, t, func(batch, head, kvHead, time int) {
		first, end := o.seen(time, t, before[batch*t+time])
		scores := make([]float64, end-first)
		for s := range scores {
			scores[s], _ = o.score(dot(q.row(batch, time, head), k.row(batch, first+s, kvHead)))
		}
		l := logSumExp(scores)
		lse.Data[(batch*o.Heads+head)*t+time] = l
		for s, score := range scores {
			addScaled(result.row(batch, time, head), math.Exp(score-l), v.row(batch, first+s, kvHead))
		}
	})
	return []*Array{out, lse}
}

// addScaled is y += a x.
func addScaled(y []float64, a float64, x []float64) {
	for i := range y {
		y[i] += a * x[i]
	}
}

// Eval is, with P = exp(S - lse) and S' the slope of the score S: dV = P^T dO, dP = dO V^T, dS = S' P (dP - sum(dO O)), dQ = dS K, dK = dS^T Q.
func (o AttentionGrad) Eval(n *Node, in []*Array, e *Env) []*Array {
	a := Attention(o)
	grads := make([]*Array, len(n.Outputs))
	for i, v := range n.Outputs {
		grads[i] = NewArray(v.Shape())
	}
	q, k, v := a.split(in)
	dq, dk, dv := a.split(grads)
	count, _ := a.inputs()
	rest := in[count:]
	b, t := in[0].Shape[0], in[0].Shape[1]
	out := heads{rest[0].Data, rest[0].Shape[2], 0, t, o.HeadDim}
	dout := heads{rest[2].Data, rest[2].Shape[2], 0, t, o.HeadDim}
	before := a.documents(n, in, t, e)
	if before == nil {
		return nil
	}
	a.each(b, t, func(batch, head, kvHead, time int) {
		do, qr := dout.row(batch, time, head), q.row(batch, time, head)
		sum := dot(do, out.row(batch, time, head))
		lse := rest[1].Data[(batch*o.Heads+head)*t+time]
		first, end := a.seen(time, t, before[batch*t+time])
		for s := first; s < end; s++ {
			kr := k.row(batch, s, kvHead)
			score, slope := a.score(dot(qr, kr))
			p := math.Exp(score - lse)
			ds := slope * p * (dot(do, v.row(batch, s, kvHead)) - sum)
			addScaled(dv.row(batch, s, kvHead), p, do)
			addScaled(dq.row(batch, time, head), ds, kr)
			addScaled(dk.row(batch, s, kvHead), ds, qr)
		}
	})
	return grads
}
