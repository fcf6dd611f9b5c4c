package compile

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"gputrain/buffers/array"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/internal/gputest"
)

// unitBench is a way to make a product by units.
type unitBench struct {
	name         string
	halves       bool
	tileM, tileN int
	step         int
	turns        bool
	prefetch     bool
	twice        bool
}

// unitBenches are of operands in f32, as they lie and turned on their way in, then of operands in f16, by tile.
func unitBenches() []unitBench {
	all := []unitBench{
		{name: "f32_128x128_turned", tileM: 128, tileN: 128, step: 32, turns: true},
		{name: "f32_128x128", tileM: 128, tileN: 128, step: 32},
		{name: "f32_128x128_prefetch", tileM: 128, tileN: 128, step: 32, prefetch: true},
		{name: "f16_128x128_step64_prefetch", halves: true, tileM: 128, tileN: 128, step: 64, prefetch: true},
	}
	for _, tile := range [][2]int{{128, 128}, {128, 192}, {128, 256}, {64, 128}} {
		b := unitBench{name: fmt.Sprintf("f16_%dx%d", tile[0], tile[1]), halves: true, tileM: tile[0], tileN: tile[1], step: 32}
		ahead, twice := b, b
		ahead.name, ahead.prefetch = b.name+"_prefetch", true
		twice.name, twice.prefetch, twice.twice = b.name+"_twice", true, true
		if tile[1] == 256 {
			twice.step = 16 // two buffers fit 48 KiB
		}
		all = append(all, b, ahead, twice)
	}
	return all
}

// BenchmarkUnits holds products by matrix units, of each form and tile, to sums in float64, and times them. On an H100 all of it takes half a minute; it ends by
// itself after one.
func BenchmarkUnits(b *testing.B) {
	d := gputest.Device(b, func(o *gpu.Options) { o.Matrix = true })
	plain, ok := units(d.Limits())
	if !ok {
		b.Skip("skipped, needs an adapter with matrix units")
	}
	shapes := [][3]int{{4096, 4096, 4096}, {4096, 2304, 768}, {4096, 768, 768}, {4096, 768, 3072}, {768, 3072, 4096}, {1024, 1024, 1024}}
	if d.Limits().Software {
		shapes = [][3]int{{64, 48, 96}}
	}
	start := time.Now()
	for _, s := range shapes {
		for _, form := range forms {
			u := newUnitProducts(b, d, form, s)
			for _, as := range unitBenches() {
				v := plain
				v.tileM, v.tileN = as.tileM, as.tileN
				if d.Limits().Software { // as many subgroups, of small tiles
					v.tileM, v.tileN = as.tileM/64*v.matrix.down*v.matrix.unit.M, as.tileN/64*v.matrix.across*v.matrix.unit.N
				}
				v.matrix.step, v.matrix.turns, v.matrix.prefetch, v.matrix.twice = as.step, as.turns, as.prefetch, as.twice
				if !v.fits(d.Limits()) {
					b.Logf("%s does not fit", as.name)
					continue
				}
				groups := int(tiles(s[0], v.tileM)) * int(tiles(s[1], v.tileN))
				slices := []int{1}
				if n := min(s[2]/256, (132+groups/2)/groups); n > 1 {
					slices = append(slices, n)
				}
				for _, n := range slices {
					b.Run(fmt.Sprintf("%dx%dx%d/%s/%s/slices=%d", s[0], s[2], s[1], formName(form), as.name, n), func(b *testing.B) {
						if time.Since(start) > time.Minute {
							b.Skip("out of time")
						}
						u.bench(b, v, as.halves, (s[2]/n+31)/32*32)
					})
				}
			}
			u.release()
		}
	}
}

// unitProducts are operands on a device, of which products are made in many ways.
type unitProducts struct {
	d       *gpu.Device
	form    [2]bool
	s       [3]int
	a, b    productMatrix
	buffers map[string]*gpu.Buffer
}

func newUnitProducts(b *testing.B, d *gpu.Device, form [2]bool, s [3]int) *unitProducts {
	b.Helper()
	u := &unitProducts{d: d, form: form, s: s, buffers: map[string]*gpu.Buffer{}}
	rng := rand.New(rand.NewPCG(1, 4))
	some := newProductMatrix(rng, 61, 67, false).data
	matrix := func(rows, cols int, transposed bool) productMatrix {
		if transposed {
			rows, cols = cols, rows
		}
		x := productMatrix{row: cols, data: make([]float64, rows*cols)}
		for i := range x.data {
			x.data[i] = some[(i+i/cols)%len(some)]
		}
		return x
	}
	u.a, u.b = matrix(s[0], s[2], form[0]), matrix(s[2], s[1], form[1])
	place := func(name string, bytes int, raw []byte) {
		buffer, err := d.NewBuffer("gputrain.bench."+name, uint64(bytes))
		require.NoError(b, err)
		u.buffers[name] = buffer
		if raw != nil {
			require.NoError(b, d.Write(buffer.All(), raw))
		}
	}
	for name, x := range map[string]productMatrix{"a": u.a, "b": u.b} {
		whole, half := make([]byte, 4*len(x.data)), make([]byte, 2*len(x.data))
		for i, v := range x.data {
			binary.LittleEndian.PutUint32(whole[4*i:], math.Float32bits(float32(v)))
		}
		for i := range half {
			if i%2 == 0 {
				binary.LittleEndian.PutUint16(half[i:], array.EncodeF16(float32(x.data[i/2])))
			}
		}
		place(name, len(whole), whole)
		place(name+"16", len(half), half)
	}
	place("c", 4*s[0]*s[1], nil)
	place("slices", 16*s[0]*s[1], nil)
	return u
}

func (u *unitProducts) release() {
	for _, b := range u.buffers {
		b.Release()
	}
}

// bench records a product several times a program.
func (u *unitProducts) bench(b *testing.B, v gemmVariant, halves bool, depth int) {
	ctx, m, n, k := context.Background(), u.s[0], u.s[1], u.s[2]
	c, err := newCompiler(graph.New(), nil, limitsAs(u.d, false))
	require.NoError(b, err)
	c.dev, c.group = u.d, "test"
	place := func(label string, elements int) Span {
		st := c.newStorage(boundStorage, label, uint64(4*elements))
		return Span{st: st, Bytes: st.bytes}
	}
	g := gemm{
		m: m, n: n, k: k, count: 1, transA: u.form[0], transB: u.form[1], f16: true,
		a: operand{span: place("a", m*k), row: u.a.row}, b: operand{span: place("b", k*n), row: u.b.row}, c: operand{span: place("c", m*n), row: n},
	}
	bind := map[string]gpu.Range{"c": u.buffers["c"].All()}
	for name, o := range map[string]*operand{"a": &g.a, "b": &g.b} {
		bind[name] = u.buffers[name].All()
		if o.span.st.half = halves; halves {
			o.span.st.bytes /= 2
			o.span.Bytes /= 2
			bind[name] = u.buffers[name+"16"].All()
		}
	}
	const times = 8
	for range times {
		c.gemmAlong(g, v, depth, []gemm{g})
	}
	c.allocate()
	require.NoError(b, c.err)
	p, err := newProgram(ctx, c, Options{Bind: bind})
	require.NoError(b, err)
	defer p.Release()
	rec := u.d.Record("bench")
	p.Record(rec)
	program, err := rec.Program(ctx)
	require.NoError(b, err)
	defer program.Release()
	run := func() {
		require.NoError(b, program.Submit(ctx))
		require.NoError(b, u.d.Wait(ctx))
	}
	run()
	u.check(b)
	for b.Loop() {
		run()
	}
	b.ReportMetric(2*times*float64(m)*float64(n)*float64(k)*float64(b.N)/b.Elapsed().Seconds()/1e12, "TFLOP/s")
	b.ReportMetric(0, "ns/op")
}

// check compares elements of a few rows of C with sums in float64.
func (u *unitProducts) check(b *testing.B) {
	m, n, k := u.s[0], u.s[1], u.s[2]
	raw := make([]byte, 4*n)
	for _, i := range []int{0, m/2 + 5, m - 1} {
		require.NoError(b, u.d.Read(context.Background(), raw, u.buffers["c"].Range(uint64(4*n*i), uint64(4*n))))
		for j := i % 7; j < n; j += 1 + n/24 {
			sum, size := 0.0, 0.0
			for l := range k {
				p := halfOf(u.a.at(u.form[0], i, l)) * halfOf(u.b.at(u.form[1], l, j))
				sum, size = sum+p, size+math.Abs(p)
			}
			if x := float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[4*j:]))); !(math.Abs(x-sum) <= float64(k+1)*0x1p-24*size) {
				b.Fatalf("C[%d,%d]: found %g, wanted %g", i, j, x, sum)
			}
		}
	}
}
