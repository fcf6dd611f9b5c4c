package serve

import (
	"math"
	"sort"
)

// curve is what is drawn of a series: at most four points a bucket, in their order, and where values stand that are not finite.
type curve struct {
	x, y []float64
	bad  []float64
}

// view is what a page asks for: the points from x = from to x = to, in buckets of a width, smoothed or not. One point before and one
// behind come with them, so that lines reach the edges.
type view struct {
	from, to, bucket float64
	span             float64 // of the mean in points; below 2: none
}

// decimate makes a curve of the points (x[line[i]], value[i]), x ascending. Each bucket [k w, (k+1) w) has its first, lowest, highest and
// last finite point: drawn on pixels as wide as a bucket, they make the picture of all points. With them goes the first point
// of the bucket that is not finite.
func decimate(x []float64, line []int32, value []float64, v view) curve {
	at := func(i int) float64 { return x[line[i]] }
	begin := sort.Search(len(line), func(i int) bool { return at(i) >= v.from })
	end := begin + sort.Search(len(line)-begin, func(i int) bool { return at(begin+i) > v.to })
	begin, end = max(0, begin-1), min(len(line), end+1)
	if v.span >= 2 {
		value = smooth(value[:end], v.span)
	}
	var c curve
	for i := begin; i < end; {
		k := math.Floor(at(i) / v.bucket)
		first, low, high, last, bad := -1, -1, -1, -1, -1
		for ; i < end && math.Floor(at(i)/v.bucket) == k; i++ {
			y := value[i]
			if math.IsNaN(y) || math.IsInf(y, 0) {
				if bad < 0 {
					bad = i
				}
				continue
			}
			if first < 0 {
				first, low, high = i, i, i
			}
			if y < value[low] {
				low = i
			}
			if y > value[high] {
				high = i
			}
			last = i
		}
		if bad >= 0 {
			c.bad = append(c.bad, at(bad))
		}
		if first < 0 {
			continue
		}
		previous := -1
		for _, i := range [4]int{first, min(low, high), max(low, high), last} {
			if i > previous {
				c.x, c.y, previous = append(c.x, at(i)), append(c.y, value[i]), i
			}
		}
	}
	return c
}

// smooth is the exponential mean of all values up to each: value n weighs 2/(s+1) against what was before it, where s grows by a quarter with
// each value until it is span, so that the fall at the beginning of a run is not smoothed away. A value that is not finite stays what it
// is, and out of the mean.
func smooth(value []float64, span float64) []float64 {
	out := make([]float64, len(value))
	mean, n := 0.0, 0
	for i, v := range value {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			out[i] = v
			continue
		}
		mean += (v - mean) * 2 / (min(span, 1+float64(n)/4) + 1)
		out[i] = mean
		n++
	}
	return out
}
