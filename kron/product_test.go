package kron

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/buffers/array"
	"gputrain/gpu"
	"gputrain/internal/gputest"
)

// sentinel lies after every stack of a test.
const sentinel = 12345.5

// uploadStack puts matrices, rounded to the type, into a buffer with a few sentinels after them.
func uploadStack(t testing.TB, d *gpu.Device, count, rows, cols int, dtype buffers.DType, data []float64) Stack {
	s := Stack{Count: count, Rows: rows, Cols: cols, DType: dtype}
	var raw []byte
	for i := range count*rows*cols + 4 {
		x := float32(sentinel)
		if i < len(data) {
			x = float32(data[i])
		}
		if dtype == buffers.BF16 {
			raw = binary.LittleEndian.AppendUint16(raw, array.EncodeBF16(x))
		} else {
			raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
		}
	}
	b, err := d.NewBuffer("test", uint64(len(raw)))
	require.NoError(t, err)
	t.Cleanup(b.Release)
	require.NoError(t, d.Write(b.All(), raw))
	s.Range = b.All()
	return s
}

// downloadStack reads matrices back, and that what lies after them is untouched.
func downloadStack(t testing.TB, d *gpu.Device, s Stack) []float64 {
	raw := make([]byte, s.Range.Buffer.Bytes())
	require.NoError(t, d.Read(t.Context(), raw, s.Range.Buffer.All()))
	var out []float64
	for _, x := range array.Decoded(s.DType, raw) {
		out = append(out, float64(x))
	}
	for _, x := range out[s.elements():] {
		require.Equal(t, float64(float32(nearestTo(s.DType, sentinel))), x, "behind the last matrix")
	}
	return out[:s.elements()]
}

func nearestTo(dtype buffers.DType, x float64) float64 { return Config{DType: dtype}.nearest(x) }

func randomMatrices(r *rand.Rand, n int, dtype buffers.DType) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = nearestTo(dtype, r.NormFloat64())
	}
	return out
}

// productTwin is C = alpha op(A) op(B) + beta D of one matrix each.
func productTwin(p Product, a, b, d []float64, alpha, beta float64) []float64 {
	if p.TransA {
		a = transpose(a, p.A.Rows, p.A.Cols)
	}
	if p.TransB {
		b = transpose(b, p.B.Rows, p.B.Cols)
	}
	out := matmul(a, b, p.C.Rows)
	for i := range out {
		out[i] *= alpha
		if d != nil {
			out[i] += beta * d[i]
		}
	}
	return out
}

func matrixOf(s Stack, data []float64, i int) []float64 {
	if s.Count == 1 {
		i = 0
	}
	size := s.Rows * s.Cols
	return data[i*size : (i+1)*size]
}

// requireNear compares with a tolerance in relation to the largest number.
func requireNear(t testing.TB, where string, got, want []float64, tolerance float64) {
	t.Helper()
	require.Len(t, got, len(want), where)
	size := largest(want)
	for i, w := range want {
		if diff := math.Abs(got[i] - w); !(diff <= tolerance*size) {
			require.Failf(t, "too far", "%s[%d]: found %g, wanted %g, allowed %g", where, i, got[i], w, tolerance*size)
		}
	}
}

// variantsOf are the adapter's own variant and the GPUs' variants; OpenGL takes seconds to compile each, so there the
// first will do.
func variantsOf(d *gpu.Device) []*productVariant {
	all := []*productVariant{nil, {tile: 1, lanes: 64}, {tile: 2, lanes: 64}}
	for _, r := range []gpu.Registers{{Budget: 256}, {}} {
		all = append(all, &productVariant{tile: 2, lanes: 64, workgroup: true, made: r.ProductTile(64)})
	}
	if d.Adapter().Backend == "gl" {
		return all[:1]
	}
	return all
}

// zero clears the matrices of a stack.
func zero(t testing.TB, d *gpu.Device, s Stack) {
	require.NoError(t, d.Write(s.bound(), make([]byte, s.bytes())))
}

func TestProduct(t *testing.T) {
	const f32, bf16 = buffers.F32, buffers.BF16
	type form struct {
		count, m, n, k int
		transA, transB bool
		add, each      bool             // D; coefficients a matrix
		types          [4]buffers.DType // of A, B, C, D
		single         bool             // one B for all
	}
	forms := []form{
		{count: 1, m: 4, n: 4, k: 4},
		{count: 3, m: 12, n: 20, k: 8, add: true},
		{count: 5, m: 20, n: 12, k: 28, transA: true, each: true},
		{count: 2, m: 36, n: 8, k: 4, transB: true, add: true, each: true},
		{count: 9, m: 48, n: 32, k: 16, single: true},
		{count: 3, m: 64, n: 80, k: 20, types: [4]buffers.DType{f32, bf16, f32, bf16}, add: true, each: true},
		{count: 3, m: 16, n: 8, k: 20, types: [4]buffers.DType{bf16, bf16, bf16, f32}, transA: true},
		{count: 2, m: 24, n: 8, k: 12, types: [4]buffers.DType{bf16, bf16, bf16, f32}, transB: true, add: true},
	}
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for _, f := range gputest.Some(t, d, forms) {
			t.Run(fmt.Sprintf("%+v", f), func(t *testing.T) {
				r := rand.New(rand.NewPCG(1, 2))
				p := Product{TransA: f.transA, TransB: f.transB, Alpha: 0.5, Beta: -2}
				rows := func(trans bool, rows, cols int) (int, int) {
					if trans {
						return cols, rows
					}
					return rows, cols
				}
				am, ak := rows(f.transA, f.m, f.k)
				bk, bn := rows(f.transB, f.k, f.n)
				bs := f.count
				if f.single {
					bs = 1
				}
				a, b := randomMatrices(r, f.count*am*ak, f.types[0]), randomMatrices(r, bs*bk*bn, f.types[1])
				p.A, p.B = uploadStack(t, d, f.count, am, ak, f.types[0], a), uploadStack(t, d, bs, bk, bn, f.types[1], b)
				p.C = uploadStack(t, d, f.count, f.m, f.n, f.types[2], nil)
				var added []float64
				if f.add {
					added = randomMatrices(r, f.count*f.m*f.n, f.types[3])
					s := uploadStack(t, d, f.count, f.m, f.n, f.types[3], added)
					p.D = &s
				}
				coefficients := randomMatrices(r, 2*f.count, f32)
				if f.each {
					p.Coefficients = uploadStack(t, d, 1, 2, f.count, f32, coefficients).Range
				}
				for _, p.as = range variantsOf(d) {
					rec := d.Record("test")
					p.Record(rec, d)
					require.NoError(t, rec.Submit(t.Context()))
					got := downloadStack(t, d, p.C)
					for i := range f.count {
						alpha, beta := 0.5, -2.0
						if f.each {
							alpha, beta = coefficients[2*i], coefficients[2*i+1]
						}
						var di []float64
						if f.add {
							di = matrixOf(*p.D, added, i)
						}
						want := productTwin(p, matrixOf(p.A, a, i), matrixOf(p.B, b, i), di, alpha, beta)
						// Sums of up to 28 terms in f32; bf16 has 8 bits.
						requireNear(t, fmt.Sprintf("matrix %d", i), matrixOf(p.C, got, i), want,
							map[buffers.DType]float64{f32: 4e-6, bf16: 0x1p-8}[f.types[2]])
					}
					zero(t, d, p.C)
				}
			})
		}
	})
}

func TestSymmetricProduct(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for _, n := range gputest.Rows(gputest.Some(t, d, []int{12, 4, 36, 68, 132}), 2) {
			for _, dtype := range []buffers.DType{buffers.F32, buffers.BF16} {
				for _, transA := range []bool{false, true} {
					if dtype == buffers.BF16 && transA {
						continue
					}
					const count, k = 3, 12
					r := rand.New(rand.NewPCG(uint64(n), 2))
					a, added := randomMatrices(r, count*n*k, buffers.F32), randomMatrices(r, count*n*n, buffers.F32)
					p := Product{TransA: transA, TransB: !transA, Symmetric: true, Alpha: 0.25, Beta: 2}
					rows, cols := n, k
					if transA {
						rows, cols = k, n
					}
					p.A = uploadStack(t, d, count, rows, cols, buffers.F32, a)
					p.B = p.A
					p.C = uploadStack(t, d, count, n, n, dtype, nil)
					s := uploadStack(t, d, count, n, n, buffers.F32, added)
					p.D = &s
					for _, p.as = range variantsOf(d) {
						rec := d.Record("test")
						p.Record(rec, d)
						require.NoError(t, rec.Submit(t.Context()))
						got := downloadStack(t, d, p.C)
						for i := range count {
							want := productTwin(p, matrixOf(p.A, a, i), matrixOf(p.B, a, i), matrixOf(s, added, i), 0.25, 2)
							m := matrixOf(p.C, got, i)
							for r := range n { // what lies below the diagonal counts from above
								for c := range r {
									want[r*n+c] = want[c*n+r]
								}
							}
							requireNear(t, fmt.Sprintf("%d %s", n, dtype), m, want, map[buffers.DType]float64{buffers.F32: 4e-6, buffers.BF16: 0x1p-8}[dtype])
							assert.Equal(t, m, transpose(m, n, n), "symmetric to the last bit")
						}
						zero(t, d, p.C)
					}
				}
			}
		}
	})
}

func TestNearTellsOneElement(t *testing.T) {
	for _, got := range []float64{2.001, math.NaN(), math.Inf(1)} {
		assert.True(t, gputest.Fails(t, func(t testing.TB) { requireNear(t, "", []float64{1, got}, []float64{1, 2}, 1e-4) }), got)
	}
}

func TestProductRefuses(t *testing.T) {
	d := gpu.Dry(gpu.Limits{})
	b, err := d.NewBuffer("a", 4096)
	require.NoError(t, err)
	c, err := d.NewBuffer("c", 4096)
	require.NoError(t, err)
	in, out := Stack{Range: b.All(), Count: 2, Rows: 8, Cols: 12}, Stack{Range: c.All(), Count: 2, Rows: 8, Cols: 8}
	ok := Product{A: in, B: in, C: out, TransB: true, Alpha: 1}
	rec := d.Record("test")
	ok.Record(rec, d)
	require.NoError(t, rec.Err())
	for name, change := range map[string]func(*Product){
		"times":           func(p *Product) { p.TransB = false },
		"at most one":     func(p *Product) { p.TransA = true },
		"multiples of 4":  func(p *Product) { p.A.Rows = 6 },
		"3 matrices":      func(p *Product) { p.A.Count = 3 },
		"wanted 1536":     func(p *Product) { p.A.Count, p.C.Count, p.B.Count = 4, 4, 4; p.A.Range.Bytes = 768 },
		"D: [8, 12]":      func(p *Product) { p.D = &in },
		"but C is":        func(p *Product) { p.B.Rows, p.C.Cols = 4, 4; p.Symmetric = true },
		"coefficients: 8": func(p *Product) { p.Coefficients = b.Range(0, 8) },
		"dtype i32":       func(p *Product) { p.C.DType = buffers.I32 },
		"bind both":       func(p *Product) { p.C.Range = b.All() },
	} {
		p := ok
		change(&p)
		rec := d.Record("test")
		p.Record(rec, d)
		assert.ErrorContains(t, rec.Err(), name, name)
	}
}

// BenchmarkProduct has one 1024^3 product, and what a refresh does with 64 blocks of 128: full and symmetric.
func BenchmarkProduct(b *testing.B) {
	d := gputest.Device(b)
	for _, f := range []struct {
		name           string
		count, n       int
		transA, transB bool
		symmetric      bool
	}{
		{"1024", 1, 1024, false, false, false},
		{"64x128 nn", 64, 128, false, false, false},
		{"64x128 nt symmetric", 64, 128, false, true, true},
		{"64x128 tn symmetric", 64, 128, true, false, true},
		{"1024x32 nn", 1024, 32, false, false, false},
	} {
		b.Run(f.name, func(b *testing.B) {
			a := uploadStack(b, d, f.count, f.n, f.n, buffers.F32, nil)
			c := uploadStack(b, d, f.count, f.n, f.n, buffers.F32, nil)
			p := Product{A: a, B: a, C: c, TransA: f.transA, TransB: f.transB, Symmetric: f.symmetric, Alpha: 1e-3}
			rec := d.Record("bench")
			p.Record(rec, d)
			program, err := rec.Program(b.Context())
			require.NoError(b, err)
			defer program.Release()
			run := func() {
				require.NoError(b, program.Submit(b.Context()))
				require.NoError(b, d.Wait(b.Context()))
			}
			run()
			for b.Loop() {
				run()
			}
			b.ReportMetric(2*float64(f.count*f.n*f.n*f.n)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
		})
	}
}
