package kron

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/buffers/prng"
	"gputrain/gpu"
	"gputrain/internal/gputest"
)

// gramOf is a symmetric positive semidefinite matrix of a size, with a strongest direction.
func gramOf(r *rand.Rand, n int, scale float64) []float64 {
	a := randomMatrices(r, n*n, buffers.F32)
	for i := range n {
		a[i] *= 3
	}
	out := matmul(a, transpose(a, n, n), n)
	for i := range out {
		out[i] = float64(float32(out[i] * scale))
	}
	return out
}

func skewOf(r *rand.Rand, n int, scale float64) []float64 {
	a := randomMatrices(r, n*n, buffers.F32)
	out := transpose(a, n, n)
	for i := range out {
		out[i] = float64(float32((out[i] - a[i]) * scale))
	}
	return out
}

// stackOf pads matrices of side n to a stack.
func stackOf(t testing.TB, d *gpu.Device, n int, matrices ...[]float64) Stack {
	side := roundUp(n, 4)
	data := make([]float64, len(matrices)*side*side)
	for i, m := range matrices {
		for k, x := range m {
			data[(i*side+k/n)*side+k%n] = x
		}
	}
	return uploadStack(t, d, len(matrices), side, side, buffers.F32, data)
}

func rangeOf(t testing.TB, d *gpu.Device, words ...float64) Stack {
	return uploadStack(t, d, 1, 1, len(words), buffers.F32, words)
}

func TestBoundFollowsTheTwin(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for _, n := range gputest.Some(t, d, gputest.Rows([]int{33, 3, 8, 21, 1, 64, 130, 100}, 2)) {
			for _, config := range []Config{
				{BlockSize: max(n, 16), DType: buffers.F32},
				{BlockSize: max(n, 16), DType: buffers.F32, Rules: Rules{AlignedBound: true}},
				{BlockSize: max(n, 16), DType: buffers.BF16, Rules: Rules{AlignedBound: true}},
			} {
				r := rand.New(rand.NewPCG(uint64(n), 5))
				matrices := [][]float64{gramOf(r, n, 1), gramOf(r, n, 1e-27), make([]float64, n*n), gramOf(r, n, 1e30)}
				skews := [][]float64{skewOf(r, n, 1), skewOf(r, n, 1e-28), make([]float64, n*n), skewOf(r, n, 1e30)}
				var keys []prng.Key
				for i := range matrices {
					keys = append(keys, prng.NewKey(uint64(i)).FoldIn(7))
				}
				table := d.NewSet("test")
				given := table.Filled("keys", keys)
				require.NoError(t, table.Err())
				for _, skew := range []bool{false, true} {
					if skew {
						matrices = skews
					}
					out := rangeOf(t, d, 0, 0, 0, 0)
					side := stackOf(t, d, n, matrices...)
					rec := d.Record("test")
					b := bounding{t: side, skew: skew, keys: given.All(), bounds: out.Range}
					b.record(rec, d, config)
					require.NoError(t, rec.Submit(t.Context()))
					got := downloadStack(t, d, out)
					for i, m := range matrices {
						want := twinBound(keys[i], m, n, skew, config)
						// Seven products of n terms, six quotients: some 1e-6; nothing amplifies.
						assert.True(t, math.Abs(got[i]-want) <= 2e-5*want, "n %d skew %v matrix %d: %g, want %g", n, skew, i, got[i], want)
					}
				}
				table.Release()
			}
		}
	})
}

// TestBoundBeginsWithTheFirstOfEqualRows, whichever invocation has it: two equal blocks, whose strongest rows are 40 and 150.
func TestBoundBeginsWithTheFirstOfEqualRows(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		if gputest.Again(t, d) {
			t.Skip("skipped, as Mesa takes ten seconds for so many rows in a workgroup's memory on OpenGL")
		}
		const half, n = 110, 220
		r := rand.New(rand.NewPCG(8, 9))
		a := randomMatrices(r, half*half, buffers.F32)
		for i := range half {
			a[40*half+i] *= 2
		}
		b := matmul(a, transpose(a, half, half), half)
		m, narrow := make([]float64, n*n), make([]float32, n*n)
		for i := range half {
			for k := range half {
				x := float32(b[i*half+k])
				narrow[i*n+k], narrow[(i+half)*n+k+half] = x, x
				m[i*n+k], m[(i+half)*n+k+half] = float64(x), float64(x)
			}
		}
		key := prng.NewKey(5)
		got, err := Bounds(t.Context(), d, [][]float32{narrow}, n, []prng.Key{key}, false)
		require.NoError(t, err)
		assert.InEpsilon(t, twinBound(key, m, n, false, Config{BlockSize: n}), got[0], 3e-6, "from row 150 it is 1.6e-5 more")
	})
}

// TestBoundInStorage has rows that do not fit the memory of a workgroup.
func TestBoundInStorage(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for _, n := range []int{37, 64} {
			r := rand.New(rand.NewPCG(3, 4))
			matrices, keys := [][]float32(nil), []prng.Key(nil)
			for i := range 5 {
				matrices, keys = append(matrices, narrowed(gramOf(r, n, 1))), append(keys, prng.NewKey(uint64(i)))
			}
			got, err := Bounds(t.Context(), d, matrices, n, keys, false)
			require.NoError(t, err)
			for i, m := range matrices {
				assert.InEpsilon(t, twinBound(keys[i], widened(m), n, false, Config{BlockSize: n}), got[i], 2e-5)
			}
		}
	}, gputest.WithLimits(gpu.Limits{WorkgroupBytes: 1024, Workgroups: 3}))
}

func TestProcrustesFollowsTheTwin(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for _, n := range gputest.Some(t, d, []int{33, 3, 16, 1, 70}) {
			r := rand.New(rand.NewPCG(uint64(n), 6))
			random := randomMatrices(r, n*n, buffers.F32)
			symmetric := gramOf(r, n, 1)
			small := gramOf(r, n, 1)
			for i := range small {
				small[i] = float64(float32(small[i] + 0.01*random[i]))
			}
			turned := make([]float64, n*n) // a rotation by a quarter in each pair: no symmetric part at all
			for i := 0; i+1 < n; i += 2 {
				turned[i*n+i+1], turned[(i+1)*n+i] = 1, -1
			}
			cases := [][]float64{random, symmetric, small, turned, make([]float64, n*n)}
			matrices, keys := [][]float32(nil), []prng.Key(nil)
			for i, m := range cases {
				matrices, keys = append(matrices, narrowed(m)), append(keys, prng.NewKey(uint64(i)))
			}
			got, err := Procrustes(t.Context(), d, matrices, n, keys)
			require.NoError(t, err)
			for i, m := range cases {
				requireNear(t, fmt.Sprintf("n %d matrix %d", n, i), widened(got[i]), procrustesTwin(keys[i], m, n, Config{BlockSize: n}), 3e-5)
			}
		}
	})
}

func TestUnitsRefuse(t *testing.T) {
	d := gpu.Dry(gpu.Limits{})
	_, err := Bounds(t.Context(), d, [][]float32{{1}}, 1, nil, false)
	assert.ErrorContains(t, err, "a key for each")
	_, err = Procrustes(t.Context(), d, [][]float32{{1}}, 2, make([]prng.Key, 1))
	assert.ErrorContains(t, err, "1 elements, wanted 4")
}
