package graph

import (
	"fmt"
	"math"
	"slices"

	"gputrain/buffers/array"
)

// CachedAttention is the Attention of the same fields, which must be causal, for rows that go on where earlier ones ended: the keys and values of
// those are in a cache. Inputs: cache [B,W,2 KVHeads HeadDim], in each row the keys of all heads, then their values; positions i32 [B,T], each
// from 0 to W-1 and no two of a sequence the same; then the operands of Attention. Outputs: o [B,T,Heads HeadDim], and the cache in which
// row positions[b,t] has the key and value of row t. That is done first, so row t sees rows 0 to positions[b,t], itself among them, or with a
// Window the last ones of these. A cache has no Documents. On a device
// the cache is changed in place: it is an Input that nothing else reads.
type CachedAttention Attention

func (CachedAttention) Kind() string { return "cached_attention" }

func (o CachedAttention) Infer(in []*Value) ([]Type, error) {
	a := Attention(o)
	if err := arity(in, 2+a.Operands(), 1); err != nil {
		return nil, err
	}
	if !o.Causal || o.Documents || o.F16 {
		return nil, fmt.Errorf("not causal, documents, or f16: a cache holds what came before, of one document, in f32")
	}
	if err := wantDType("positions", in[1], array.I32); err != nil {
		return nil, err
	}
	out, err := a.outputs(in[2:])
	if err != nil {
		return nil, err
	}
	b, t := out[0].Shape[0], out[0].Shape[1]
	_, kv, _ := a.Widths()
	if c := in[0].Shape(); len(c) != 3 || c[0] != b || c[2] != 2*kv {
		return nil, fmt.Errorf("cache has shape %v, want [%d window %d]", c, b, 2*kv)
	}
	if err := wantShape("positions", in[1], b, t); err != nil {
		return nil, err
	}
	return []Type{out[0], in[0].typ}, nil
}

// FLOPs is that of rows that see the whole cache: what they see is known when it runs.
func (o CachedAttention) FLOPs(n *Node) int64 {
	rows, window := n.Inputs[1].typ.Elements(), n.Inputs[0].Shape()[1]
	if o.Window > 0 {
		window = min(window, o.Window)
	}
	return int64(rows) * int64(window) * int64(o.Heads) * int64(4*o.HeadDim+4)
}

// Eval is the definition.
func (o CachedAttention) Eval(n *Node, in []*Array, e *Env) []*Array {
	a := Attention(o)
	out, cache := NewArray(n.Outputs[0].Shape()), &Array{Shape: in[0].Shape, Data: slices.Clone(in[0].Data)}
	b, t, window := out.Shape[0], out.Shape[1], cache.Shape[1]
	_, kv, _ := a.Widths()
	q, k, v := a.split(in[2:])
	keys := heads{cache.Data, 2 * kv, 0, window, o.HeadDim}
	values := heads{cache.Data, 2 * kv, kv, window, o.HeadDim}
	for i, p := range in[1].Data {
		if !e.inRange(n, "position", i, p, window) {
			return nil
		}
		for h := range o.KVHeads {
			copy(keys.row(i/t, int(p), h), k.row(i/t, i%t, h))
			copy(values.row(i/t, int(p), h), v.row(i/t, i%t, h))
		}
	}
	result := heads{out.Data, out.Shape[2], 0, t, o.HeadDim}
	a.each(b, t, func(batch, head, kvHead, time int) {
		position := int(in[1].Data[batch*t+time])
		first, end := a.seen(position, window, position)
		scores := make([]float64, end-first)
		for s := range scores {
			scores[s], _ = a.score(dot(q.row(batch, time, head), keys.row(batch, first+s, kvHead)))
		}
		l := logSumExp(scores)
		for s, score := range scores {
			addScaled(result.row(batch, time, head), math.Exp(score-l), values.row(batch, first+s, kvHead))
		}
	})
	return []*Array{out, cache}
}
