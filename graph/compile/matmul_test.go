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

// matmulTolerance bounds the error of a sum of k products of normal numbers in f32: each addition errs by eps/2 of a sum
// that is about sqrt(k), and k of these errors add up like a random walk, to eps/2 k; four times that is allowed.
func matmulTolerance(k int) float64 { return 2 * eps * float64(k+8) }

// matmulGraph is Y = op(A) op(B) of two inputs with batch dimensions.
func matmulGraph(batchA, batchB []int, m, n, k int, transA, transB bool) *twin {
	a, b := append([]int{}, batchA...), append([]int{}, batchB...)
	if transA {
		a = append(a, k, m)
	} else {
		a = append(a, m, k)
	}
	if transB {
		b = append(b, n, k)
	} else {
		b = append(b, k, n)
	}
	g := graph.New()
	y := g.MatMul(g.Input("a", graph.F32(a...)), g.Input("b", graph.F32(b...)), transA, transB)
	return &twin{graph: g, values: []*graph.Value{y}}
}

var forms = [][2]bool{{false, false}, {false, true}, {true, false}}

func formName(form [2]bool) string {
	return string([]byte{"NT"[b2i(form[0])], "NT"[b2i(form[1])]})
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// TestMatMul goes through sizes around the tiles of every variant, odd ones included.
func TestMatMul(t *testing.T) {
	sizes := [][3]int{
		{0, 4, 4},
		{4, 0, 4},
		{4, 4, 0},
		{1, 1, 1},
		{1, 8, 4},
		{3, 5, 7},
		{4, 4, 4},
		{5, 12, 8},
		{7, 16, 20},
		{8, 33, 16},
		{15, 64, 8},
		{16, 64, 4},
		{17, 68, 12},
		{31, 32, 36},
		{33, 36, 5},
		{64, 128, 16},
		{65, 132, 20},
		{20, 24, 18},
	}
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		rng := rand.New(rand.NewPCG(1, 2))
		for _, form := range forms {
			for _, s := range gputest.Some(t, d, sizes) {
				t.Run(fmt.Sprintf("%s_%dx%dx%d", formName(form), s[0], s[1], s[2]), func(t *testing.T) {
					w := matmulGraph(nil, nil, s[0], s[1], s[2], form[0], form[1])
					w.feed(rng)
					w.check(t, d, matmulTolerance(s[2]))
				})
			}
		}
	})
}

func TestMatMulBatches(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		rng := rand.New(rand.NewPCG(3, 4))
		for _, form := range forms {
			for _, batch := range [][2][]int{{{3}, {3}}, {{2, 3}, {2, 3}}, {{3}, nil}, {nil, {3}}} {
				for _, s := range [][3]int{{8, 12, 4}, {5, 7, 3}} {
					t.Run(fmt.Sprintf("%s_%v_%v", formName(form), batch, s), func(t *testing.T) {
						w := matmulGraph(batch[0], batch[1], s[0], s[1], s[2], form[0], form[1])
						w.feed(rng)
						w.check(t, d, matmulTolerance(s[2]))
					})
				}
			}
		}
	})
}

// TestMatMulSlices cuts a long K, with vec4 and scalar stores, with and without accumulation.
func TestMatMulSlices(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		rng := rand.New(rand.NewPCG(5, 6))
		for _, form := range forms {
			for _, s := range [][3]int{{8, 12, 1024}, {4, 6, 772}, {3, 5, 1001}} {
				w := matmulGraph(nil, nil, s[0], s[1], s[2], form[0], form[1])
				w.feed(rng)
				p := w.check(t, d, matmulTolerance(s[2]))
				require.Equal(t, 2, p.Plan().Dispatches, "product and sum")
			}
		}
	})
}

// TestMatMulLeaf writes a weight gradient to a leaf, overwriting and accumulating.
func TestMatMulLeaf(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for _, k := range []int{24, 1024} {
			g := graph.New()
			param := g.Param("w", 12, 20)
			x, dy := g.Input("x", graph.F32(k, 12)), g.Input("dy", graph.F32(k, 20))
			y := g.MatMul(x, param, false, false)
			w := &twin{graph: g, values: []*graph.Value{y}, leaves: map[string]*graph.Value{"w": g.MatMul(x, dy, true, false)}}
			w.feed(rand.New(rand.NewPCG(7, 8)))
			w.check(t, d, matmulTolerance(k))
			once, _ := w.run(t, d)
			w.accumulate = true
			again, _ := w.run(t, d)
			require.Equal(t, once["w"], again["w"], "added to zero")
		}
	})
}

// TestMatMulParts has a weight of several row parts as B, as B transposed, and as the leaf of a gradient.
func TestMatMulParts(t *testing.T) {
	limits := gpu.Limits{BindingBytes: 64 << 10}
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		const rows, width, n = 600, 64, 12 // 150 KiB in three parts
		g := graph.New()
		param := g.Param("w", rows, width)
		x, z := g.Input("x", graph.F32(n, width)), g.Input("z", graph.F32(n, rows))
		nt := g.MatMul(x, param, false, true)
		nn := g.MatMul(z, param, false, false)
		at := g.MatMul(param, g.Input("v", graph.F32(rows, 8)), true, false)
		an := g.MatMul(param, g.Input("u", graph.F32(width, 4)), false, false)
		w := &twin{graph: g, values: []*graph.Value{nt, nn, at, an}, leaves: map[string]*graph.Value{"w": g.MatMul(z, x, true, false)}}
		w.feed(rand.New(rand.NewPCG(9, 10)))
		layout, err := buffers.NewLayout(g.Parameters(), d.Limits())
		require.NoError(t, err)
		leaf, _ := layout.Leaf("w")
		require.Len(t, leaf.Parts, 3)
		w.check(t, d, matmulTolerance(rows))
	}, gputest.WithLimits(limits))
}

// TestMatMulVariants runs every variant of the table, of GPUs too, on whatever adapter there is.
func TestMatMulVariants(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		rng := rand.New(rand.NewPCG(11, 12))
		for _, cpu := range []bool{true, false} {
			forms := forms
			if !cpu {
				forms = gputest.Some(t, d, forms)
			}
			for _, form := range forms {
				for i, s := range gputest.Some(t, d, [][3]int{{64, 128, 32}, {100, 72, 52}, {36, 50, 16}, {40, 44, 18}, {200, 130, 8}, {8, 260, 64}}) {
					checkProduct(t, d, rng, cpu, form, s, i%2 == 1)
				}
			}
		}
	})
}

// TestMatMulTiles has tiles of every size past the edges of C and of K, with what a tile may not touch around C.
func TestMatMulTiles(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		rng := rand.New(rand.NewPCG(19, 20))
		for _, rows := range []int{32, 64, 128} {
			for i, form := range gputest.Some(t, d, forms) {
				for j, s := range gputest.Some(t, d, [][3]int{{rows + 4, rows - 4, 44}, {rows, 2 * rows, 64}, {rows - 3, rows + 8, 4}, {36, 2*rows + 12, 52}}) {
					if form[0] {
						s[0] = (s[0] + 3) / 4 * 4 // A lies as [k, m]
					}
					checkProduct(t, d, rng, false, form, s, (i+j)%2 == 1, tiled(rows))
				}
			}
		}
	})
}

// checkProduct runs one gemm outside of a graph, in buffers with sentinels around C, against float64. It returns C and what is around it.
func checkProduct(t *testing.T, d *gpu.Device, rng *rand.Rand, cpu bool, form [2]bool, s [3]int, accumulate bool, as ...gemmVariant) []float64 {
	t.Helper()
	m, n, k := s[0], s[1], s[2]
	p := newProductRun(t, d, rng, cpu, form, s, accumulate, as...)
	got := p.run(t, d)
	for i := range m {
		for j := range n {
			want := 0.0
			if accumulate {
				want = sentinel
			}
			for l := range k {
				want += p.a.at(form[0], i, l) * p.b.at(form[1], l, j)
			}
			at := productEdge + i*n + j
			require.InDelta(t, want, got[at], matmulTolerance(k)*(1+sentinel), "cpu %v %s %v accumulate %v: row %d column %d", cpu, formName(form), s, accumulate, i, j)
		}
	}
	for i := range productEdge {
		require.Equal(t, sentinel, got[i], "before C: %d", i)
		require.Equal(t, sentinel, got[productEdge+m*n+i], "after C: %d", i)
	}
	return got
}

// TestMatMulSmallGrids has more products and more rows than a grid can count.
func TestMatMulSmallGrids(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		rng := rand.New(rand.NewPCG(13, 14))
		for _, form := range forms {
			for _, s := range gputest.Some(t, d, [][4]int{{9, 4, 8, 4}, {9, 3, 5, 7}, {1, 1000, 4, 8}, {1, 301, 3, 5}, {1, 300, 32, 8}}) {
				w := matmulGraph([]int{s[0]}, []int{s[0]}, s[1], s[2], s[3], form[0], form[1])
				w.feed(rng)
				for _, cpu := range []bool{true, false} {
					w.checkAs(t, d, cpu, matmulTolerance(s[3]))
				}
			}
		}
	}, gputest.WithLimits(gpu.Limits{Workgroups: 4}))
}
