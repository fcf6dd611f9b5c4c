package graph

import (
	"cmp"
	"fmt"
	"math"

	"gputrain/buffers/array"
)

func init() { Register(Attention{}, AttentionGrad{}, Rope{}) }

// Attention is softmax(q k^T / sqrt(HeadDim)) v, head by head; query head j uses key and value head j/(Heads/KVHeads).
// Inputs: q [B,T,Heads HeadDim], k and v [B,T,KVHeads HeadDim], or Packed one [B,T,(Heads+2 KVHeads) HeadDim] of q, k, v in
// this order. Causal: position t sees positions 0 to t. Outputs: o [B,T,Heads HeadDim] and lse [B,Heads,T], the logarithm of
// the sum of the exponentials of the scaled scores, for the backward pass.
type Attention struct {
	Heads   int  `json:"heads"`
	KVHeads int  `json:"kv_heads"`
	HeadDim int  `json:"head_dim"`
	Packed  bool `json:"packed,omitempty"`
	Causal  bool `json:"causal,omitempty"`
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

func (o Attention) Infer(in []*Value) ([]Type, error) {
	if err := arity(in, o.Operands()); err != nil {
		return nil, err
	}
	return o.outputs(in)
}

func (o Attention) outputs(in []*Value) ([]Type, error) {
	if o.Heads < 1 || o.KVHeads < 1 || o.HeadDim < 1 || o.Heads%o.KVHeads != 0 {
		return nil, fmt.Errorf("heads %d, kv heads %d, head dim %d: want them positive, and heads a multiple of kv heads",
			o.Heads, o.KVHeads, o.HeadDim)
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
	return []Type{F32(b, t, q), F32(b, o.Heads, t)}, nil
}

// FLOPs counts two products of HeadDim, and four for the softmax, for every pair of positions that see each other.
func (o Attention) FLOPs(n *Node) int64 { return o.pairs(n) * int64(4*o.HeadDim+4) }

// pairs is the number of scores.
func (o Attention) pairs(n *Node) int64 {
	b, t := int64(n.Inputs[0].Shape()[0]), int64(n.Inputs[0].Shape()[1])
	pairs := t * t
	if o.Causal {
		pairs = t * (t + 1) / 2
	}
	return b * int64(o.Heads) * pairs
}

// AttentionGrad takes the inputs of the Attention of the same fields, then o, lse and do, to the gradients of these inputs: dq,
// dk, dv, or Packed dqkv.
type AttentionGrad Attention

func (AttentionGrad) Kind() string { return "attention_grad" }

func (o AttentionGrad) Infer(in []*Value) ([]Type, error) {
	a := Attention(o)
	k := a.Operands()
	if err := arity(in, k+3); err != nil {
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
	types := make([]Type, k)
	for i := range types {
		types[i] = in[i].typ
	}
	return types, nil
}

// FLOPs counts four products of HeadDim (dV, dP, dQ, dK) for every pair of positions that see each other.
func (o AttentionGrad) FLOPs(n *Node) int64 {
	return Attention(o).pairs(n) * int64(8*o.HeadDim+4)
}

// Rope is the rotary position embedding of x [B,T,H HeadDim]: in each head the pair (x[i], x[i+HeadDim/2]) is turned by the
// angle t Theta^(-2i/HeadDim), t the index on axis 1; Inverse turns back, which is its gradient. With a Window there is a second input,
// positions i32 [B,T], each from 0 to Window-1, and t is the position.
type Rope struct {
	HeadDim int     `json:"head_dim"`
	Theta   float64 `json:"theta"`
	Inverse bool    `json:"inverse,omitempty"`
	Window  int     `json:"window,omitempty"`
}

func (Rope) Kind() string { return "rope" }

func (o Rope) Infer(in []*Value) ([]Type, error) {
	inputs := 1
	if o.Window > 0 {
		inputs = 2
	}
	if err := arity(in, inputs, 1); err != nil {
		return nil, err
	}
	x := in[0].Shape()
	if o.HeadDim < 2 || o.HeadDim%2 != 0 || !(o.Theta > 0) || math.IsInf(o.Theta, 0) {
		return nil, fmt.Errorf("head dim %d, theta %g: want an even head dim and theta above 0", o.HeadDim, o.Theta)
	}
	if len(x) != 3 || x[2]%o.HeadDim != 0 {
		return nil, fmt.Errorf("x has shape %v, want [batch time heads*%d]", x, o.HeadDim)
	}
	if o.Window > 0 {
		if err := cmp.Or(wantDType("positions", in[1], array.I32), wantShape("positions", in[1], x[0], x[1])); err != nil {
			return nil, err
		}
	}
	return []Type{F32(x...)}, nil
}

// FLOPs is 3 an element.
func (Rope) FLOPs(n *Node) int64 { return 3 * int64(n.Outputs[0].typ.Elements()) }
