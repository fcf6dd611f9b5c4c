package graph

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gputrain/buffers/array"
)

// CachedAttention is the Attention of the same fields, which must be causal, for tokens that go on where earlier ones ended: the keys and values of
// those are in a cache. Inputs: cache [B,W,2 KVHeads HeadDim], in each row the keys of all heads, then their values; positions i32 [B,T], each
// from 0 to W-1 and no two of a sequence the same; then the operands of Attention. Outputs: o [B,T,Heads HeadDim], and the cache in which
// row positions[b,t] has the key and value of token t. That is done first, so token t sees rows 0 to positions[b,t], itself among them, or with a
// Window the last ones of these. A cache has no Documents. On a device
// the cache is changed in place: it is an Input that nothing else reads, or that of another of these, which has put the same keys and values there. In BF16 it
// has the keys and values rounded, and so has what is read of it.
//
// Paged, which the number of inputs says, the B T tokens are of any rows, and the places of a row are in blocks. Inputs: cache [blocks, size,
// 2 KVHeads HeadDim], size a power of two; table i32 [rows, entries], where the blocks of each row are, so that position p of row r is in place
// p%size of block table[r, p/size]; row i32 [B,T], that of each token, -1 for an idle one: it writes nothing, and its o is 0; positions i32 [B,T] below
// entries size; the operands. Rows may share blocks. No two tokens write the same place, and entries that no token sees may be any block.
type CachedAttention Attention

func (CachedAttention) Kind() string { return "cached_attention" }

// Paged is whether a node has a table of blocks.
func (o CachedAttention) Paged(inputs int) bool { return inputs == 4+Attention(o).Operands() }

// places are the inputs that say where tokens are: positions, or table, row and positions.
func (o CachedAttention) places(inputs int) int {
	if o.Paged(inputs) {
		return 3
	}
	return 1
}

func (o CachedAttention) Infer(in []*Value) ([]Type, error) {
	a, integer := Attention(o), []int{1, 2, 3}[:o.places(len(in))]
	if err := arity(in, 1+len(integer)+a.Operands(), integer...); err != nil {
		return nil, err
	}
	if !o.Causal || o.Documents || o.F16 {
		return nil, fmt.Errorf("not causal, documents, or f16: a cache holds what came before, of one document, in f32")
	}
	if in[0].DType() == array.BF16 && o.HeadDim%4 > 0 {
		return nil, fmt.Errorf("cache in bf16, heads of %d: want a multiple of 4", o.HeadDim)
	}
	for i, name := range []string{"table", "row", "positions"}[3-len(integer):] {
		if err := wantDType(name, in[1+i], array.I32); err != nil {
			return nil, err
		}
	}
	out, err := a.outputs(in[1+len(integer):])
	if err != nil {
		return nil, err
	}
	b, t := out[0].Shape[0], out[0].Shape[1]
	_, kv, _ := a.Widths()
	c := in[0].Shape()
	if !o.Paged(len(in)) {
		if len(c) != 3 || c[0] != b || c[2] != 2*kv {
			return nil, fmt.Errorf("cache has shape %v, want [%d window %d]", c, b, 2*kv)
		}
		return []Type{out[0], in[0].typ}, wantShape("positions", in[1], b, t)
	}
	if len(c) != 3 || c[0] < 1 || c[1] < 1 || c[1]&(c[1]-1) != 0 || c[2] != 2*kv {
		return nil, fmt.Errorf("cache has shape %v, want [blocks size %d], size a power of two", c, 2*kv)
	}
	if s := in[1].Shape(); len(s) != 2 || s[0] < 1 || s[1] < 1 {
		return nil, fmt.Errorf("table has shape %v, want [rows entries]", s)
	}
	return []Type{out[0], in[0].typ}, cmp.Or(wantShape("row", in[2], b, t), wantShape("positions", in[3], b, t))
}

// Span is how many positions a row has at most.
func (o CachedAttention) Span(n *Node) int {
	if o.Paged(len(n.Inputs)) {
		return n.Inputs[0].Shape()[1] * n.Inputs[1].Shape()[1]
	}
	return n.Inputs[0].Shape()[1]
}

// FLOPs is that of rows that see the whole cache: what they see is known when it runs.
func (o CachedAttention) FLOPs(n *Node) int64 {
	rows, window := n.Inputs[o.places(len(n.Inputs))].typ.Elements(), o.Span(n)
	if o.Window > 0 {
		window = min(window, o.Window)
	}
	return int64(rows) * int64(window) * int64(o.Heads) * int64(4*o.HeadDim+4)
}

// Eval is the definition.
func (o CachedAttention) Eval(n *Node, in []*Array, e *Env) []*Array {
	a := Attention(o)
	out, cache := NewArray(n.Outputs[0].Shape()), &Array{Shape: in[0].Shape, Data: slices.Clone(in[0].Data)}
	b, t, window, size := out.Shape[0], out.Shape[1], o.Span(n), cache.Shape[1]
	_, kv, _ := a.Widths()
	at := o.places(len(in))
	positions := in[at].Data
	q, k, v := a.split(in[1+at:])
	row := func(i int) int { return i / t }
	place := func(i, position int) int { return row(i)*window + position }
	if o.Paged(len(in)) {
		table, entries := in[1], in[1].Shape[1]
		for i, block := range table.Data {
			if !e.inRange(n, "block", i, block, cache.Shape[0]) {
				return nil
			}
		}
		row = func(i int) int { return int(in[2].Data[i]) }
		place = func(i, position int) int {
			return int(table.Data[row(i)*entries+position/size])*size + position%size
		}
	}
	keys := heads{cache.Data, 2 * kv, 0, 0, o.HeadDim} // whose rows are places
	values := heads{cache.Data, 2 * kv, kv, 0, o.HeadDim}
	written := map[int]bool{}
	for i, p := range positions {
		if !e.inRange(n, "position", i, p, window) {
			return nil
		}
		if o.Paged(len(in)) {
			if row(i) == -1 {
				continue
			}
			if !e.inRange(n, "row", i, in[2].Data[i], in[1].Shape[0]) {
				return nil
			}
		}
		to := place(i, int(p))
		if written[to] {
			e.fail(n, "token %d: another one writes its place, %d", i, to)
			return nil
		}
		written[to] = true
		for h := range o.KVHeads {
			copy(keys.row(0, to, h), k.row(i/t, i%t, h))
			copy(values.row(0, to, h), v.row(i/t, i%t, h))
		}
	}
	if n.Inputs[0].DType() == array.BF16 { // as they are read
		copy(cache.Data, roundBF16(cache).Data)
	}
	result := heads{out.Data, out.Shape[2], 0, t, o.HeadDim}
	a.each(b, t, func(batch, head, kvHead, time int) {
		i := batch*t + time
		if row(i) < 0 {
			return
		}
		position := int(positions[i])
		first, end := a.seen(position, window, position)
		scores := make([]float64, end-first)
		for s := range scores {
			scores[s], _ = a.score(dot(q.row(batch, time, head), keys.row(0, place(i, first+s), kvHead)))
		}
		l := logSumExp(scores)
		for s, score := range scores {
			addScaled(result.row(batch, time, head), math.Exp(score-l), values.row(0, place(i, first+s), kvHead))
		}
	})
	return []*Array{out, cache}
}
