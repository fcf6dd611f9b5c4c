package compile

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/internal/gputest"
)

// Sequences of these tests, and a binding that three of them fit.
const (
	partB, partT, partD = 8, 8, 32
	partBinding         = 3 * 4 * partT * partD
)

// partsOf has the operations that go through activations row by row, and those that add their rows up.
func partsOf(g *graph.Graph) []*graph.Value {
	sequences := func(name string) *graph.Value { return checkedInput(g, name, partB, partT, partD) }
	flat := func(v *graph.Value) *graph.Value { return g.Reshape(v, partB*partT, partD) }
	all := func(n *graph.Node) []*graph.Value { return n.Outputs }
	ids, positions, gamma := checkedInts(g, "ids", partB, partT), checkedInts(g, "positions", partB, partT), checkedInput(g, "gamma", partD)
	x, dy := sequences("x"), g.Apply("tanh", sequences("dy"))

	layer := g.Append(graph.LayerNorm{Eps: 1e-5}, flat(x), gamma, checkedInput(g, "beta", partD))
	rms := g.Append(graph.RMSNorm{Eps: 1e-5}, x, gamma)
	heads := g.Append(graph.RMSNorm{Eps: 1e-6}, x, checkedInput(g, "heads", partD))
	back := g.Append(graph.Rope{HeadDim: partD / 4, Theta: 10000, Window: 50, Inverse: true}, dy, positions).Outputs[0]
	soft := g.Softmax(x)
	op := graph.Attention{Heads: 2, KVHeads: 2, HeadDim: partD / 2, Causal: true}
	q := g.Rope(g.Apply("exp", x), partD/2, 10000)
	attention := g.Append(op, q, dy, x)
	embedded := g.Embedding(checkedInput(g, "table", 50, partD), ids)
	return append(append(all(attention), all(g.Append(graph.AttentionGrad(op), q, dy, x, attention.Outputs[0], attention.Outputs[1], dy))...),
		layer.Outputs[0], g.Append(graph.LayerNormGrad{}, flat(x), gamma, layer.Outputs[1], flat(dy)).Outputs[0],
		g.Append(graph.NormGammaGrad{}, flat(x), layer.Outputs[1], flat(dy)).Outputs[0],
		rms.Outputs[0], g.Append(graph.NormGammaGrad{RMS: true}, x, rms.Outputs[1], dy).Outputs[0], g.Append(graph.RMSNormGrad{}, x, gamma, rms.Outputs[1], dy).Outputs[0],
		g.Rope(heads.Outputs[0], partD/2, 10000), g.Append(graph.NormGammaGrad{RMS: true}, x, heads.Outputs[1], back).Outputs[0],
		g.Append(graph.RMSNormGrad{}, x, gamma, heads.Outputs[1], back).Outputs[0],
		soft, g.Append(graph.SoftmaxGrad{}, soft, dy).Outputs[0], g.RopeAt(x, positions, partD/4, 10000, 50),
		embedded, g.Append(graph.EmbeddingGrad{Vocab: 50}, g.Mul(dy, embedded), ids).Outputs[0],
		g.Dropout(g.Mul(x, dy), g.Input("key", graph.Type{Shape: []int{2}, DType: buffers.U32}), 0.3, 5),
		g.Sum(dy, 0), g.Mean(flat(dy), 0), g.Max(g.Mul(x, dy), 0, 1),
		g.MatMul(flat(x), flat(dy), true, false), g.MatMul(flat(dy), checkedInput(g, "w", 40, partD), false, true),
	)
}

// What is larger than a binding has the same bits in parts as in one, also where a product takes K in slices, which other parts cut.
func TestRowsInParts(t *testing.T) {
	slices := func(g *graph.Graph) []*graph.Value {
		a := g.Apply("tanh", checkedInput(g, "a", 1030, 36))
		return []*graph.Value{g.MatMul(a, checkedInput(g, "b", 1030, 40), true, false), g.MatMul(checkedInput(g, "odd", 3, 1030), a, false, false)}
	}
	inParts(t, 64<<10, slices)
	inParts(t, partBinding, partsOf)
	inParts(t, 4*4*partD, func(g *graph.Graph) []*graph.Value { // parts of four rows, where a GPU adds up the gradients of gain and shift of eight
		x, gamma := checkedInput(g, "x", partB/2, 4, partD), checkedInput(g, "gamma", partD)
		dy, stats := g.Apply("tanh", checkedInput(g, "dy", partB/2, 4, partD)), g.Append(graph.LayerNorm{Eps: 1e-6}, x, gamma, gamma).Outputs[1]
		return []*graph.Value{g.Append(graph.LayerNormGrad{}, x, gamma, stats, dy).Outputs[0], g.Append(graph.NormGammaGrad{}, x, stats, dy).Outputs[0], g.Sum(dy, 0, 1)}
	})
}

// inParts compares values of a device with those of one whose bindings are smaller, for both kinds of adapters' kernels.
func inParts(t *testing.T, small uint64, build func(g *graph.Graph) []*graph.Value) {
	t.Helper()
	for _, hardware := range gputest.Rows([]bool{true, false}, 2) {
		var want map[string][]float64
		dispatches := 0
		for _, binding := range []uint64{1 << 20, small} {
			g := graph.New()
			w := &twin{graph: g, values: build(g), hardware: hardware}
			w.feeds = Check{Below: 50}.feeds(g)
			got, p := w.run(t, gputest.Device(t, gputest.WithLimits(gpu.Limits{BindingBytes: binding})))
			if want == nil {
				want, dispatches = got, p.Plan().Dispatches
				continue
			}
			require.Greater(t, p.Plan().Dispatches, 2*dispatches)
			for name, values := range want {
				assert.Equal(t, values, got[name], "%s, hardware %v", name, hardware)
			}
		}
	}
}

// Values that cannot lie in parts are refused with what they are.
func TestCannotLieInParts(t *testing.T) {
	lim := gpu.DefaultLimits()
	lim.BindingBytes, lim.BufferBytes = 4096, 1<<20
	refused := func(build func(g *graph.Graph) *graph.Value, want string) {
		t.Helper()
		g := graph.New()
		end := g.Scope("h.3.attn")
		v := build(g)
		end()
		_, err := PlanNarrow(t.Context(), g, []Target{{Name: "y", Value: v}}, nil, nil, lim)
		var limit *gpu.LimitError
		require.ErrorAs(t, err, &limit)
		require.ErrorContains(t, err, want)
	}
	refused(func(g *graph.Graph) *graph.Value { // a sequence of three times 64 numbers at each of 16 positions
		qkv := g.Apply("exp", checkedInput(g, "qkv", 2*16, 3*64))
		return g.PackedAttention(g.Reshape(qkv, 2, 16, 3*64), 2, 2, 32, true)
	}, "[32 192]: one of 2 rows: 12288 bytes, limit BindingBytes 4096; lower the context or the width")
	g := graph.New() // at an odd number of positions, parts of two sequences
	qkv := g.Reshape(g.Apply("exp", checkedInput(g, "qkv", 8*5, 3*32)), 8, 5, 3*32)
	attention := g.Append(graph.Attention{Heads: 1, KVHeads: 1, HeadDim: 32, Packed: true}, qkv)
	_, err := PlanNarrow(t.Context(), g, []Target{{Name: "y", Value: attention.Outputs[0]}}, nil, nil, lim)
	require.ErrorContains(t, err, "result 1 [8 1 5]: row 2, where a part of another operand begins: at byte 40, wanted a multiple of 256; lower the batch, or take a context")
	refused(func(g *graph.Graph) *graph.Value { return g.Apply("exp", checkedInput(g, "x", 1<<12, 65)) },
		"h.3.attn.elementwise: 1064960 bytes, limit BufferBytes 1048576; lower the batch or the context")
}
