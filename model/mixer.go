package model

import (
	"fmt"
	"math"
	"slices"

	"gputrain/buffers/array"
	"gputrain/graph"
)

// shortConvolution is LFM2's mixer: C * (causal convolution of B * x), with B, C and x of one matrix.
type shortConvolution struct {
	taps int
	bias bool
}

func (s shortConvolution) matrices(m decoder, layer string) (in, out linear) {
	return linear{layer + "conv.in_proj", 3 * m.width, m.width, s.bias}, linear{layer + "conv.out_proj", m.width, m.width, s.bias}
}

func (s shortConvolution) params(m decoder, layer string) []Param {
	in, out := s.matrices(m, layer)
	params := append(m.matrices(in, out), tapsParam(layer+"conv.conv.weight", m.width, s.taps))
	if s.bias {
		params = append(params, Param{Path: layer + "conv.conv.bias", Shape: []int{m.width}})
	}
	return params
}

// tapsParam are those of a convolution, which begin as torch.nn.Conv1d's do.
func tapsParam(path string, width, taps int) Param {
	return Param{Path: path, Shape: []int{width, 1, taps}, Std: 1 / math.Sqrt(float64(3*taps))}
}

func (s shortConvolution) mix(m decoder, b *Builder, n *graph.Value, layer string) *graph.Value {
	in, out := s.matrices(m, layer)
	all := b.project(n, in)
	part := func(i int) *graph.Value { return b.Slice(all, 1, i*m.width, m.width) }
	y := b.convolve(b.Mul(part(0), part(2)), layer+"conv.conv.weight")
	if s.bias {
		y = b.Add(y, b.Read(layer+"conv.conv.bias"))
	}
	return b.project(b.Mul(part(1), y), out)
}

// gatedDelta is Qwen3.5's mixer: queries, keys and values through a convolution, the gated delta rule, and a norm times a gate.
type gatedDelta struct {
	heads, keyHeads, keyDim, valueDim, taps int
}

func (d gatedDelta) widths() (key, value int) { return d.keyHeads * d.keyDim, d.heads * d.valueDim }

// linears are the matrices of queries, keys and values, of the output's gate, of rates, of decays, and of the output.
func (d gatedDelta) linears(m decoder, layer string) (qkv, z, rate, decay, out linear) {
	key, value := d.widths()
	in := func(name string, rows int) linear { return linear{layer + "linear_attn." + name, rows, m.width, false} }
	return in("in_proj_qkv", 2*key+value), in("in_proj_z", value), in("in_proj_b", d.heads), in("in_proj_a", d.heads),
		linear{layer + "linear_attn.out_proj", m.width, value, false}
}

// timeBias is softplus^-1 of 1/8: a new network forgets over about eight tokens.
const timeBias = -2.0

func (d gatedDelta) params(m decoder, layer string) []Param {
	key, value := d.widths()
	qkv, z, rate, decay, out := d.linears(m, layer)
	l := layer + "linear_attn."
	return append(
		m.matrices(qkv, z, rate, decay, out), tapsParam(l+"conv1d.weight", 2*key+value, d.taps),
		Param{Path: l + "A_log", Shape: []int{d.heads}, Std: 1, wide: true}, Param{Path: l + "dt_bias", Shape: []int{d.heads}, Value: timeBias},
		Param{Path: l + "norm.weight", Shape: []int{d.valueDim}, Value: 1, wide: true},
	)
}

func (d gatedDelta) mix(m decoder, b *Builder, n *graph.Value, layer string) *graph.Value {
	key, value := d.widths()
	rows := b.batch * b.seq
	qkv, z, rate, decay, out := d.linears(m, layer)
	l := layer + "linear_attn."
	mixed := b.Apply("silu", b.convolve(b.project(n, qkv), l+"conv1d.weight"))
	// x / sqrt(sum of squares + eps) is an RMS norm of eps/width with gains of 1/sqrt(width).
	unit := func(first int, scale float64) *graph.Value {
		heads := b.Reshape(b.Slice(mixed, 1, first, key), rows*d.keyHeads, d.keyDim)
		gain := b.BroadcastTo(b.Constant(scale/math.Sqrt(float64(d.keyDim))), d.keyDim)
		return b.sequences(b.Reshape(b.RMSNorm(heads, gain, 1e-6/float64(d.keyDim)), rows, key), key)
	}
	q, k := unit(0, 1/math.Sqrt(float64(d.keyDim))), unit(key, 1)
	v := b.sequences(b.Slice(mixed, 1, 2*key, value), value)
	g := b.Mul(b.softplus(b.Add(b.project(n, decay), b.Read(l+"dt_bias"))), b.Scale(b.Apply("exp", b.Read(l+"A_log")), -1))
	beta := b.Apply("sigmoid", b.project(n, rate))
	b.KeepF32(g)
	op := graph.GatedDelta{Heads: d.heads, KeyHeads: d.keyHeads, KeyDim: d.keyDim, ValueDim: d.valueDim}
	o := b.Reshape(b.delta(op, q, k, v, b.sequences(g, d.heads), b.sequences(beta, d.heads)), rows*d.heads, d.valueDim)
	b.KeepF32(o) // the norm divides by what may be small
	normed := b.Reshape(b.RMSNorm(o, b.Read(l+"norm.weight"), m.eps), rows, value)
	return b.project(b.Mul(normed, b.Apply("silu", b.project(n, z))), out)
}

// convolve is the causal convolution of x [N, width] by the parameter at path [width, 1, taps], which goes on with a cache where sequences do.
func (b *Builder) convolve(x *graph.Value, path string) *graph.Value {
	w := b.Read(path)
	width, taps := w.Shape()[0], w.Shape()[2]
	w, x = b.Reshape(w, width, taps), b.sequences(x, width)
	if b.o.Window > 0 {
		cache, row := b.state(taps-1, width)
		return b.flat(b.Append(graph.CachedConvolution{}, cache, row, b.positions(), x, w).Outputs[0], width)
	}
	in := []*graph.Value{x, w}
	if b.o.Documents {
		in = append(in, b.positions())
	}
	return b.flat(b.Append(graph.Convolution{Documents: b.o.Documents}, in...).Outputs[0], width)
}

// delta is the gated delta rule of operands, which goes on with states where sequences do.
func (b *Builder) delta(op graph.GatedDelta, operands ...*graph.Value) *graph.Value {
	if b.o.Window > 0 {
		state, row := b.state(op.Heads, op.KeyDim, op.ValueDim)
		return b.Append(graph.CachedDelta(op), append([]*graph.Value{state, row, b.positions()}, operands...)...).Outputs[0]
	}
	// About 16 states of a window are kept: fewer tokens between them are less work, of matrices as wide as a chunk.
	op.Chunk = 16
	for op.Chunk < 64 && 16*op.Chunk < b.seq {
		op.Chunk *= 2
	}
	if op.Documents = b.o.Documents; op.Documents {
		operands = append(operands, b.positions())
	}
	return b.Append(op, operands...).Outputs[0]
}

// state is a cache of a shape a row, and the rows of tokens.
func (b *Builder) state(shape ...int) (cache, row *graph.Value) {
	rows := b.batch
	if b.o.Paging != (Paging{}) {
		rows = b.o.Paging.Rows
	}
	cache = b.Input(fmt.Sprintf("cache.%d", len(b.caches)), graph.F32(append([]int{rows}, shape...)...))
	b.caches = append(b.caches, cache)
	return cache, b.Input(InputRow, graph.Type{Shape: []int{b.batch, b.seq}, DType: array.I32})
}

// Recurrent tells whether a network keeps states, which can not go back to an earlier token: it goes on with rows alone, whose beginnings are not shared.
func Recurrent(def Definition) bool {
	m, _ := decoderOf(def)
	return slices.ContainsFunc(m.layers, func(l decoderLayer) bool { return l.mixer != nil })
}

// decoderOf is the decoder that a network is, with adapters or whatever else around it.
func decoderOf(def Definition) (decoder, bool) {
	for {
		switch m := Student(def).(type) {
		case quantized:
			def = m.Definition
		case adapted:
			def = m.Definition
		case headed:
			def = m.Definition
		case decoder:
			return m, true
		default:
			return decoder{}, false
		}
	}
}
