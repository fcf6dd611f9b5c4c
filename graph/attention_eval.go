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
	return g.Append(AttentionGrad(o), in...).Outputs[:len(n.Inputs)]
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

// seen is the number of positions that position t of T sees.
func (o Attention) seen(t, all int) int {
	if o.Causal {
		return t + 1
	}
	return all
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
func (o Attention) Eval(n *Node, in []*Array, _ *Env) []*Array {
	out, lse := NewArray(n.Outputs[0].Shape()), NewArray(n.Outputs[1].Shape())
	q, k, v := o.split(in)
	b, t := out.Shape[0], out.Shape[1]
	result := heads{out.Data, out.Shape[2], 0, t, o.HeadDim}
	scale := 1 / math.Sqrt(float64(o.HeadDim))
	o.each(b, t, func(batch, head, kvHead, time int) {
		scores := make([]float64, o.seen(time, t))
		for s := range scores {
			scores[s] = scale * dot(q.row(batch, time, head), k.row(batch, s, kvHead))
		}
		l := logSumExp(scores)
		lse.Data[(batch*o.Heads+head)*t+time] = l
		for s, score := range scores {
			addScaled(result.row(batch, time, head), math.Exp(score-l), v.row(batch, s, kvHead))
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

// Gradient fails.
func (AttentionGrad) Gradient(g *Graph, n *Node, _ []*Value) []*Value { return g.noGradient(n) }

// Eval is, with P = exp(scale q k^T - lse): dV = P^T dO, dP = dO V^T, dS = P (dP - sum(dO O)), dQ = scale dS K, dK = scale dS^T Q.
func (o AttentionGrad) Eval(n *Node, in []*Array, _ *Env) []*Array {
	a := Attention(o)
	grads := make([]*Array, len(n.Outputs))
	for i, v := range n.Outputs {
		grads[i] = NewArray(v.Shape())
	}
	q, k, v := a.split(in)
	dq, dk, dv := a.split(grads)
	rest := in[a.Operands():]
	b, t := in[0].Shape[0], in[0].Shape[1]
	out := heads{rest[0].Data, rest[0].Shape[2], 0, t, o.HeadDim}
	dout := heads{rest[2].Data, rest[2].Shape[2], 0, t, o.HeadDim}
	scale := 1 / math.Sqrt(float64(o.HeadDim))
	a.each(b, t, func(batch, head, kvHead, time int) {
		do, qr := dout.row(batch, time, head), q.row(batch, time, head)
		sum := dot(do, out.row(batch, time, head))
		lse := rest[1].Data[(batch*o.Heads+head)*t+time]
		for s := range a.seen(time, t) {
			kr := k.row(batch, s, kvHead)
			p := math.Exp(scale*dot(qr, kr) - lse)
			ds := p * (dot(do, v.row(batch, s, kvHead)) - sum)
			addScaled(dv.row(batch, s, kvHead), p, do)
			addScaled(dq.row(batch, time, head), scale*ds, kr)
			addScaled(dk.row(batch, s, kvHead), scale*ds, qr)
		}
	})
	return grads
}

// Gradient turns the other way.
func (o Rope) Gradient(g *Graph, n *Node, dy []*Value) []*Value {
	o.Inverse = !o.Inverse
	dx := make([]*Value, len(n.Inputs)) // positions have none
	dx[0] = g.one(o, append(slices.Clone(dy[:1]), n.Inputs[1:]...)...)
	return dx
}

// Eval is the definition.
func (o Rope) Eval(n *Node, in []*Array, e *Env) []*Array {
	x, y := in[0], NewArray(in[0].Shape)
	half := o.HeadDim / 2
	for base := 0; base < len(x.Data); base += o.HeadDim {
		row := base / x.Shape[2]
		time := float64(row % x.Shape[1])
		if o.Window > 0 {
			if time = in[1].Data[row]; !e.inRange(n, "position", row, time, o.Window) {
				return nil
			}
		}
		for i := range half {
			angle := time * math.Pow(o.Theta, -2*float64(i)/float64(o.HeadDim))
			if o.Inverse {
				angle = -angle
			}
			sin, cos := math.Sincos(angle)
			u, v := x.Data[base+i], x.Data[base+half+i]
			y.Data[base+i], y.Data[base+half+i] = u*cos-v*sin, v*cos+u*sin
		}
	}
	return []*Array{y}
}
