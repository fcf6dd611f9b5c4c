package compile

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph"
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
		{Group: Products, Kind: "matmul", Dispatches: 1, Work: gpu.Work{Bytes: word * (n*64 + 64*k + n*k), FLOPs: 2 * n * 64 * k}},
		{Group: Rest, Kind: "elementwise", Dispatches: 1, Work: gpu.Work{Bytes: word * 2 * n * k, FLOPs: 2 * n * k}, Least: word * n * k},
	} {
		want.Kernels = work[i].Kernels
		assert.Equal(t, want, work[i])
	}
	assert.Contains(t, work[1].Kernels, "matmul")
}
