package compile

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/buffers/array"
	"gputrain/gpu"
	"gputrain/graph"
)

const (
	sentinel    = 3.5 // around C, and in it before the product
	productEdge = 64  // elements before and after C
)

// productMatrix is an operand on the host, as it lies.
type productMatrix struct {
	data []float64
	row  int
}

func newProductMatrix(rng *rand.Rand, rows, cols int, transposed bool) productMatrix {
	if transposed {
		rows, cols = cols, rows
	}
	x := productMatrix{row: cols, data: make([]float64, rows*cols)}
	for i := range x.data {
		x.data[i] = float64(float32(rng.NormFloat64()))
	}
	return x
}

func (x productMatrix) at(transposed bool, i, j int) float64 {
	if transposed {
		i, j = j, i
	}
	return x.data[i*x.row+j]
}

// productRun is one gemm in a program of its own, without a graph.
type productRun struct {
	a, b    productMatrix
	out     *storage
	sums    *storage // of B's columns, if they are wanted, and what is behind them
	program *Program
}

// limitsAs are those of a device with the variants of software adapters or of GPUs.
func limitsAs(d *gpu.Device, software bool) gpu.Limits {
	lim := d.Limits()
	if lim.Software = software; !software {
		lim.TexelBindings = 0
	}
	return lim
}

// newProductRun takes the table's variant of a kind of adapter, or the one given.
func newProductRun(t testing.TB, d *gpu.Device, rng *rand.Rand, cpu bool, form [2]bool, s [3]int, accumulate bool, as ...gemmVariant) productRun {
	t.Helper()
	return newProductOf(t, d, rng, cpu, form, s, func(g *gemm) { g.accumulate = accumulate }, as...)
}

// newProductOf is a product that differs from a plain one by what set says; sums that it wants are given a place.
func newProductOf(t testing.TB, d *gpu.Device, rng *rand.Rand, cpu bool, form [2]bool, s [3]int, set func(*gemm), as ...gemmVariant) productRun {
	t.Helper()
	m, n, k := s[0], s[1], s[2]
	r := productRun{a: newProductMatrix(rng, m, k, form[0]), b: newProductMatrix(rng, k, n, form[1])}
	c, err := newCompiler(graph.New(), nil, limitsAs(d, cpu))
	require.NoError(t, err)
	c.dev, c.group = d, "test"
	place := func(label string, elements int) Span {
		st := c.newStorage(outputStorage, label, uint64(4*elements))
		return Span{st: st, Bytes: st.bytes}
	}
	a, b, out := place("a", len(r.a.data)+productEdge), place("b", len(r.b.data)+productEdge), place("c", m*n+2*productEdge)
	r.out = out.st
	g := gemm{
		m: m, n: n, k: k, count: 1, transA: form[0], transB: form[1],
		a: operand{span: a, row: r.a.row}, b: operand{span: b, row: r.b.row}, c: operand{span: out, offset: productEdge, row: n},
	}
	set(&g)
	if g.sums != nil {
		at := place("sums", n+productEdge)
		r.sums, g.sums = at.st, &Tensor{Parts: []Part{{Rows: 1, Span: at}}, Accumulate: g.sums.Accumulate}
	}
	if len(as) == 0 {
		as = append(as, c.chooseGemm(g))
	}
	c.gemmAs(g, as[0])
	c.allocate()
	require.NoError(t, c.err)
	r.program, err = newProgram(context.Background(), c, Options{})
	require.NoError(t, err)
	t.Cleanup(r.program.Release)
	fill := make([]float64, m*n+2*productEdge)
	for i := range fill {
		fill[i] = sentinel
	}
	filled := map[*storage][]float64{a.st: r.a.data, b.st: r.b.data, out.st: fill}
	if r.sums != nil {
		filled[r.sums] = slices.Repeat([]float64{sentinel}, n+productEdge)
	}
	for st, data := range filled {
		raw := bytes.Repeat([]byte{0, 0, 0xc0, 0x7f}, int(st.bytes)/4) // NaN behind the operands
		for i, v := range data {
			if st.half {
				binary.LittleEndian.PutUint16(raw[2*i:], array.EncodeF16(float32(v)))
				continue
			}
			binary.LittleEndian.PutUint32(raw[4*i:], math.Float32bits(float32(v)))
		}
		require.NoError(t, d.Write(r.program.ranges[st], raw))
	}
	return r
}

// run submits the product once and reads C with what is around it.
func (r productRun) run(t testing.TB, d *gpu.Device) []float64 {
	t.Helper()
	rec := d.Record("product")
	r.program.Record(rec)
	require.NoError(t, rec.Submit(context.Background()), rec.String())
	return r.read(t, d, r.out)
}

// read is what lies in a storage of the program.
func (r productRun) read(t testing.TB, d *gpu.Device, st *storage) []float64 {
	t.Helper()
	raw := make([]byte, st.bytes)
	require.NoError(t, d.Read(context.Background(), raw, r.program.ranges[st]))
	out := make([]float64, len(raw)/4)
	for i := range out {
		out[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])))
	}
	return out
}

// The table is a function of the shape; what it chooses for the shapes that matter is written down here.
func TestGemmVariants(t *testing.T) {
	c := &Compiler{limits: gpu.Limits{Software: true}}
	big := gemm{m: 1024, n: 384, k: 128, count: 1}
	big.a.row, big.b.row, big.c.row = 128, 384, 384
	v := c.chooseGemm(big)
	require.Equal(t, gemmVariant{file: "matmul", tileM: 16, tileN: 128, rows: 16, cols: 4, wx: 8, wy: 1}, v)
	long := gemm{m: 128, n: 128, k: 1024, count: 1, transA: true}
	require.Equal(t, 4, c.slices(long))
	c.limits.TexelBindings = 8
	require.Equal(t, 1, c.slices(long), "eight tiles are enough for the cores of a software adapter")
	long.m = 32
	require.Equal(t, 4, c.slices(long))
}

// On a GPU large products take the large tile, as it halves the traffic, and small ones what fills 40 compute units, of two SIMDs each.
func TestGemmModel(t *testing.T) {
	c := &Compiler{limits: gpu.DefaultLimits()}
	product := func(m, n, k int) gemm {
		g := gemm{m: m, n: n, k: k, count: 1}
		g.a.row, g.b.row, g.c.row = k, n, n
		return g
	}
	for _, large := range []gemm{product(8192, 2304, 768), product(8192, 768, 3072), product(1024, 50260, 768), product(4096, 4096, 4096)} {
		require.Equal(t, tiled(128), c.chooseGemm(large), "%d x %d x %d", large.m, large.n, large.k)
		require.Equal(t, 1, c.slices(large))
	}
	for _, small := range []gemm{product(128, 128, 1024), product(128, 384, 1024), product(1024, 128, 512), product(128, 512, 1024)} {
		v, slices := c.chooseGemm(small), c.slices(small)
		require.Equal(t, "matmul_tiled", v.file)
		groups := int(tiles(small.m, v.tileM)) * int(tiles(small.n, v.tileN)) * slices
		require.GreaterOrEqual(t, groups, 80, "%d x %d x %d: a workgroup for each SIMD", small.m, small.n, small.k)
	}
	require.Equal(t, tiled(32), c.chooseGemm(product(1024, 128, 128)), "32 tiles of 64 x 64, 128 of these")
	for rows, checked := range map[int]gemm{32: product(70, 132, 68), 64: product(388, 516, 16), 128: product(516, 900, 8)} {
		require.Equal(t, tiled(rows), c.chooseGemm(checked), "in matMulChecks")
	}
	require.Equal(t, 1, c.chooseGemm(product(1, 384, 128)).rows)
	require.Equal(t, "matmul_scalar", c.chooseGemm(product(1024, 383, 128)).file)

	batch := product(128, 128, 1024)
	batch.count = 12
	require.Equal(t, 1, c.slices(batch), "of one product only")
	c.limits.BindingBytes, c.chosen = 128*128*4*3, nil
	require.LessOrEqual(t, c.slices(product(128, 128, 1024)), 3, "what a binding holds")
	c.limits.Invocations, c.chosen = 128, nil
	require.Equal(t, tiled(64), c.chooseGemm(product(4096, 4096, 4096)))
}

// checkAs is twin.check for a graph without params, with the variants of software adapters or of GPUs.
func (w *twin) checkAs(t *testing.T, d *gpu.Device, cpu bool, tolerance float64) {
	t.Helper()
	var targets []Target
	for i, v := range w.values {
		targets = append(targets, Target{Name: fmt.Sprint(i), Value: v})
	}
	p, err := newFor(context.Background(), d, w.graph, Options{Targets: targets}, limitsAs(d, cpu))
	require.NoError(t, err)
	t.Cleanup(p.Release)
	for name, typ := range p.Inputs() {
		w.write(t, p, name, typ)
	}
	rec := d.Record("test")
	p.Record(rec)
	require.NoError(t, rec.Submit(context.Background()), rec.String())
	want, err := graph.Eval(w.graph, w.feeds, w.values...)
	require.NoError(t, err)
	for i, v := range w.values {
		requireClose(t, fmt.Sprint(i), readRange(t, d, p.Output(fmt.Sprint(i)), v.Type().Elements()), want[i].Data, tolerance)
	}
}
