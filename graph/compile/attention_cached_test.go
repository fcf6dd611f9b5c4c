package compile

import (
	"context"
	"fmt"
	"math/rand/v2"
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
	} {
		g := graph.New()
		_, _, packed := graph.Attention(op).Widths()
		g.Append(op, g.Input("cache", graph.F32(1, 8, 8)), g.Input("positions", graph.Type{Shape: []int{1, 2}, DType: buffers.I32}), g.Input("qkv", graph.F32(1, 2, packed)))
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
