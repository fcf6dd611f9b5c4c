package follow

import (
	"iter"
	"math"
)

// Extremes goes over the points from begin up to end in buckets, which ascend. Of each it gives those that a picture of all points needs where
// a bucket is as wide as a pixel, its first, lowest, highest and last finite one, each once and in their order, so that a spike of one step is
// drawn at any zoom; and the first that is not finite, or -1. What it gives is valid until the next.
func Extremes(begin, end int, bucket, value func(i int) float64) iter.Seq2[[]int, int] {
	return func(yield func(kept []int, bad int) bool) {
		var kept [4]int
		for i := begin; i < end; {
			k := bucket(i)
			first, low, high, last, bad := -1, -1, -1, -1, -1
			for ; i < end && bucket(i) == k; i++ {
				y := value(i)
				if math.IsNaN(y) || math.IsInf(y, 0) {
					if bad < 0 {
						bad = i
					}
					continue
				}
				if first < 0 {
					first, low, high = i, i, i
				}
				if y < value(low) {
					low = i
				}
				if y > value(high) {
					high = i
				}
				last = i
			}
			n, previous := 0, -1
			for _, i := range [4]int{first, min(low, high), max(low, high), last} {
				if i > previous {
					kept[n], previous = i, i
					n++
				}
			}
			if !yield(kept[:n], bad) {
				return
			}
		}
	}
}
