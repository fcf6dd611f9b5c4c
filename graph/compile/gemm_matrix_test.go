package compile

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"

	"gputrain/buffers/array"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/internal/gputest"
)

// halfOf is a number rounded to f16.
func halfOf(x float64) float64 { return float64(array.DecodeF16(array.EncodeF16(float32(x)))) }

// A product by matrix units is one of operands rounded to f16 and sums in f32, whole tiles and edges, whether units make it or their plain bodies do; nothing
// around C is touched.
func TestMatrixProducts(t *testing.T) {
	matrixProducts(t, gputest.Device(t))
}

// The same with the units of an adapter that has them.
func TestMatrixProductsOfUnits(t *testing.T) {
	d := gputest.Device(t, func(o *gpu.Options) { o.Matrix = true })
	if len(d.Limits().Matrix.Shapes) == 0 {
		t.Skip("skipped, needs an adapter with matrix units")
	}
	matrixProducts(t, d)
}

func matrixProducts(t *testing.T, d *gpu.Device) {
	v := matrixUnits(gpu.MatrixShape{M: 8, N: 8, K: 8}, 8, gpu.Registers{})
	rng := rand.New(rand.NewPCG(1, 30))
	for f, form := range [][2]bool{{false, false}, {false, true}, {true, false}} {
		// Whole tiles, edges, less than a tile, K in slices; where B is transposed also rows of C that are no whole quads.
		shapes := [][3]int{{32, 16, 16}, {36, 20, 28}, {64, 48, 4}, {4, 4, 52}, {40, 36, 1100}}
		if form[1] {
			shapes = append(shapes, [3]int{9, 18, 20})
		}
		if testing.Short() {
			shapes = shapes[:2]
		}
		for _, s := range shapes {
			for i, add := range []func(*gemm){nil, func(g *gemm) { g.accumulate = true }, func(g *gemm) { g.continues = true }} {
				if testing.Short() && i != f {
					continue
				}
				set := func(g *gemm) {
					if add != nil {
						add(g)
					}
				}
				r := newProductOf(t, d, rng, false, form, s, set, v)
				assert.NoError(t, compareMatrix(r.run(t, d), r, form, s, add != nil), "%v %v", form, s)
			}
		}
	}
	// Sums of columns: of slices, and where a subgroup of two below each other makes two of four matrices.
	wide := v
	wide.tileN, wide.matrix.across, wide.matrix.group = 64, 4, 4
	for s, as := range map[[3]int]gemmVariant{{40, 36, 1100}: v, {40, 72, 44}: wide} {
		form := [2]bool{true, false}
		r := newProductOf(t, d, rng, false, form, s, func(g *gemm) { g.sums = &Tensor{} }, as)
		assert.NoError(t, compareMatrix(r.run(t, d), r, form, s, false), "%v", s)
		assert.NoError(t, r.compareSums(t, d, s, false, halfOf), "%v", s)
	}
	// K in blocks, of whole steps and not.
	for _, block := range []int{32, 24} {
		form, s := [2]bool{true, false}, [3]int{32, 16, 96}
		r := newProductOf(t, d, rng, false, form, s, func(g *gemm) { g.block = block }, v)
		assert.NoError(t, compareMatrix(r.run(t, d), r, form, s, false), "blocks of %d", block)
	}
}

// Operands that are in f16, as they lie or turned on their way in, steps that are loaded before, and workgroups of six subgroups, whose last invocations have
// nothing to bring: each form, of whole tiles and with edges. Products of a transposed A add up the columns of B besides.
func TestMatrixTiles(t *testing.T) {
	matrixTiles(t, gputest.Device(t))
}

// The same with the units of an adapter that has them.
func TestMatrixTilesOfUnits(t *testing.T) {
	d := gputest.Device(t, func(o *gpu.Options) { o.Matrix = true })
	if len(d.Limits().Matrix.Shapes) == 0 {
		t.Skip("skipped, needs an adapter with matrix units")
	}
	matrixTiles(t, d)
}

func matrixTiles(t *testing.T, d *gpu.Device) {
	rng := rand.New(rand.NewPCG(1, 31))
	for f, form := range [][2]bool{{false, false}, {false, true}, {true, false}} {
		for i, halves := range [][2]bool{{false, false}, {true, true}, {true, false}, {false, true}} {
			for j, as := range []matrixTile{{}, {prefetch: true}, {prefetch: true, twice: true}, {turns: true, prefetch: true}} {
				if (f+i+j)%3 > 0 { // each way meets each form, and each kind of operands two ways or more
					continue
				}
				v := matrixUnits(gpu.MatrixShape{M: 8, N: 8, K: 8}, 8, gpu.Registers{})
				v.tileN = 24
				v.matrix.turns, v.matrix.prefetch, v.matrix.twice = as.turns, as.prefetch, as.twice
				for e, s := range [][3]int{{64, 48, 64}, {40, 32, 40}, {44, 24, 56}} {
					if s[0]%8 > 0 && form[0] && halves[0] || testing.Short() && e != (f+i)%3 {
						continue // no row begins at a whole vec4
					}
					set := func(g *gemm) {
						g.a.span.st.half, g.b.span.st.half = halves[0], halves[1]
						g.a.span.asKept, g.b.span.asKept = halves[0], halves[1]
						if g.continues = e == 2; form[0] {
							g.sums = &Tensor{Accumulate: e > 0}
						}
					}
					r := newProductOf(t, d, rng, false, form, s, set, v)
					assert.NoError(t, compareMatrix(r.run(t, d), r, form, s, e == 2), "%v %v halves %v, %+v", form, s, halves, as)
					if form[0] {
						assert.NoError(t, r.compareSums(t, d, s, e > 0, halfOf), "%v halves %v, %+v", s, halves, as)
					}
				}
			}
		}
	}
}

// compareMatrix compares C with sums of rounded operands in float64. A sum of K products in f32 is within (K+1) roundings of the sum of their magnitudes.
func compareMatrix(got []float64, r productRun, form [2]bool, s [3]int, accumulate bool) error {
	m, n, k := s[0], s[1], s[2]
	for i, x := range got[:len(got)-productEdge] {
		at := i - productEdge
		if (at < 0 || at >= m*n) && x != sentinel {
			return fmt.Errorf("element %d around C: found %g, wanted %g", at, x, sentinel)
		}
	}
	for i := range m {
		for j := range n {
			sum, size := 0.0, 0.0
			if accumulate {
				sum, size = sentinel, sentinel
			}
			for l := range k {
				p := halfOf(r.a.at(form[0], i, l)) * halfOf(r.b.at(form[1], l, j))
				sum, size = sum+p, size+math.Abs(p)
			}
			if x := got[productEdge+i*n+j]; !(math.Abs(x-sum) <= float64(k+1)*0x1p-24*size) {
				return fmt.Errorf("C[%d,%d]: found %g, wanted %g", i, j, x, sum)
			}
		}
	}
	return nil
}

// Operands are rounded as array.EncodeF16 rounds, by kernels that load quads and by those that load elements: ties, numbers that f16 has no normal one for,
// and those that are too large.
func TestRoundedOperands(t *testing.T) {
	var numbers []float64
	for _, x := range []float64{1, 1 + 0x1p-11, 1 + 0x3p-11, 1 + 0x1.8p-11, 2049, 2051, 0x1p-14, 0x1.ffcp-15, 0x1p-24, 0x1p-25, 0x1.8p-24, 0x1.000002p-25, 0x1p-30, 65504, 65519.99, 65520, 1e30, 0, math.Inf(1)} {
		numbers = append(numbers, float64(float32(x)), float64(float32(-x)))
	}
	for _, k := range []int{1, 4} {
		a, b := graph.NewArray([]int{len(numbers), k}), graph.NewArray([]int{k, 4})
		for i, x := range numbers {
			a.Data[i*k] = x
		}
		for i := range b.Data {
			b.Data[i] = 1
		}
		g := graph.New()
		y := g.MatMul(g.Input("a", graph.F32(a.Shape...)), g.Input("b", graph.F32(b.Shape...)), false, false)
		g.RoundProducts()
		w := &twin{graph: g, values: []*graph.Value{y}, feeds: map[string]*graph.Array{"a": a, "b": b}}
		got, _ := w.run(t, gputest.Device(t))
		for i, x := range numbers {
			assert.Equal(t, float32(halfOf(x)), float32(got["v0"][4*i]), "%g, K of %d", x, k)
		}
	}
}

// Units that no tile fits are refused for what is lacking, and the next shape is taken where there is one.
func TestUnitsThatProductsTake(t *testing.T) {
	large, small := gpu.MatrixShape{M: 16, N: 16, K: 16}, gpu.MatrixShape{M: 8, N: 8, K: 8}
	nvidia, amd, least := gpu.Registers{Budget: 255}, gpu.Registers{Budget: 256}, gpu.Registers{}
	for _, c := range []struct {
		shapes     []gpu.MatrixShape
		lanes      int
		registers  gpu.Registers
		subgroups  int
		shared     int
		takes, not string
	}{
		{[]gpu.MatrixShape{large}, 32, nvidia, 32, 48 << 10, "16x16x16", ""},
		{[]gpu.MatrixShape{large}, 32, amd, 32, 64 << 10, "16x16x16", ""},
		{[]gpu.MatrixShape{large}, 64, amd, 32, 64 << 10, "16x16x16", ""},
		{[]gpu.MatrixShape{large}, 32, least, 32, 32 << 10, "16x16x16", ""},
		{[]gpu.MatrixShape{small}, 8, amd, 32, 32 << 10, "8x8x8", ""},
		{[]gpu.MatrixShape{large, small}, 8, amd, 32, 32 << 10, "8x8x8", ""},
		{[]gpu.MatrixShape{large}, 8, amd, 32, 64 << 10, "", "16x16x16 by 8 invocations, whose products take 336 registers an invocation, wanted at most 204"},
		{[]gpu.MatrixShape{large}, 16, least, 32, 64 << 10, "", "products take 152 registers an invocation, wanted at most 102"},
		{[]gpu.MatrixShape{large}, 32, amd, 4, 64 << 10, "", "products take 8 subgroups a workgroup, wanted at most 4"},
		{[]gpu.MatrixShape{large}, 32, amd, 32, 16 << 10, "", "bytes of workgroup memory, wanted at most 16384"},
		{[]gpu.MatrixShape{{M: 8, N: 16, K: 16}}, 16, least, 32, 64 << 10, "", "matrix units of 8x16x16 by 16 invocations, wanted one of [16x16x16 8x8x8]"},
		{nil, 0, amd, 0, 64 << 10, "", "no matrix units"},
	} {
		l := gpu.Limits{Registers: c.registers, Invocations: 1024, WorkgroupBytes: c.shared}
		l.Matrix = gpu.MatrixUnits{Shapes: c.shapes, Lanes: c.lanes, Subgroups: c.subgroups}
		assert.Equal(t, c.takes, UnitsOf(l), "%v", c)
		assert.Equal(t, c.takes == "", UnitsLack(l) != "", "%v", c)
		assert.Contains(t, UnitsLack(l), c.not, "%v", c)
		_, ok := unitsFor(l, "attention", 64, false)
		assert.False(t, ok && c.takes == "", "%v", c)
	}
}
