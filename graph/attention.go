package graph

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"gputrain/buffers/array"
)

// Attention is softmax(Scale q k^T) v, head by head; query head j uses key and value head j/(Heads/KVHeads).
// Inputs: q [B,T,Heads HeadDim], k and v [B,T,KVHeads HeadDim], or Packed one [B,T,(Heads+2 KVHeads) HeadDim] of q, k, v in
// this order. Causal: position t sees positions 0 to t. With a Window it sees at most so many, itself the last of them. With Documents there is
// one more input, positions i32 [B,T]: each row is made of documents, and positions[b,t] counts t from the first token of its own, which is the first
// that it sees. With a Cap a score s is Cap tanh(s/Cap). With Sinks the last input is one more score of each query head [Heads], of no key, nor value, which is
// neither scaled nor capped: weights add up to less than 1, and lse has it too. Outputs: o [B,T,Heads HeadDim] and lse [B,Heads,T], the logarithm of
// the sum of the exponentials of the scores, for the backward pass. F16: what its products and those of its gradient read is rounded to f16 (see
// RoundProducts): q, k, v, do, the weights exp(s - max s), and in the gradient the weights exp(s - lse) and the gradients of scores, before Scale. Sums,
// exponentials, lse and o stay as they are, and so does sum(do o), but that it is of the rounded do.
type Attention struct {
	Heads     int     `json:"heads"`
	KVHeads   int     `json:"kv_heads"`
	HeadDim   int     `json:"head_dim"`
	Packed    bool    `json:"packed,omitempty"`
	Causal    bool    `json:"causal,omitempty"`
	Scale     float64 `json:"scale,omitempty"` // 0: 1/sqrt(HeadDim)
	Cap       float64 `json:"cap,omitempty"`
	Window    int     `json:"window,omitempty"`
	Documents bool    `json:"documents,omitempty"`
	F16       bool    `json:"f16,omitempty"`
	Sinks     bool    `json:"sinks,omitempty"`
}

func (Attention) Kind() string { return "attention" }

// Widths are those of q, of k and v, and of all three packed.
func (o Attention) Widths() (q, kv, packed int) {
	q, kv = o.Heads*o.HeadDim, o.KVHeads*o.HeadDim
	return q, kv, q + 2*kv
}

// Operands is the number of leading inputs that hold q, k and v.
func (o Attention) Operands() int {
	if o.Packed {
		return 1
	}
	return 3
}

// inputs is the number of inputs, and which of them are integers: the positions behind the operands.
func (o Attention) inputs() (count int, integer []int) {
	count = o.Operands()
	if o.Documents {
		integer = []int{count}
		count++
	}
	if o.Sinks {
		count++
	}
	return count, integer
}

// ScoreScale is what products of queries and keys are multiplied by.
func (o Attention) ScoreScale() float64 {
	return cmp.Or(o.Scale, 1/math.Sqrt(float64(o.HeadDim)))
}

func (o Attention) Infer(in []*Value) ([]Type, error) {
	count, integer := o.inputs()
	if err := arity(in, count, integer...); err != nil {
		return nil, err
	}
	return o.outputs(in)
}

func (o Attention) outputs(in []*Value) ([]Type, error) {
	if o.Heads < 1 || o.KVHeads < 1 || o.HeadDim < 1 || o.Heads%o.KVHeads != 0 {
		return nil, fmt.Errorf("heads %d, kv heads %d, head dim %d: want them positive, and heads a multiple of kv heads",
			o.Heads, o.KVHeads, o.HeadDim)
	}
	for name, x := range map[string]float64{"scale": o.Scale, "cap": o.Cap, "window": float64(o.Window)} {
		if !(x >= 0) || math.IsInf(x, 0) {
			return nil, fmt.Errorf("%s %g: want it finite and not negative", name, x)
		}
	}
	if !o.Causal && (o.Window > 0 || o.Documents) {
		return nil, errors.New("a window or documents, but not causal")
	}
	if len(in[0].Shape()) != 3 {
		return nil, fmt.Errorf("input 0 has shape %v, want [batch time width]", in[0].Shape())
	}
	b, t := in[0].Shape()[0], in[0].Shape()[1]
	q, kv, packed := o.Widths()
	names, widths := []string{"q", "k", "v"}, []int{q, kv, kv}
	if o.Packed {
		names, widths = []string{"qkv"}, []int{packed}
	}
	for i, w := range widths {
		if err := wantShape(names[i], in[i], b, t, w); err != nil {
			return nil, err
		}
	}
	if o.Documents {
		at := in[o.Operands()]
		if err := cmp.Or(wantDType("positions", at, array.I32), wantShape("positions", at, b, t)); err != nil {
			return nil, err
		}
	}
	if o.Sinks {
		count, _ := o.inputs()
		if err := wantShape("sinks", in[count-1], o.Heads); err != nil {
			return nil, err
		}
	}
	return []Type{F32(b, t, q), F32(b, o.Heads, t)}, nil
}

// FLOPs counts two products of HeadDim, and four for the softmax, for every pair of positions that see each other. Which documents there are is
// known when it runs: they count as one.
func (o Attention) FLOPs(n *Node) int64 { return o.pairs(n) * int64(4*o.HeadDim+4) }

// pairs is the number of scores.
func (o Attention) pairs(n *Node) int64 {
	b, t := int64(n.Inputs[0].Shape()[0]), int64(n.Inputs[0].Shape()[1])
	pairs := t * t
	if o.Causal {
		pairs = t * (t + 1) / 2
	}
	if w := int64(o.Window); w > 0 && w < t {
		pairs -= (t - w) * (t - w + 1) / 2
	}
	return b * int64(o.Heads) * pairs
}

// AttentionGrad takes the inputs of the Attention of the same fields, then o, lse and do, to the gradients of these inputs: dq,
// dk, dv, or Packed dqkv.
type AttentionGrad Attention

func (AttentionGrad) Kind() string { return "attention_grad" }

func (o AttentionGrad) Infer(in []*Value) ([]Type, error) {
	a := Attention(o)
	k, integer := a.inputs()
	if err := arity(in, k+3, integer...); err != nil {
		return nil, err
	}
	out, err := a.outputs(in)
	if err != nil {
		return nil, err
	}
	for i, what := range []string{"o", "lse", "do"} {
		if err := wantShape(what, in[k+i], out[i%2].Shape...); err != nil {
			return nil, err
		}
	}
	types := make([]Type, a.Operands())
	for i := range types {
		types[i] = in[i].typ
	}
	return types, nil
}

// FLOPs counts four products of HeadDim (dV, dP, dQ, dK) for every pair of positions that see each other.
func (o AttentionGrad) FLOPs(n *Node) int64 {
	return Attention(o).pairs(n) * int64(8*o.HeadDim+4)
}

// Executed counts seven products where FLOPs counts four: no scores are kept, so the pass that makes dQ and the one that makes dK and dV both compute S and
// dP, and the exponentials, again.
func (o AttentionGrad) Executed(n *Node) int64 {
	return Attention(o).pairs(n) * int64(14*o.HeadDim+8)
}

// Gradient is AttentionGrad.
func (o Attention) Gradient(g *Graph, n *Node, dy []*Value) []*Value {
	if !g.onlyFirst(n, dy) {
		return make([]*Value, len(n.Inputs))
	}
	plain, in := o, slices.Clone(n.Inputs)
	if o.Sinks { // o and lse have all of them that q, k and v need to know
		plain.Sinks, in = false, in[:len(in)-1]
	}
	in = append(in, n.Outputs[0], n.Outputs[1], dy[0])
	grads := g.Append(AttentionGrad(plain), in...).Outputs[:o.Operands()]
	all := append(slices.Clone(grads), make([]*Value, len(n.Inputs)-len(grads))...) // positions have none
	if last := len(all) - 1; o.Sinks && g.wants(n.Inputs[last]) {
		all[last] = g.one(SinkGrad{}, n.Inputs[last], n.Outputs[0], n.Outputs[1], dy[0])
	}
	return all
}

// sunk is what the weights of a row are multiplied by for a sink, and its lse with it.
func sunk(lse, sink float64) (share, with float64) {
	with = logSumExp([]float64{lse, sink})
	return math.Exp(lse - with), with
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
	q, k, v := o.split(o.multiplied(in))
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
		share, with := 1.0, l
		if o.Sinks {
			share, with = sunk(l, in[len(in)-1].Data[head])
		}
		lse.Data[(batch*o.Heads+head)*t+time] = with
		largest := 0.0 // of the weights, by which they are divided where they are rounded
		if o.F16 {
			largest = slices.Max(scores) - l
		}
		for s, score := range scores {
			weight := share * math.Exp(largest) * o.rounded(math.Exp(score-l-largest))
			addScaled(result.row(batch, time, head), weight, v.row(batch, first+s, kvHead))
		}
	})
	return []*Array{out, lse}
}

// multiplied are q, k and v as products read them.
func (o Attention) multiplied(in []*Array) []*Array {
	out := slices.Clone(in[:o.Operands()])
	for i := range out {
		out[i] = MatMul{F16: o.F16}.rounded(out[i])
	}
	return out
}

// rounded is a weight, or the gradient of a score, as products read it.
func (o Attention) rounded(x float64) float64 {
	if o.F16 {
		return float64(toF16(float32(x)))
	}
	return x
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
	q, k, v := a.split(a.multiplied(in))
	dq, dk, dv := a.split(grads)
	count, _ := a.inputs()
	rest := in[count:]
	b, t := in[0].Shape[0], in[0].Shape[1]
	out := heads{rest[0].Data, rest[0].Shape[2], 0, t, o.HeadDim}
	dout := heads{MatMul{F16: o.F16}.rounded(rest[2]).Data, rest[2].Shape[2], 0, t, o.HeadDim}
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
			ds := a.ScoreScale() * a.rounded(slope/a.ScoreScale()*p*(dot(do, v.row(batch, s, kvHead))-sum))
			addScaled(dv.row(batch, s, kvHead), a.rounded(p), do)
			addScaled(dq.row(batch, time, head), ds, kr)
			addScaled(dk.row(batch, s, kvHead), ds, qr)
		}
	})
	return grads
}
