package compile

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/buffers/array"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/internal/gputest"
)

// keptProducts are a program of what reads matrices [n, k] of a tree: of a layer's w the products x w^T of m rows and dy w, and its sum; of a table the rows
// of some tokens, and the product with it as a head.
type keptProducts struct {
	tree    *buffers.Tree
	program *Program
}

func newKeptProducts(t testing.TB, d *gpu.Device, software bool, kept buffers.DType, w, table []float32, m, n, k int) keptProducts {
	p, err := buffers.Upload(d, "beside", []buffers.Host{
		{Path: "h.0.w", Shape: []int{n, k}, Data: w}, {Path: "ln", Shape: []int{3}, Data: []float32{1, 2, 3}}, {Path: "wte", Shape: []int{n, k}, Data: table},
	}, kept)
	require.NoError(t, err)
	t.Cleanup(p.Release)
	g := graph.New()
	weights, rows := g.Param("h.0.w", n, k), g.Param("wte", n, k)
	x := checkedInput(g, "x", m, k)
	values := []*graph.Value{
		g.MatMul(x, weights, false, true), g.MatMul(checkedInput(g, "dy", m, n), weights, false, false),
		g.Sum(g.Apply("tanh", weights), 0), g.Add(g.Sum(g.Param("ln", 3)), g.Sum(g.Apply("tanh", g.Param("ln", 3)))),
		g.Embedding(rows, checkedInts(g, "ids", 2, 11)), g.MatMul(x, rows, false, true),
	}
	values[1] = g.Add(values[1], g.Apply("tanh", values[1])) // which follows the product where kernels do that
	var targets []Target
	for i, v := range values {
		targets = append(targets, Target{Name: fmt.Sprint(i), Value: v})
	}
	program, err := newFor(t.Context(), d, g, Options{Beside: []*buffers.Tree{p}, Targets: targets}, limitsAs(d, software))
	require.NoError(t, err)
	t.Cleanup(program.Release)
	for name, a := range (Check{Below: n}).feeds(g) {
		require.NoError(t, program.writeArray(name, program.Inputs()[name].DType, a))
	}
	return keptProducts{p, program}
}

func (p keptProducts) results(t *testing.T, d *gpu.Device) (out [][]float64) {
	rec := d.Record("test")
	p.program.Record(rec)
	require.NoError(t, rec.Submit(t.Context()), rec.String())
	for i := range 6 {
		at := p.program.Output(fmt.Sprint(i))
		out = append(out, readRange(t, d, at, int(at.Bytes/4)))
	}
	return out
}

func normal(n int) []float32 {
	rng, w := rand.New(rand.NewPCG(1, 2)), make([]float32, n)
	for i := range w {
		w[i] = float32(rng.NormFloat64())
	}
	return w
}

// Products of matrices that are kept in bf16 and nf4 have the bits of products of the same numbers in f32, on adapters of both kinds, in one part and in
// several; and they read no copies.
func TestKeptProducts(t *testing.T) {
	for i, c := range []struct {
		m, n, k int
		binding uint64
	}{
		{m: 70, n: 192, k: 128},                   // rows of whole blocks
		{m: 7, n: 100, k: 36},                     // blocks across rows
		{m: 256, n: 132, k: 64},                   // which one product reads as a copy on processors
		{m: 5, n: 36, k: 1028},                    // K in slices
		{m: 9, n: 35, k: 13},                      // nothing to load by four: of nf4 products read a copy too
		{m: 16, n: 512, k: 64, binding: 64 << 10}, // a group of nested maxima a part
	} {
		if testing.Short() && i%2 == 1 {
			continue
		}
		d := gputest.Device(t, gputest.WithLimits(gpu.Limits{BindingBytes: c.binding}))
		for _, software := range []bool{true, false} {
			for _, kept := range array.Bases[1:] {
				name := fmt.Sprintf("%d x %d x %d in %v, software %v", c.m, c.n, c.k, kept, software)
				p := newKeptProducts(t, d, software, kept, normal(c.n*c.k), normal(c.n*c.k), c.m, c.n, c.k)
				w, err := p.tree.Read(t.Context(), "h.0.w")
				require.NoError(t, err)
				table, err := p.tree.Read(t.Context(), "wte")
				require.NoError(t, err)
				whole := newKeptProducts(t, d, software, buffers.F32, w, table, c.m, c.n, c.k)
				right, got := whole.results(t, d), p.results(t, d)
				for i := range right {
					assert.Equal(t, right[i], got[i], "%s: %d", name, i)
				}
				copies := 0
				for _, cmd := range p.program.commands {
					if cmd.kernel != nil && strings.HasSuffix(cmd.kernel.Label, "_widen") {
						copies++
					}
				}
				leaf, _ := p.tree.Layout().Leaf("h.0.w")
				want := 1 + len(leaf.Parts) // of ln, one for two readers, and of what the sum reads
				if software && kept.Packed() && c.m >= copiedRows {
					want++
				}
				if c.k%4 == 0 || kept == buffers.BF16 {
					assert.Equal(t, want, copies, name)
				}
			}
		}
	}
}

// BenchmarkKeptProducts measures x w^T and dy w in each type that w may be kept in.
func BenchmarkKeptProducts(b *testing.B) {
	d := gputest.Device(b)
	for _, s := range [][3]int{{64, 576, 1536}, {256, 576, 1536}, {64, 2048, 8192}, {256, 2048, 8192}} {
		for _, kept := range []buffers.DType{buffers.F32, buffers.BF16, buffers.NF4} {
			b.Run(fmt.Sprintf("%dx%dx%d/%v", s[0], s[1], s[2], kept), func(b *testing.B) {
				p := newKeptProducts(b, d, true, kept, normal(s[1]*s[2]), normal(s[1]*s[2]), s[0], s[1], s[2])
				rec := d.Record("products")
				p.program.Record(rec)
				program, err := rec.Program(b.Context())
				require.NoError(b, err)
				defer program.Release()
				for b.Loop() {
					require.NoError(b, program.Submit(b.Context()))
					require.NoError(b, d.Wait(b.Context()))
				}
			})
		}
	}
}
