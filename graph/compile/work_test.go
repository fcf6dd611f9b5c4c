package compile

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/internal/gputest"
)

// The bytes of looked-up rows, a product and what follows it are those of the arrays that each reads and writes.
func TestWorkOfAProgram(t *testing.T) {
	const vocab, n, k, word = 512, 16, 32, 4
	g := graph.New()
	table := g.Input("table", graph.Type{Shape: []int{vocab, k}, DType: buffers.F32})
	x := g.Embedding(table, g.Input("ids", graph.Type{Shape: []int{64}, DType: buffers.I32}))
	y := g.MatMul(g.Input("a", graph.Type{Shape: []int{n, 64}, DType: buffers.F32}), x, false, false)
	z := g.Mul(g.Apply("silu", y), y)
	p, err := New(t.Context(), gpu.Dry(gpu.DefaultLimits()), g, Options{Targets: []Target{{Name: "z", Value: z}}})
	require.NoError(t, err)
	defer p.Release()
	work := p.Work()
	require.Len(t, work, 3)
	for i, want := range []Work{
		{Group: Rest, Kind: "embedding", Dispatches: 1, Work: gpu.Work{Bytes: word * (64*k + 64 + 64*k)}, Least: word * 64 * k},
		{Group: Products, Kind: "matmul", Dispatches: 1, Work: gpu.Work{Bytes: word * (n*64 + 64*k + n*k), FLOPs: 2 * n * 64 * k}, Needed: 2 * n * 64 * k},
		{Group: Rest, Kind: "elementwise", Dispatches: 1, Work: gpu.Work{Bytes: word * 2 * n * k, FLOPs: 2 * n * k}, Needed: 2 * n * k, Least: word * n * k},
	} {
		want.Kernels = work[i].Kernels
		assert.Equal(t, want, work[i])
	}
	assert.Contains(t, work[1].Kernels, "matmul")
}

// What adds to the rows of a table that occur moves these rows, not the table, with a list of them and without.
func TestWorkOfAddedRows(t *testing.T) {
	const vocab, k, word = 512, 16, 4
	for _, limits := range []gpu.Limits{gpu.DefaultLimits(), {Software: true}} {
		g := graph.New()
		w, ids := g.Param("w", vocab, k), g.Input("ids", graph.Type{Shape: []int{64}, DType: buffers.I32})
		dw := g.Append(graph.EmbeddingGrad{Vocab: vocab}, x(g, "dy", 64, k), ids).Outputs[0]
		d := gpu.Dry(limits)
		layout, err := buffers.NewLayout([]buffers.Spec{{Path: "w", Shape: w.Shape()}}, d.Limits())
		require.NoError(t, err)
		params, err := buffers.NewTree(d, "params", layout, buffers.F32)
		require.NoError(t, err)
		grads, err := buffers.NewTree(d, "grads", layout, buffers.F32)
		require.NoError(t, err)
		p, err := New(t.Context(), d, g, Options{Params: params, Grads: grads, Accumulate: true, Targets: []Target{{Value: dw, Leaf: "w"}}})
		require.NoError(t, err)
		lists := word * (64 + vocab + 4) // the last is padded
		if !limits.Software {
			lists += word * 64
		}
		assert.EqualValues(t, word*3*64*k+lists, p.Work()[0].Bytes)
		p.Release()
	}
}

// A profile tells what each pass does, also where several operations of a part of the model follow each other.
func TestOperationsOfAProfile(t *testing.T) {
	d := gputest.Device(t, gputest.WithProfile())
	if !d.Adapter().Timestamps {
		t.Skip("skipped, needs an adapter with timestamps")
	}
	g := graph.New()
	square := graph.Type{Shape: []int{32, 32}, DType: buffers.F32}
	a := g.Input("a", square)
	end := g.Scope("h.0.mlp")
	y := g.Softmax(g.MatMul(a, a, false, false))
	end()
	p, err := New(t.Context(), d, g, Options{Targets: []Target{{Name: "y", Value: y}}})
	require.NoError(t, err)
	defer p.Release()
	rec := d.Record("step")
	p.Record(rec)
	require.NoError(t, rec.Submit(t.Context()))
	require.NoError(t, d.Wait(t.Context()))
	var found []string
	for _, s := range d.Profile() {
		found = append(found, s.Group+": "+s.Operation)
	}
	assert.Equal(t, []string{"h.0.mlp: products", "h.0.mlp: softmax"}, found)
}

// The gradient of attention needs four products of each pair of positions and executes seven.
func TestWorkOfAttention(t *testing.T) {
	const batch, n, heads, width = 2, 64, 2, 64
	g := graph.New()
	qkv := g.Input("qkv", graph.Type{Shape: []int{batch, n, 3 * heads * width}, DType: buffers.F32})
	y := g.PackedAttention(qkv, heads, heads, width, true)
	grads, err := graph.Gradients(g, g.Sum(y), []*graph.Value{qkv})
	require.NoError(t, err)
	p, err := New(t.Context(), gpu.Dry(gpu.DefaultLimits()), g, Options{Targets: []Target{{Name: "dqkv", Value: grads[0]}}})
	require.NoError(t, err)
	defer p.Release()
	found := map[string][2]float64{}
	for _, w := range p.Work() {
		found[w.Kind] = [2]float64{w.Needed, w.FLOPs}
	}
	const pairs = batch * heads * n * (n + 1) / 2
	assert.Equal(t, [2]float64{pairs * (4*width + 4), pairs * (4*width + 4)}, found["attention"])
	assert.Equal(t, [2]float64{pairs * (8*width + 4), pairs * (14*width + 8)}, found["attention_grad"])
}

// A head that is not trained has two products for three.
func TestWorkOfAFrozenHead(t *testing.T) {
	const n, vocab, width = 32, 64, 16
	g := graph.New()
	x, w := x(g, "x", n, width), x(g, "w", vocab, width)
	loss := g.Append(graph.HeadLoss{}, x, w, g.Input("labels", graph.Type{Shape: []int{n}, DType: buffers.I32})).Outputs[0]
	grads, err := graph.Gradients(g, loss, []*graph.Value{x, w})
	require.NoError(t, err)
	work := func(values ...*graph.Value) (all float64) {
		var targets []Target
		for i, v := range values {
			targets = append(targets, Target{Name: fmt.Sprint(i), Value: v})
		}
		p, err := New(t.Context(), gpu.Dry(gpu.DefaultLimits()), g, Options{Targets: targets})
		require.NoError(t, err)
		defer p.Release()
		for _, w := range p.Work() {
			assert.Equal(t, w.Needed, w.FLOPs)
			all += w.FLOPs
		}
		return all
	}
	assert.InDelta(t, 2*n*vocab*width, work(loss, grads[0], grads[1])-work(loss, grads[0]), 1)
}

// What is put into a cache moves its rows, not the cache, which those that attend move.
func TestWorkOfACache(t *testing.T) {
	const tokens, blocks, size, heads, kv, dim, word = 8, 100, 16, 8, 4, 8, 4
	g := graph.New()
	ints := func(name string, shape ...int) *graph.Value {
		return g.Input(name, graph.Type{Shape: shape, DType: buffers.I32})
	}
	in := []*graph.Value{g.Input("cache", graph.F32(blocks, size, 2*kv*dim)), ints("table", 4, 20), ints("row", 1, tokens), ints("positions", 1, tokens), x(g, "qkv", 1, tokens, (heads+2*kv)*dim)}
	o := g.Append(graph.CachedAttention{Heads: heads, KVHeads: kv, HeadDim: dim, Packed: true, Causal: true}, in...).Outputs[0]
	p, err := New(t.Context(), gpu.Dry(gpu.DefaultLimits()), g, Options{Targets: []Target{{Name: "o", Value: o}}})
	require.NoError(t, err)
	defer p.Release()
	places, qkv, put, out := 4*20+2*tokens, tokens*(heads+2*kv)*dim, tokens*2*kv*dim, tokens*heads*dim
	assert.EqualValues(t, word*(places+qkv+put+places+qkv+blocks*size*2*kv*dim+out), p.Work()[0].Bytes)
}
