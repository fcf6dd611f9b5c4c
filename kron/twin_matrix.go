package kron

import (
	"math"
	"slices"
)

// Matrices are row-major.

// matmul is a [rows, k] times b [k, any].
func matmul(a, b []float64, rows int) []float64 {
	inner := len(a) / rows
	cols := len(b) / inner
	out := make([]float64, rows*cols)
	for i := range rows {
		sum := out[i*cols : (i+1)*cols]
		for k, x := range a[i*inner : (i+1)*inner] {
			for j, y := range b[k*cols : (k+1)*cols] {
				sum[j] += x * y
			}
		}
	}
	return out
}

func transpose(a []float64, rows, cols int) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i%cols*rows+i/cols] = a[i]
	}
	return out
}

// half is (a + b)/2.
func half(a, b []float64) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = (a[i] + b[i]) / 2
	}
	return out
}

func trace(a []float64, n int) float64 {
	sum := 0.0
	for i := range n {
		sum += a[i*n+i]
	}
	return sum
}

// rowsOf cuts a matrix of n columns into its rows.
func rowsOf(a []float64, n int) [][]float64 {
	return slices.Collect(slices.Chunk(a, n))
}

// rowSquares is the sum of squares of each row.
func rowSquares(a []float64, rows int) []float64 {
	out := make([]float64, rows)
	for i, x := range a {
		out[i/(len(a)/rows)] += x * x
	}
	return out
}

// largest is max|a|.
func largest(a []float64) float64 {
	out := 0.0
	for _, x := range a {
		out = max(out, math.Abs(x))
	}
	return out
}

func rootMeanSquare(a []float64) float64 {
	return math.Sqrt(rowSquares(a, 1)[0] / float64(len(a)))
}
