package kron

import (
	"math"

	"gputrain/buffers/prng"
)

// tiny is a bound that a divisor has to exceed; f32 arithmetic on a device may take smaller numbers for zero.
const tiny = 1e-30

const (
	boundRows       = 4 // rows of the power iteration
	boundIterations = 5
)

// twinBound is a lower bound of the spectral norm of a matrix a [n, n], near to it in most cases, by power iteration: for a positive
// semidefinite one, or with skew for one whose transpose is its negative. Of c it takes BlockSize, DType and Rules.
//
//	σ = max diag(A), with skew max|A|; A ← A/σ;  a matrix with σ of zero has bound 0
//	j = the row with the largest mean square ms over BlockSize elements, the first of equals
//	x_i = (A_j/sqrt(ms) + r_i) A, for 4 rows r_i of draws (i, 0..BlockSize); with Rules.AlignedBound r_i has the sign of <r_i, A_j>
//	5 times:  x ← x/max|x| A, the maximum over all rows, with Rules.AlignedBound over each, which keeps small rows in range
//	max_i |x_i/|x_i| A| σ, norms of rows
func twinBound(key prng.Key, a []float64, n int, skew bool, c Config) float64 {
	sigma := largest(a)
	if !skew {
		sigma = 0
		for i := range n {
			sigma = max(sigma, a[i*n+i])
		}
	}
	if !(sigma > tiny) {
		return 0
	}
	scaled := make([]float64, len(a))
	for i := range a {
		scaled[i] = a[i] / sigma
	}
	squares := rowSquares(scaled, n)
	j := 0
	for i := range squares {
		if squares[i] > squares[j] {
			j = i
		}
	}
	strongest := scaled[j*n : (j+1)*n]
	meanSquare := squares[j] / float64(c.BlockSize)

	x := make([]float64, boundRows*n)
	for i := range boundRows {
		row := x[i*n : (i+1)*n]
		along := 0.0
		for k := range row {
			row[k] = c.normal(key, i*c.BlockSize+k)
			along += row[k] * strongest[k]
		}
		for k := range row {
			if c.Rules.AlignedBound && along < 0 {
				row[k] = -row[k]
			}
			row[k] += strongest[k] / math.Sqrt(meanSquare)
		}
	}
	x = matmul(x, scaled, boundRows)
	for range boundIterations {
		parts := [][]float64{x}
		if c.Rules.AlignedBound {
			parts = rowsOf(x, n)
		}
		for _, part := range parts {
			divide(part, largest(part))
		}
		x = matmul(x, scaled, boundRows)
	}
	for _, row := range rowsOf(x, n) {
		divide(row, math.Sqrt(rowSquares(row, 1)[0]))
	}
	x = matmul(x, scaled, boundRows)
	return sigma * math.Sqrt(largest(rowSquares(x, boundRows)))
}

// divide divides by what is not next to zero.
func divide(x []float64, by float64) {
	if !(by > tiny) {
		return
	}
	for i := range x {
		x[i] /= by
	}
}

// procrustesTwin turns q [n, n] towards a symmetric matrix by a rotation: one step of at most second order that raises its trace. Of c
// it takes what twinBound takes.
//
//	R = Qᵀ - Q; R ← R/max|R|; τ = tr(R Q);  no change where R is zero or τ not more than 0
//	a = 1/(8 Bound(R));  τ₂ = tr(R R Q); where τ₂ < 0, a ← min(a, -τ/τ₂)
//	Q ← Q + a (R Q + a/2 R R Q)
func procrustesTwin(key prng.Key, q []float64, n int, c Config) []float64 {
	r := transpose(q, n, n)
	for i := range r {
		r[i] -= q[i]
	}
	size := largest(r)
	if !(size > tiny) {
		return q
	}
	divide(r, size)
	rq := matmul(r, q, n)
	along, bound := trace(rq, n), twinBound(key, r, n, true, c)
	if !(along > 0 && bound > tiny) {
		return q
	}
	rrq := matmul(r, rq, n)
	a := 1.0 / 8 / bound
	if curve := trace(rrq, n); curve < 0 {
		a = min(a, -along/curve)
	}
	out := make([]float64, len(q))
	for i := range q {
		out[i] = q[i] + a*(rq[i]+a/2*rrq[i])
	}
	return out
}
