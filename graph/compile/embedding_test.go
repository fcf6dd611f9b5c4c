package compile

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/internal/gputest"
)

// ids are n whole numbers below limit, the first few of them equal.
func ids(rng *rand.Rand, limit int, shape ...int) *graph.Array {
	a := graph.NewArray(shape)
	for i := range a.Data {
		if i >= 4 {
			a.Data[i] = float64(rng.IntN(limit))
		}
	}
	return a
}

func embeddingGraph(vocab, width int, shape ...int) *twin {
	g := graph.New()
	w := g.Param("wte", vocab, width)
	tokens := g.Input("ids", graph.Type{Shape: shape, DType: buffers.I32})
	y := g.Embedding(w, tokens)
	dy := g.Input("dy", graph.F32(append(append([]int{}, shape...), width)...))
	dw := g.Append(graph.EmbeddingGrad{Vocab: vocab}, dy, tokens).Outputs[0]
	return &twin{graph: g, values: []*graph.Value{y}, leaves: map[string]*graph.Value{"wte": dw}}
}

func TestEmbedding(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for _, s := range [][]int{{1, 1, 1, 1}, {10, 4, 2, 5}, {7, 3, 2, 5}, {300, 64, 3, 33}, {5, 4, 0, 3}} {
			t.Run(fmt.Sprint(s), func(t *testing.T) {
				w := embeddingGraph(s[0], s[1], s[2:]...)
				rng := rand.New(rand.NewPCG(31, 32))
				w.feeds = map[string]*graph.Array{"ids": ids(rng, s[0], s[2:]...)}
				w.feed(rng)
				w.check(t, d, 8*eps*float64(4+s[2]*s[3]))
				if s[2] > 0 {
					first, _ := w.run(t, d)
					w.accumulate = true
					second, _ := w.run(t, d)
					require.Equal(t, first, second, "added to zero, and the same bits")
				}
			})
		}
	})
}

// TestEmbeddingParts has a table and its gradient in several row parts.
func TestEmbeddingParts(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		w := embeddingGraph(700, 64, 2, 50)
		rng := rand.New(rand.NewPCG(33, 34))
		w.feeds = map[string]*graph.Array{"ids": ids(rng, 700, 2, 50)}
		w.feed(rng)
		w.check(t, d, 100*eps)
	}, gputest.WithLimits(gpu.Limits{BindingBytes: 64 << 10}))
}

func TestEmbeddingRefusesIDs(t *testing.T) {
	d := gputest.Device(t)
	for _, bad := range []int32{-1, 10} {
		w := embeddingGraph(10, 4, 1, 6)
		w.feeds = map[string]*graph.Array{"ids": graph.NewArray([]int{1, 6})}
		w.feed(rand.New(rand.NewPCG(35, 36)))
		_, p := w.run(t, d)
		err := p.WriteInts("ids", []int32{0, 1, 9, bad, 3, 4})
		require.EqualError(t, err, fmt.Sprintf(`graph: write: input "ids": token id at position 3: %d, want 0 to 9`, bad))
	}
}

func TestTokenRuns(t *testing.T) {
	order, offsets := tokenRuns([]int32{2, 0, 2, 3, 2}, 5)
	require.Equal(t, []uint32{1, 0, 2, 4, 3}, order)
	require.Equal(t, []uint32{0, 1, 1, 4, 5, 5}, offsets)
}
