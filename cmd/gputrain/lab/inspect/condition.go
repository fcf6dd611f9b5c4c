package inspect

import (
	"math"

	"gputrain/buffers/prng"
)

// iterations of each power iteration at most, and the relative change below which it ends.
const (
	iterations = 60
	settled    = 1e-4
)

// condition estimates the largest over the smallest singular value of a square matrix of side n, row-major and finite: power iteration on
// its Gram matrix finds the largest, and through an LU decomposition the smallest. The largest comes out a little too small and the smallest
// a little too large, so that the estimate is from below. A singular matrix has +Inf.
func condition(a []float64, n int) float64 {
	lu, swaps, ok := decompose(a, n)
	if !ok {
		return math.Inf(1)
	}
	y := make([]float64, n)
	largest := power(n, func(x []float64) {
		for r := range n {
			y[r] = 0
			for c, v := range a[r*n : r*n+n] {
				y[r] += v * x[c]
			}
		}
		clear(x)
		for r, v := range y {
			for c, w := range a[r*n : r*n+n] {
				x[c] += v * w
			}
		}
	})
	inverse := power(n, func(x []float64) {
		solveTransposed(lu, swaps, n, x)
		solve(lu, swaps, n, x)
	})
	// Both are squared singular values, the second of the inverse.
	return max(1, math.Sqrt(largest)*math.Sqrt(inverse))
}

// power finds the largest eigenvalue of a symmetric matrix, by what it makes of a vector.
func power(n int, apply func(x []float64)) float64 {
	x, key := make([]float64, n), prng.NewKey(0)
	for i := range x {
		x[i] = float64(key.Normal(uint64(i)))
	}
	scale := func() float64 {
		largest := 0.0
		for _, v := range x {
			largest = max(largest, math.Abs(v))
		}
		sum := 0.0
		for i := range x {
			x[i] /= largest
			sum += x[i] * x[i]
		}
		for i := range x {
			x[i] /= math.Sqrt(sum)
		}
		return largest * math.Sqrt(sum)
	}
	scale()
	value := 0.0
	for range iterations {
		apply(x)
		now := scale()
		if !finite(now) {
			return math.Inf(1)
		}
		if math.Abs(now-value) <= settled*now {
			return now
		}
		value = now
	}
	return value
}

// decompose is LU with row exchanges; false where a pivot is 0.
func decompose(a []float64, n int) (lu []float64, swaps []int, ok bool) {
	lu, swaps = append([]float64(nil), a...), make([]int, n)
	for k := range n {
		p := k
		for r := k + 1; r < n; r++ {
			if math.Abs(lu[r*n+k]) > math.Abs(lu[p*n+k]) {
				p = r
			}
		}
		swaps[k] = p
		if p != k {
			for c := range n {
				lu[k*n+c], lu[p*n+c] = lu[p*n+c], lu[k*n+c]
			}
		}
		if lu[k*n+k] == 0 {
			return nil, nil, false
		}
		pivot := lu[k*n : k*n+n]
		for r := k + 1; r < n; r++ {
			row := lu[r*n : r*n+n]
			f := row[k] / pivot[k]
			row[k] = f
			for c := k + 1; c < n; c++ {
				row[c] -= f * pivot[c]
			}
		}
	}
	return lu, swaps, true
}

// solve makes x the solution y of A y = x.
func solve(lu []float64, swaps []int, n int, x []float64) {
	for k, p := range swaps {
		x[k], x[p] = x[p], x[k]
	}
	for r := range n {
		for c, v := range lu[r*n : r*n+r] {
			x[r] -= v * x[c]
		}
	}
	for r := n - 1; r >= 0; r-- {
		for c := r + 1; c < n; c++ {
			x[r] -= lu[r*n+c] * x[c]
		}
		x[r] /= lu[r*n+r]
	}
}

// solveTransposed makes x the solution y of Aᵀ y = x.
func solveTransposed(lu []float64, swaps []int, n int, x []float64) {
	for r := range n {
		x[r] /= lu[r*n+r]
		for c := r + 1; c < n; c++ {
			x[c] -= lu[r*n+c] * x[r]
		}
	}
	for r := n - 1; r >= 0; r-- {
		for c, v := range lu[r*n : r*n+r] {
			x[c] -= v * x[r]
		}
	}
	for k := n - 1; k >= 0; k-- {
		x[k], x[swaps[k]] = x[swaps[k]], x[k]
	}
}
