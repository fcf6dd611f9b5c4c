package follow

import (
	"iter"

	"gputrain/train/table"
)

// Extremes goes over the points from begin up to end in buckets, which ascend. Of each it gives those that a picture of all points needs where
// a bucket is as wide as a pixel, each once and in their order; and the first that is not finite, or -1. What it gives is valid until the next.
func Extremes(begin, end int, bucket, value func(i int) float64) iter.Seq2[[]int, int] {
	return func(yield func(kept []int, bad int) bool) {
		var extremes table.Extremes[int]
		var points []table.Point[int]
		var kept []int
		for i := begin; i < end; {
			for k := bucket(i); i < end && bucket(i) == k; i++ {
				extremes.Add(i, value(i))
			}
			bad := -1
			points, kept = extremes.Take(points[:0]), kept[:0]
			for _, p := range points {
				if p.Finite() {
					kept = append(kept, p.At)
				} else {
					bad = p.At
				}
			}
			if !yield(kept, bad) {
				return
			}
		}
	}
}
