package compile

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/internal/gputest"
	"gputrain/shaders"
)

// compareSums compares the sums of B's columns with those of rounded elements in float64; nothing behind them is touched.
func (r productRun) compareSums(t *testing.T, d *gpu.Device, s [3]int, add bool, round func(float64) float64) error {
	t.Helper()
	n, k := s[1], s[2]
	for j, got := range r.read(t, d, r.sums)[:n+productEdge] {
		want, magnitude := sentinel, 1.0
		if j < n {
			want, magnitude = 0, sentinel
			if add {
				want = sentinel
			}
			for i := range k {
				v := round(r.b.at(false, i, j))
				want, magnitude = want+v, magnitude+math.Abs(v)
			}
		}
		if !(math.Abs(got-want) <= float64(k+2)*eps*magnitude) || j >= n && got != want {
			return fmt.Errorf("column %d of %d: found %g, wanted %g", j, n, got, want)
		}
	}
	return nil
}

// Tiles of every size and kind add up the columns of B, with edges, K in slices or not, beside a product.
func TestSumsOfForms(t *testing.T) {
	d, rng, tn := gputest.Device(t), rand.New(rand.NewPCG(61, 62)), [2]bool{true, false}
	for i, form := range []shaders.ProductTile{
		{Rows: 32, Step: 32},
		{Rows: 64, Step: 16, Prefetch: true, Rolled: true},
		{Rows: 64, Step: 8, Prefetch: true, Double: true},
		{Rows: 128, Step: 8, Prefetch: true, Double: true},
		{Rows: 128, Step: 16, Prefetch: true},
	} {
		v := tiled(form.Rows)
		v.as = &form
		for j, s := range [][3]int{{132, 260, 44}, {36, 40, 1030}} {
			if testing.Short() && (i+j)%2 > 0 {
				continue
			}
			add := i%2 == 0
			set := func(g *gemm) { g.accumulate, g.sums = add, &Tensor{Accumulate: !add} }
			r := newProductOf(t, d, rng, false, tn, s, set, v)
			got := r.run(t, d)[productEdge:]
			for range 100 {
				row, column, want := rng.IntN(s[0]), rng.IntN(s[1]), 0.0
				if add {
					want = sentinel
				}
				for k := range s[2] {
					want += r.a.at(true, row, k) * r.b.at(false, k, column)
				}
				assert.InDelta(t, want, got[row*s[1]+column], 1e-3)
			}
			assert.NoError(t, r.compareSums(t, d, s, !add, func(x float64) float64 { return x }), "%+v %v", form, s)
		}
	}
}

// summedWeights are x^T dy and the sum of dy over its rows, as gradients of a weight and a bias, of small numbers, so that every sum is exact.
func summedWeights(w *twin, rng *rand.Rand, rows, width, columns int) {
	g := w.graph
	input := func(name string, shape ...int) *graph.Value {
		a := graph.NewArray(shape)
		for i := range a.Data {
			a.Data[i] = float64(rng.IntN(33)-16) / 8
		}
		w.feeds[name] = a
		return x(g, name, shape...)
	}
	in, dy := input("x", rows, width), g.Mul(input("da", 1, rows, columns), input("db", 1, rows, columns))
	g.Param("weight", width, columns)
	g.Param("bias", columns)
	w.leaves = map[string]*graph.Value{
		"weight": g.MatMul(in, g.Reshape(dy, rows, columns), true, false),
		"bias":   g.Append(graph.Reduce{Fn: "sum", Axes: []int{0, 1}}, dy).Outputs[0],
	}
	w.feed(rng)
}

// On GPUs the gradient of a bias is made by the product that makes the weight's, to the same numbers, added to what there is or not; elsewhere, and where
// such a product is not made of tiles, by a pass of its own.
func TestSumsOfBiases(t *testing.T) {
	d := gputest.Device(t)
	units := gpu.MatrixUnits{Shapes: []gpu.MatrixShape{{M: 8, N: 8, K: 8}}, Lanes: 8, Subgroups: 32}
	for _, c := range []struct {
		name                 string
		rows, width, columns int
		hardware, joined     bool
		units                gpu.MatrixUnits
	}{
		{"tiles", 70, 36, 44, true, true, gpu.MatrixUnits{}},
		{"slices", 1030, 64, 132, true, true, gpu.MatrixUnits{}},
		{"large tiles", 8, 516, 900, true, true, gpu.MatrixUnits{}},
		{"units", 72, 72, 40, true, true, units},
		{"units, slices", 1032, 64, 48, true, true, units},
		{"narrow", 70, 20, 44, true, false, gpu.MatrixUnits{}},
		{"no whole quads", 70, 36, 45, true, false, gpu.MatrixUnits{}},
		{"software", 70, 36, 44, false, false, gpu.MatrixUnits{}},
	} {
		for _, add := range []bool{false, true} {
			w := &twin{graph: graph.New(), feeds: map[string]*graph.Array{}, hardware: c.hardware, accumulate: add, matrix: c.units}
			summedWeights(w, rand.New(rand.NewPCG(63, 64)), c.rows, c.width, c.columns)
			if len(c.units.Shapes) > 0 {
				w.graph.RoundProducts()
			}
			p := w.check(t, d, 0)
			assert.Equal(t, !c.joined, len(kernelsNamed(p, "reduce")) > 0, c.name)
			if c.units.Shapes != nil {
				assert.Len(t, kernelsNamed(p, "elementwise_mul_halves"), 1, "what the product and the sum read is kept in f16")
			}
			assert.Equal(t, strings.HasSuffix(c.name, "slices"), slices.Contains(labelsOf(p), "matmul_slices_sums"), c.name)
		}
	}
}

// The checks of sums reach every size of a tile, units, and slices.
func TestSumsChecks(t *testing.T) {
	d, made := gputest.Device(t), map[string]bool{}
	for i, k := range sumsChecks {
		w := &twin{graph: graph.New(), hardware: true}
		if i == 1 {
			w.matrix = gpu.MatrixUnits{Shapes: []gpu.MatrixShape{{M: 8, N: 8, K: 8}}, Lanes: 8, Subgroups: 32}
		}
		w.values = k.Build(w.graph)
		w.feeds = k.feeds(w.graph)
		for _, label := range labelsOf(w.check(t, d, k.Tolerance*eps)) {
			made[label] = true
		}
	}
	assert.Equal(t, map[string]bool{
		"matmul_tiled_tn_32_sums": true, "matmul_tiled_tn_64_sums": true, "matmul_tiled_tn_128_sums": true, "matmul_matrix_tn_8x8x8_8_sums": true, "matmul_slices_sums": true, "cast_halves": true,
	}, made)
}

// All gradients of half a transformer's block, with a norm, two weights and their biases, are those of Eval, and biases have no passes of their own.
func TestSumsOfABlock(t *testing.T) {
	g, targets := block(96, 128)
	w := &twin{graph: g, hardware: true, leaves: map[string]*graph.Value{}, feeds: map[string]*graph.Array{"loss_scale": {Data: []float64{1. / 512}}}}
	for _, target := range targets[1:] {
		w.leaves[target.Leaf] = target.Value
	}
	w.feed(rand.New(rand.NewPCG(67, 68)))
	labels := labelsOf(w.check(t, gputest.Device(t), 4096*eps))
	sums := slices.DeleteFunc(slices.Clone(labels), func(l string) bool { return !strings.HasSuffix(l, "_sums") && !strings.HasPrefix(l, "reduce") })
	assert.Equal(t, []string{"matmul_tiled_tn_32_sums", "matmul_tiled_tn_32_sums", "reduce_group_sum", "reduce_group_sum"}, sums, "those of the norm by passes of their own: x wants no gradient")
}

// What else reads a sum, or the product, keeps the two apart; so does a sum of other rows.
func TestSumsApart(t *testing.T) {
	d := gputest.Device(t)
	for name, change := range map[string]func(g *graph.Graph, product, sum, dy *graph.Value) []*graph.Value{
		"a reader of the sum": func(g *graph.Graph, product, sum, _ *graph.Value) []*graph.Value {
			return []*graph.Value{product, g.Mul(sum, sum)}
		},
		"a reader of the product": func(g *graph.Graph, product, sum, _ *graph.Value) []*graph.Value {
			return []*graph.Value{g.Mul(product, product), sum}
		},
		"half of the rows": func(g *graph.Graph, product, _, dy *graph.Value) []*graph.Value {
			half := g.Append(graph.Slice{Axis: 0, Length: 32}, dy).Outputs[0]
			return []*graph.Value{product, g.Sum(half, 0)}
		},
		"columns": func(g *graph.Graph, product, _, dy *graph.Value) []*graph.Value {
			return []*graph.Value{product, g.Sum(dy, 1)}
		},
		"a mean": func(g *graph.Graph, product, _, dy *graph.Value) []*graph.Value {
			return []*graph.Value{product, g.Mean(dy, 0)}
		},
	} {
		w := &twin{graph: graph.New(), hardware: true}
		g := w.graph
		in, dy := x(g, "x", 64, 64), x(g, "dy", 64, 64)
		w.values = change(g, g.MatMul(in, dy, true, false), g.Sum(dy, 0), dy)
		w.feed(rand.New(rand.NewPCG(65, 66)))
		p := w.check(t, d, 256*eps)
		assert.NotContains(t, strings.Join(labelsOf(p), " "), "_sums", name)
	}
}

// labelsOf are the labels of a program's kernels, in order.
func labelsOf(p *Program) (labels []string) {
	for _, cmd := range p.commands {
		if cmd.kernel != nil {
			labels = append(labels, strings.TrimPrefix(cmd.kernel.Label, "gputrain.graph."))
		}
	}
	return labels
}
