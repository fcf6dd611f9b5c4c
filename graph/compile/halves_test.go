package compile

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/internal/gputest"
)

// Products by units find their operands in f16: a value that nothing else reads is stored so, one with another reader is copied once, an epilogue stores one
// twice. The numbers are small multiples of 1/64, so that nothing is rounded but to f16, and results are the twin's.
func TestHalves(t *testing.T) {
	w := &twin{
		graph: graph.New(), hardware: true, feeds: map[string]*graph.Array{},
		matrix: gpu.MatrixUnits{Shapes: []gpu.MatrixShape{{M: 8, N: 8, K: 8}}, Lanes: 8, Subgroups: 32},
	}
	g, rng := w.graph, rand.New(rand.NewPCG(7, 8))
	input := func(name string, shape ...int) *graph.Value {
		a := graph.NewArray(shape)
		for i := range a.Data {
			a.Data[i] = float64(rng.IntN(129)-64) / 64
		}
		w.feeds[name] = a
		return x(g, name, shape...)
	}
	a, b, m := input("a", 40, 64), input("b", 40, 64), input("m", 64, 64)
	own, shared := g.Add(a, b), g.Sub(a, b)
	twice := g.Add(g.MatMul(a, m, false, false), b)
	for _, v := range []*graph.Value{own, shared, twice} {
		w.values = append(w.values, g.MatMul(v, m, false, true), g.MatMul(v, v, true, false))
	}
	w.values = append(w.values, shared, g.Add(twice, a))
	g.RoundProducts()
	p := w.check(t, gputest.Device(t), 64*eps) // of sums in f32
	labels := func(name, end string) (n int) {
		for _, cmd := range p.commands {
			if strings.HasPrefix(cmd.kernel.Label, "gputrain.graph."+name) && strings.HasSuffix(cmd.kernel.Label, end) {
				n++
			}
		}
		return n
	}
	assert.Equal(t, 1, labels("elementwise_add", "_halves"), "what products alone read is stored in f16")
	assert.Equal(t, 1, labels("matmul_matrix_nn", "_add_halves"), "and an epilogue's result besides")
	assert.Equal(t, 2, labels("cast_halves", ""), "of a and of a - b, once each; two rows of tiles read m, which pay for no copy")
	assert.False(t, slices.ContainsFunc(p.commands, func(cmd boundCommand) bool {
		return strings.Contains(cmd.kernel.Label, "matmul_matrix") && strings.Contains(cmd.kernel.Source, "var<storage, read> a: array<vec4<f32>>")
	}), "no product is left that reads f32")
}

// A slice that begins where the whole does, and is multiplied first, has a copy of its own.
func TestHalvesOfSlices(t *testing.T) {
	w := &twin{
		graph: graph.New(), hardware: true,
		matrix: gpu.MatrixUnits{Shapes: []gpu.MatrixShape{{M: 8, N: 8, K: 8}}, Lanes: 8, Subgroups: 32},
	}
	g := w.graph
	a, m := x(g, "a", 128, 64), x(g, "m", 64, 128)
	top := g.Append(graph.Slice{Axis: 0, Length: 64}, a).Outputs[0]
	w.values = append(w.values, g.MatMul(top, m, false, false), g.MatMul(a, m, false, false))
	g.RoundProducts()
	w.feed(rand.New(rand.NewPCG(9, 10)))
	w.check(t, gputest.Device(t), 4096*eps)
}

// Products of adapters, with a K of their rank, take their operands as they are: a copy takes longer than it spares. The doctor's check has a K that pays for
// copies by the tiles of cards.
func TestCopiesInHalvesPay(t *testing.T) {
	limits := gpu.DefaultLimits()
	limits.BindingBytes, limits.Invocations, limits.WorkgroupBytes = 2<<30, 1024, 48<<10
	limits.Registers = gpu.Registers{Budget: 255}
	limits.Matrix = gpu.MatrixUnits{Shapes: []gpu.MatrixShape{{M: 16, N: 16, K: 16}}, Lanes: 32, Subgroups: 32}
	kernels := func(build func(g *graph.Graph) []*graph.Value) *Program {
		g := graph.New()
		var targets []Target
		for _, v := range build(g) {
			targets = append(targets, Target{Name: fmt.Sprint(len(targets)), Value: v})
		}
		p, err := New(t.Context(), gpu.Dry(limits), g, Options{Targets: targets})
		require.NoError(t, err)
		t.Cleanup(p.Release)
		return p
	}
	for rank, casts := range map[int]int{8: 0, 64: 0, 128: 2} {
		p := kernels(func(g *graph.Graph) []*graph.Value {
			y := g.MatMul(x(g, "a", 1024, rank), x(g, "b", 512, rank), false, true)
			g.RoundProducts()
			return []*graph.Value{y}
		})
		assert.Len(t, kernelsNamed(p, "matmul_matrix"), 1)
		assert.Equal(t, casts > 0, len(kernelsNamed(p, "cast_halves")) > 0, "rank %d", rank)
	}
	i := slices.IndexFunc(matMulChecks, func(c Check) bool { return c.Name == "matmul f16 operands" })
	p := kernels(matMulChecks[i].Build)
	assert.Len(t, kernelsNamed(p, "cast_halves"), 1)
	assert.Contains(t, kernelsNamed(p, "elementwise_add"), "gputrain.graph.elementwise_add_halves")
	assert.True(t, slices.ContainsFunc(kernelsNamed(p, "matmul_matrix"), func(label string) bool { return strings.HasSuffix(label, "_tanh_halves") }))
}
