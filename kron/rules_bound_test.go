package kron

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers/prng"
)

// TestAlignedBound builds a matrix for a key: its eigenvector v of eigenvalue 1 has the same negative product with every row of
// draws, and the strongest row is as long in the direction of v as to cancel it in all four.
func TestAlignedBound(t *testing.T) {
	const n = 32
	key := prng.NewKey(3)
	random := draws(3, boundRows*n, 1)
	v := awayFrom(rowsOf(random, n))
	distance := -dot(random[:n], v)
	j := slices.Index(v, slices.Max(v))
	// A = v vᵀ + λ w wᵀ, w the part of the unit vector j that is orthogonal to v. The cosine between row j and v is
	// v_j/sqrt(v_j² + λ²(1-v_j²)); rows are scaled to a length of sqrt(n).
	cosine := distance / math.Sqrt(n)
	lambda := v[j] * math.Sqrt(1/(cosine*cosine)-1) / math.Sqrt(1-v[j]*v[j])
	w := make([]float64, n)
	for i := range w {
		w[i] = -v[j] * v[i]
	}
	w[j]++
	divide(w, math.Sqrt(dot(w, w)))
	a := make([]float64, n*n)
	for i := range a {
		a[i] = v[i/n]*v[i%n] + lambda*w[i/n]*w[i%n]
	}
	require.Less(t, lambda, 0.6)

	c := plain(Quad, n)
	assert.InDelta(t, lambda, twinBound(key, a, n, false, c), 0.01, "the largest eigenvalue is not seen")
	c.Rules.AlignedBound = true
	assert.InDelta(t, 1, twinBound(key, a, n, false, c), 1e-3)
}

// awayFrom is the unit vector that has the same, most negative product with each of the rows: the point nearest to 0 of the plane through
// them, turned round.
func awayFrom(rows [][]float64) []float64 {
	// Gram-Schmidt of the differences, then what is left of the first row.
	var base [][]float64
	for _, row := range append(slices.Clone(rows[1:]), rows[0]) {
		x := slices.Clone(row)
		if len(base) < len(rows)-1 {
			for i := range x {
				x[i] -= rows[0][i]
			}
		}
		for _, b := range base {
			along := dot(x, b)
			for i := range x {
				x[i] -= along * b[i]
			}
		}
		divide(x, math.Sqrt(dot(x, x)))
		base = append(base, x)
	}
	v := base[len(base)-1]
	for i := range v {
		v[i] = -v[i]
	}
	return v
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

// TestBoundIsALowerBound: never above the true norm, and near to it; with and without the rule.
func TestBoundIsALowerBound(t *testing.T) {
	for seed := range uint64(50) {
		n := 1 + int(seed%12)
		g := draws(100+seed, n*n, 1)
		gram := matmul(g, transpose(g, n, n), n)
		divide(gram, trace(gram, n))
		norm := math.Pow(trace(power(gram, n, 8), n), 1.0/256) // at least the norm, at most n^(1/256) times it
		for _, aligned := range []bool{false, true} {
			c := plain(Quad, 16)
			c.Rules.AlignedBound = aligned
			bound := twinBound(prng.NewKey(seed), gram, n, false, c)
			assert.LessOrEqual(t, bound, norm*(1+1e-12), "n %d", n)
			assert.Greater(t, bound, 0.8*norm, "n %d", n)
		}
	}
	assert.Zero(t, twinBound(prng.NewKey(1), make([]float64, 9), 3, false, plain(Quad, 4)))
	assert.Zero(t, twinBound(prng.NewKey(1), make([]float64, 9), 3, true, plain(Quad, 4)))
}

// power is a to the power of 2^k.
func power(a []float64, n, k int) []float64 {
	for range k {
		a = matmul(a, a, n)
	}
	return a
}

// TestTransposedGradients: with both sides drawing the same rows, a transposed gradient gives the transposed update.
func TestTransposedGradients(t *testing.T) {
	const m, n = 20, 18
	for _, method := range methods {
		difference := func(rules Rules) float64 {
			c := plain(method, 24)
			c.Rules = rules
			straight := newTwin(t, c, Leaf{Path: "w", Shape: []int{m, n}})
			turned := newTwin(t, c, Leaf{Path: "w", Shape: []int{n, m}})
			worst := 0.0
			for i := int64(1); i <= 10; i++ {
				g := draws(uint64(i), m*n, 1)
				a := step(t, straight, i, g)
				b := transpose(step(t, turned, i, transpose(g, m, n)), n, m)
				for k := range a {
					worst = max(worst, math.Abs(a[k]-b[k]))
				}
			}
			return worst
		}
		assert.Greater(t, difference(Rules{}), 1e-4, "%s: the two sides have other bounds", method)
		assert.Less(t, difference(Rules{AlignedBound: true}), 2e-6, "%s: rounding of factors to f32", method)
	}
}
