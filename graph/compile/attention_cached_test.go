package compile

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/internal/gputest"
)

type cachedCase struct {
	op     graph.Attention
	b, t   int
	window int
	at     int // position of the first row of the first sequence; those of the next ones begin one later each
}

func (s cachedCase) String() string {
	return fmt.Sprintf("b%d_t%d_w%d_at%d_h%d_kv%d_d%d_packed_%v_local%d_cap%g", s.b, s.t, s.window, s.at, s.op.Heads, s.op.KVHeads, s.op.HeadDim, s.op.Packed,
		s.op.Window, s.op.Cap)
}

// twin has the output and the changed cache.
func (s cachedCase) twin(rng *rand.Rand) *twin {
	g := graph.New()
	s.op.Causal = true
	q, kv, packed := s.op.Widths()
	cache := g.Input("cache", graph.F32(s.b, s.window, 2*kv))
	positions := g.Input("positions", graph.Type{Shape: []int{s.b, s.t}, DType: buffers.I32})
	in := []*graph.Value{cache, positions}
	if s.op.Packed {
		in = append(in, g.Input("qkv", graph.F32(s.b, s.t, packed)))
	} else {
		in = append(in, g.Input("q", graph.F32(s.b, s.t, q)), g.Input("k", graph.F32(s.b, s.t, kv)), g.Input("v", graph.F32(s.b, s.t, kv)))
	}
	n := g.Append(graph.CachedAttention(s.op), in...)
	w := &twin{graph: g, values: n.Outputs, feeds: map[string]*graph.Array{"positions": graph.NewArray([]int{s.b, s.t})}}
	for i := range w.feeds["positions"].Data {
		w.feeds["positions"].Data[i] = float64(s.at + i/s.t + i%s.t)
	}
	w.feed(rng)
	return w
}

// Windows and positions lie around the SIMD groups, the keys that a workgroup takes at a time and the parts that workgroups share.
func TestCachedAttention(t *testing.T) {
	heads := func(heads, kvHeads, dim int, packed bool) graph.Attention {
		return graph.Attention{Heads: heads, KVHeads: kvHeads, HeadDim: dim, Packed: packed}
	}
	limited := func(a graph.Attention, window int, limit float64) graph.Attention {
		a.Window, a.Cap = window, limit
		return a
	}
	cases := []cachedCase{
		{op: heads(1, 1, 4, false), b: 1, t: 1, window: 1},
		{op: heads(1, 1, 4, true), b: 1, t: 1, window: 9, at: 8},
		{op: heads(4, 2, 8, false), b: 1, t: 1, window: 70, at: 7},
		{op: heads(4, 4, 32, true), b: 1, t: 1, window: 130, at: 127},
		{op: heads(4, 4, 16, true), b: 1, t: 5, window: 12, at: 0},
		{op: heads(6, 2, 8, false), b: 2, t: 9, window: 40, at: 30},
		{op: heads(2, 1, 5, false), b: 3, t: 2, window: 40, at: 31},
		{op: heads(3, 3, 6, true), b: 2, t: 3, window: 34, at: 30},
		{op: heads(2, 2, 64, false), b: 1, t: 1, window: 200, at: 199},
		{op: heads(1, 1, 128, true), b: 1, t: 2, window: 66, at: 64},
		{op: heads(2, 1, 4, false), b: 1, t: 1, window: 1024, at: 511},
		{op: heads(2, 2, 6, true), b: 2, t: 1, window: 1540, at: 1538},
		{op: heads(1, 1, 4, false), b: 0, t: 3, window: 5},
		{op: limited(heads(2, 1, 4, false), 6, 0), b: 2, t: 9, window: 40, at: 2},
		{op: limited(heads(2, 1, 4, false), 1030, 1.5), b: 1, t: 1, window: 2100, at: 2099},
		{op: limited(heads(2, 1, 4, false), 1030, 1.5), b: 1, t: 1, window: 2100, at: 600},
	}
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for _, s := range gputest.Rows(cases, 2) {
			t.Run(s.String(), func(t *testing.T) {
				w := s.twin(rand.New(rand.NewPCG(31, 32)))
				w.checkAs(t, d, false, attentionTolerance)
				w.checkTwice(t, d, attentionTolerance)
			})
		}
	})
}

// A head that has more quads than a workgroup of a GPU has invocations.
func TestCachedAttentionWide(t *testing.T) {
	s := cachedCase{op: graph.Attention{Heads: 1, KVHeads: 1, HeadDim: 260}, b: 1, t: 1, window: 100, at: 70}
	s.twin(rand.New(rand.NewPCG(31, 32))).checkAs(t, gputest.Device(t), false, attentionTolerance)
}

// Scores whose exponentials overflow in each of several parts.
func TestCachedAttentionLargeScores(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		w := cachedCase{op: graph.Attention{Heads: 1, KVHeads: 1, HeadDim: 4}, b: 1, t: 1, window: 1024, at: 1000}.twin(rand.New(rand.NewPCG(33, 34)))
		for i := range w.feeds["q"].Data {
			w.feeds["q"].Data[i] *= 64
		}
		w.check(t, d, 64*attentionTolerance)
	})
}

// pagedCase is a pass of tokens of some rows, the first of which share the blocks of their first positions.
type pagedCase struct {
	op            graph.Attention
	size, entries int
	shared        int   // blocks of the first rows
	lengths       []int // tokens of each row, those of this pass included
	tokens        []int // of each row, in this pass
	idle          int
	storage       buffers.DType
}

func (s pagedCase) String() string {
	return fmt.Sprintf("size%d_%v_%v_h%d_d%d_local%d", s.size, s.lengths, s.tokens, s.op.Heads, s.op.HeadDim, s.op.Window)
}

// twin has the output and the changed cache. Tokens are in the order of an index, and blocks where places says.
func (s pagedCase) twin(rng *rand.Rand, order, places []int) *twin {
	g := graph.New()
	s.op.Causal = true
	q, kv, packed := s.op.Widths()
	n := len(order)
	ints := func(name string, shape ...int) *graph.Value {
		return g.Input(name, graph.Type{Shape: shape, DType: buffers.I32})
	}
	cache := g.Input("cache", graph.Type{Shape: []int{len(places), s.size, 2 * kv}, DType: s.storage})
	in := []*graph.Value{cache, ints("table", len(s.lengths), s.entries), ints("row", 1, n), ints("positions", 1, n)}
	if s.op.Packed {
		in = append(in, g.Input("qkv", graph.F32(1, n, packed)))
	} else {
		in = append(in, g.Input("q", graph.F32(1, n, q)), g.Input("k", graph.F32(1, n, kv)), g.Input("v", graph.F32(1, n, kv)))
	}
	node := g.Append(graph.CachedAttention(s.op), in...)
	w := &twin{graph: g, values: node.Outputs, feeds: map[string]*graph.Array{}}
	if s.storage == buffers.BF16 { // of zeros, of which no token sees any
		w.values, w.feeds["cache"] = node.Outputs[:1], graph.NewArray(cache.Shape())
	}
	for _, v := range in[1:4] {
		w.feeds[v.Node().Op.(graph.Input).Name] = graph.NewArray(v.Shape())
	}
	next := s.shared
	for r, length := range s.lengths {
		for e := range s.entries {
			at := &w.feeds["table"].Data[r*s.entries+e]
			switch {
			case e < s.shared:
				*at = float64(places[e])
			case e*s.size < length:
				*at = float64(places[next])
				next++
			default:
				*at = float64(rng.IntN(len(places)))
			}
		}
	}
	w.feed(rng)
	listed := 0
	put := func(row, position int) {
		i := slices.Index(order, listed)
		listed++
		w.feeds["row"].Data[i], w.feeds["positions"].Data[i] = float64(row), float64(position)
	}
	for r, count := range s.tokens {
		for i := range count {
			put(r, s.lengths[r]-count+i)
		}
	}
	for range s.idle {
		put(-1, rng.IntN(s.entries*s.size))
	}
	return w
}

func (s pagedCase) sizes() (tokens, blocks int) {
	tokens = s.idle
	for _, n := range s.tokens {
		tokens += n
	}
	return tokens, s.shared + len(s.lengths)*s.entries + 1
}

func TestPagedAttention(t *testing.T) {
	heads := func(heads, kvHeads, dim int, packed bool) graph.Attention {
		return graph.Attention{Heads: heads, KVHeads: kvHeads, HeadDim: dim, Packed: packed}
	}
	near := func(a graph.Attention, window int) graph.Attention {
		a.Window, a.Cap = window, 2
		return a
	}
	cases := []pagedCase{
		{op: heads(4, 2, 8, false), size: 16, entries: 5, shared: 1, lengths: []int{17, 40, 80, 33}, tokens: []int{1, 3, 1, 2}, idle: 2},
		{op: heads(2, 1, 64, true), size: 32, entries: 5, shared: 3, lengths: []int{129, 97}, tokens: []int{1, 1}},
		{op: heads(3, 3, 6, true), size: 1, entries: 9, lengths: []int{9, 1, 4}, tokens: []int{9, 1, 0}, idle: 1},
		{op: heads(2, 1, 5, false), size: 64, entries: 1, lengths: []int{64, 30}, tokens: []int{5, 30}},
		{op: near(heads(4, 2, 8, false), 21), size: 8, entries: 12, shared: 2, lengths: []int{17, 90}, tokens: []int{1, 30}, idle: 3},
		{op: heads(1, 1, 128, false), size: 16, entries: 40, shared: 30, lengths: []int{481, 640}, tokens: []int{1, 1}},
		{op: heads(4, 2, 8, true), size: 16, entries: 5, lengths: []int{17, 40, 1}, tokens: []int{17, 40, 1}, idle: 2, storage: buffers.BF16},
		{op: heads(2, 1, 4, false), size: 16, entries: 80, shared: 30, lengths: []int{481, 1270}, tokens: []int{1, 1}, idle: 1},
		{op: near(heads(2, 1, 4, false), 1100), size: 16, entries: 80, lengths: []int{481, 1270}, tokens: []int{1, 1}, idle: 1},
	}
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for _, s := range gputest.Rows(cases, 2) {
			t.Run(s.String(), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(37, 38))
				tokens, blocks := s.sizes()
				w := s.twin(rng, rng.Perm(tokens), rng.Perm(blocks))
				w.checkAs(t, d, false, attentionTolerance)
				w.checkTwice(t, d, attentionTolerance)
			})
		}
	})
}

// Tokens in another order, with other idle ones and blocks elsewhere, have the same bits.
func TestPagedAttentionBitsElsewhere(t *testing.T) {
	s := pagedCase{
		op:   graph.Attention{Heads: 4, KVHeads: 2, HeadDim: 16, Packed: true},
		size: 16, entries: 40, shared: 1, lengths: []int{17, 40, 600, 33}, tokens: []int{1, 3, 1, 2}, idle: 2,
	}
	d, rng := gputest.Device(t), rand.New(rand.NewPCG(43, 44))
	tokens, blocks := s.sizes()
	in := func(n int) (all []int) {
		for i := range n {
			all = append(all, i)
		}
		return all
	}
	for _, hardware := range []bool{false, true} {
		plain := s.twin(rng, in(tokens), in(blocks))
		order, places := rng.Perm(tokens), rng.Perm(blocks)
		moved := s.twin(rng, order, places)
		width, block := 4*16+2*2*16, s.size*2*2*16
		for i, from := range order {
			copy(moved.feeds["qkv"].Data[i*width:(i+1)*width], plain.feeds["qkv"].Data[from*width:])
		}
		for b, to := range places {
			copy(moved.feeds["cache"].Data[to*block:(to+1)*block], plain.feeds["cache"].Data[b*block:])
		}
		plain.hardware, moved.hardware = hardware, hardware
		want, _ := plain.run(t, d)
		got, _ := moved.run(t, d)
		for i, from := range order {
			require.Equal(t, want["v0"][from*64:(from+1)*64], got["v0"][i*64:(i+1)*64])
		}
	}
}

// One row whose blocks lie in their order has the bits of a cache without pages.
func TestPagedAttentionBits(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for _, s := range gputest.Rows([]cachedCase{
			{op: graph.Attention{Heads: 4, KVHeads: 2, HeadDim: 8}, b: 1, t: 3, window: 128, at: 90},
			{op: graph.Attention{Heads: 2, KVHeads: 2, HeadDim: 6, Packed: true, Window: 600, Cap: 2}, b: 1, t: 1, window: 2048, at: 1500},
		}, 1) {
			for _, hardware := range []bool{false, true} {
				plain := s.twin(rand.New(rand.NewPCG(39, 40)))
				p := pagedCase{op: s.op, size: 16, entries: s.window / 16, lengths: []int{s.at + s.t}, tokens: []int{s.t}}
				order, places := make([]int, s.t), make([]int, s.window/16)
				for i := range places {
					places[i] = i
				}
				for i := range order {
					order[i] = i
				}
				paged := p.twin(rand.New(rand.NewPCG(41, 42)), order, places)
				for name, a := range plain.feeds {
					paged.feeds[name].Data = a.Data
				}
				plain.hardware, paged.hardware = hardware, hardware
				want, _ := plain.run(t, d)
				got, _ := paged.run(t, d)
				require.Equal(t, want, got)
			}
		}
	})
}

// What the kernels cannot do is refused when it is compiled, or when positions are written.
func TestCachedAttentionRefused(t *testing.T) {
	d := gputest.Device(t)
	build := func(read func(g *graph.Graph, cache *graph.Value) *graph.Value) error {
		g := graph.New()
		cache, positions := g.Input("cache", graph.F32(1, 8, 8)), g.Input("positions", graph.Type{Shape: []int{1, 2}, DType: buffers.I32})
		n := g.Append(graph.CachedAttention{Heads: 1, KVHeads: 1, HeadDim: 4, Packed: true, Causal: true}, read(g, cache), positions, g.Input("qkv", graph.F32(1, 2, 12)))
		targets := []Target{{Name: "o", Value: n.Outputs[0]}, {Name: "twice", Value: g.Scale(cache, 2)}}
		p, err := New(context.Background(), d, g, Options{Targets: targets[:1]})
		if err != nil {
			return err
		}
		defer p.Release()
		for _, positions := range [][]int32{{3, 3}, {3, 8}, {-1, 3}} {
			require.ErrorContains(t, p.WriteInts("positions", positions), "position", positions)
		}
		require.NoError(t, p.WriteInts("positions", []int32{7, 0}))
		_, err = New(context.Background(), d, g, Options{Targets: targets})
		return err
	}
	require.ErrorContains(t, build(func(_ *graph.Graph, cache *graph.Value) *graph.Value { return cache }), "nothing else reads", "the scaled cache is asked for too")
	require.ErrorContains(t, build(func(g *graph.Graph, cache *graph.Value) *graph.Value { return g.Scale(cache, 2) }), "want an Input")
	for want, op := range map[string]graph.CachedAttention{
		"not causal":      {Heads: 1, KVHeads: 1, HeadDim: 4, Packed: true},
		"cache has shape": {Heads: 1, KVHeads: 1, HeadDim: 2, Packed: true, Causal: true},
		"cache in bf16":   {Heads: 2, KVHeads: 2, HeadDim: 2, Packed: true, Causal: true},
	} {
		g, storage := graph.New(), buffers.F32
		if strings.Contains(want, "bf16") {
			storage = buffers.BF16
		}
		_, _, packed := graph.Attention(op).Widths()
		g.Append(op, g.Input("cache", graph.Type{Shape: []int{1, 8, 8}, DType: storage}), g.Input("positions", graph.Type{Shape: []int{1, 2}, DType: buffers.I32}), g.Input("qkv", graph.F32(1, 2, packed)))
		require.ErrorContains(t, g.Err(), want)
	}
}

func TestRopeAtPositions(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for _, headDim := range []int{6, 16} {
			g := graph.New()
			positions := g.Input("positions", graph.Type{Shape: []int{2, 3}, DType: buffers.I32})
			x := g.Input("x", graph.F32(2, 3, 48))
			w := &twin{graph: g, values: []*graph.Value{
				g.RopeAt(x, positions, headDim, 10000, 2100), g.Append(graph.Rope{HeadDim: headDim, Theta: 500, Inverse: true, Window: 2100}, x, positions).Outputs[0],
			}, feeds: map[string]*graph.Array{"positions": {Shape: []int{2, 3}, Data: []float64{0, 7, 2099, 3, 1000, 1}}}}
			w.feed(rand.New(rand.NewPCG(35, 36)))
			w.check(t, d, 4*eps)
		}
	})
}

// A cache of whole vec4s is of texels where the device has them, and no pass copies it; of others the pass has a buffer.
func TestNewCache(t *testing.T) {
	for _, c := range []struct {
		dim  int
		use  gpu.TexelUse
		kept bool
	}{{8, gpu.TexelsAll, true}, {8, gpu.TexelsOff, false}, {6, gpu.TexelsAll, false}} {
		l := gpu.DefaultLimits()
		l.Software, l.TexelBindings, l.Texels = true, 8, c.use
		d := gpu.Dry(l)
		s := pagedCase{op: graph.Attention{Heads: 4, KVHeads: 2, HeadDim: c.dim}, size: 16, entries: 40, lengths: slices.Repeat([]int{300}, 64), tokens: slices.Repeat([]int{1}, 64)}
		_, blocks := s.sizes()
		order, places := make([]int, 64), make([]int, blocks)
		for i := range order {
			order[i] = i
		}
		w := s.twin(rand.New(rand.NewPCG(1, 1)), order, places)
		cache := w.values[1].Node().Inputs[0]
		b, err := NewCache(d, "cache", w.graph, cache)
		require.NoError(t, err)
		p, err := New(t.Context(), d, w.graph, Options{Targets: []Target{{Name: "o", Value: w.values[0]}}, Bind: map[string]gpu.Range{"cache": b.Range(0, Bytes(cache.Type()))}})
		require.NoError(t, err)
		rec := d.Record("pass")
		p.Record(rec)
		program, err := rec.Program(t.Context())
		require.NoError(t, err)
		require.Equal(t, c.kept, strings.Contains(program.String(), "cache~=cache["), "%+v\n%s", c, program)
		require.Equal(t, !c.kept && c.use == gpu.TexelsAll, strings.Contains(program.String(), "<- cache["), "%+v\n%s", c, program)
	}
}
