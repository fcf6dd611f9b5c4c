package inspect

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"gputrain/buffers/prng"
)

// rotation is a product of plane rotations: orthogonal, of side n.
func rotation(n int, seed uint64) []float64 {
	q, key := make([]float64, n*n), prng.NewKey(seed)
	for i := range n {
		q[i*n+i] = 1
	}
	for a := range n {
		for b := a + 1; b < n; b++ {
			angle := 6 * float64(key.Uniform(uint64(a*n+b)))
			sin, cos := math.Sincos(angle)
			for c := range n {
				x, y := q[a*n+c], q[b*n+c]
				q[a*n+c], q[b*n+c] = cos*x-sin*y, sin*x+cos*y
			}
		}
	}
	return q
}

// singular makes U diag(s) V of given singular values.
func singular(s []float64, seed uint64) []float64 {
	n := len(s)
	u, v, out := rotation(n, seed), rotation(n, seed+1), make([]float64, n*n)
	for r := range n {
		for c := range n {
			for k := range n {
				out[r*n+c] += u[r*n+k] * s[k] * v[k*n+c]
			}
		}
	}
	return out
}

func TestCondition(t *testing.T) {
	hilbert := make([]float64, 16)
	for i := range hilbert {
		hilbert[i] = 1 / float64(i/4+i%4+1)
	}
	assert.InEpsilon(t, 15513.738738929, condition(hilbert, 4), 1e-3, "published")
	for name, s := range map[string][]float64{
		"one": {3}, "equal": {2, 2, 2, 2, 2}, "apart": {5, 4, 3, 1, 0.01}, "near": {1, 0.99, 0.98, 0.5, 0.499}, "far": {1e5, 1, 1e-5}, "small": {1e-12, 2e-12, 4e-12},
	} {
		want := 0.0
		for _, a := range s {
			for _, b := range s {
				want = max(want, a/b)
			}
		}
		got := condition(singular(s, 3), len(s))
		assert.LessOrEqual(t, got, want*(1+1e-6), "%s: from below", name)
		assert.InEpsilon(t, want, got, 0.01, name)
	}
	assert.InDelta(t, 1, condition(singular([]float64{7}, 1), 1), 1e-12)
	assert.True(t, math.IsInf(condition(make([]float64, 9), 3), 1))
	assert.True(t, math.IsInf(condition([]float64{1, 2, 2, 4}, 2), 1))
	assert.InDelta(t, 1, condition([]float64{0, 1, 1, 0}, 2), 1e-9, "a zero on the diagonal is exchanged")
}
