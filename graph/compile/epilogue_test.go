package compile

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/internal/gputest"
)

// epilogueCases build values of which every elementwise one follows a product or a norm's gradient.
var epilogueCases = []struct {
	name  string
	build func(g *graph.Graph) []*graph.Value
}{
	{"bias and function, the product read later", func(g *graph.Graph) []*graph.Value {
		h := g.Add(g.MatMul(x(g, "a", 35, 40), x(g, "w", 40, 36), false, false), x(g, "bias", 36))
		y := g.Apply("gelu_tanh", h)
		return []*graph.Value{g.MatMul(y, x(g, "w2", 36, 8), false, false), g.Append(graph.Elementwise{Fn: "gelu_tanh_grad"}, h, g.MatMul(y, x(g, "w3", 36, 36), false, false)).Outputs[0]}
	}},
	{"two results, in slices of K", func(g *graph.Graph) []*graph.Value {
		p, a, b := g.MatMul(x(g, "a", 1030, 40), x(g, "w", 1030, 36), true, false), x(g, "b", 40, 36), x(g, "c", 40, 36)
		return []*graph.Value{g.Mul(p, a), g.Mul(g.Mul(p, b), g.Apply("silu", a))}
	}},
	{"a few columns, in slices of K", func(g *graph.Graph) []*graph.Value {
		return []*graph.Value{g.Mul(g.MatMul(x(g, "a", 40, 1032), x(g, "w", 8, 1032), false, true), x(g, "scale", 1))}
	}},
	{"a batch", func(g *graph.Graph) []*graph.Value {
		return []*graph.Value{g.Add(g.MatMul(x(g, "a", 2, 33, 8), x(g, "w", 2, 8, 40), false, false), x(g, "rows", 33, 1))}
	}},
	{"products that need each other", func(g *graph.Graph) []*graph.Value {
		p, q := g.MatMul(x(g, "a", 36, 8), x(g, "w", 8, 36), false, false), g.MatMul(x(g, "b", 36, 8), x(g, "w", 8, 36), false, false)
		return []*graph.Value{g.Add(p, q), g.Mul(p, q)}
	}},
	{"gradients of norms", func(g *graph.Graph) []*graph.Value {
		a, gamma, dy := x(g, "a", 6, 72), x(g, "gamma", 72), x(g, "dy", 6, 72)
		layer := g.Append(graph.LayerNormGrad{}, a, gamma, x(g, "stats", 6, 2), dy).Outputs[0]
		rms := g.Append(graph.RMSNormGrad{}, a, gamma, x(g, "scales", 6, 1), dy).Outputs[0]
		return []*graph.Value{g.Add(g.Add(x(g, "d", 6, 72), layer), rms)}
	}},
	{"gradients of a norm whose heads are turned", func(g *graph.Graph) []*graph.Value {
		dy := g.Append(graph.Rope{HeadDim: 24, Theta: 100, Inverse: true}, x(g, "dy", 2, 3, 72)).Outputs[0]
		rms := g.Append(graph.RMSNormGrad{}, x(g, "a", 6, 72), x(g, "gamma", 72), x(g, "scales", 6, 1), g.Reshape(dy, 6, 72)).Outputs[0]
		return []*graph.Value{g.Add(x(g, "d", 6, 72), rms)}
	}},
}

// TestEpilogues: what follows a kernel has in that kernel the bits that it has in one of its own, on adapters that are not software.
func TestEpilogues(t *testing.T) {
	d := gputest.Device(t)
	for _, s := range epilogueCases {
		t.Run(s.name, func(t *testing.T) {
			w := &twin{graph: graph.New(), hardware: true}
			w.values = s.build(w.graph)
			w.feed(rand.New(rand.NewPCG(41, 42)))
			p := w.check(t, d, 1000*eps)
			joined, _ := w.run(t, d)
			w.buffers = 3 // with which there is no room for what an epilogue reads
			apart, q := w.run(t, d)
			require.Equal(t, apart, joined)
			assert.Less(t, p.Plan().Dispatches, q.Plan().Dispatches)
			assert.Empty(t, kernelsNamed(p, "elementwise"))
		})
	}
}

// kernelsNamed are the labels of a program's kernels with a name.
func kernelsNamed(p *Program, name string) (labels []string) {
	for _, k := range p.Kernels() {
		if strings.HasPrefix(k.Label, "gputrain.graph."+name) {
			labels = append(labels, k.Label)
		}
	}
	return labels
}

// An epilogue moves what it reads and writes besides the product's own operands and result, which count as before.
func TestWorkOfAnEpilogue(t *testing.T) {
	const m, n, k, word = 64, 40, 32, 4
	g := graph.New()
	p := g.MatMul(x(g, "a", m, k), x(g, "w", k, n), false, false)
	targets := []Target{{Name: "sum", Value: g.Add(g.Add(p, x(g, "bias", n)), x(g, "r", m, n))}}
	q, err := New(t.Context(), gpu.Dry(gpu.DefaultLimits()), g, Options{Targets: targets})
	require.NoError(t, err)
	defer q.Release()
	work := q.Work()
	require.Len(t, work, 2)
	for i, want := range []Work{
		{Group: Rest, Kind: "elementwise", Work: gpu.Work{Bytes: word * (n + m*n), FLOPs: 2 * m * n}, Needed: 2 * m * n, Least: word * m * n},
		{Group: Products, Kind: "matmul", Dispatches: 1, Work: gpu.Work{Bytes: word * (m*k + k*n + m*n), FLOPs: 2 * m * n * k}, Needed: 2 * m * n * k},
	} {
		want.Kernels = work[i].Kernels
		assert.Equal(t, want, work[i])
	}
}
