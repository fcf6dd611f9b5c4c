package serve

import (
	"math"
	"sort"

	"gputrain/cmd/gputrain/follow"
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
	span             float64   // of the mean in points; below 2: none
	weight           []float64 // of each point in the mean; nil: all weigh the same
}

// decimate makes a curve of the points (x[line[i]], value[i]), x ascending: the extremes of each bucket [k w, (k+1) w), and the first point of
// it that is not finite.
func decimate(x []float64, line []int32, value []float64, v view) curve {
	at := func(i int) float64 { return x[line[i]] }
	begin := sort.Search(len(line), func(i int) bool { return at(i) >= v.from })
	end := begin + sort.Search(len(line)-begin, func(i int) bool { return at(begin+i) > v.to })
	begin, end = max(0, begin-1), min(len(line), end+1)
	if v.span >= 2 {
		value = smooth(value[:end], v.weight, v.span)
	}
	var c curve
	bucket := func(i int) float64 { return math.Floor(at(i) / v.bucket) }
	for kept, bad := range follow.Extremes(begin, end, bucket, func(i int) float64 { return value[i] }) {
		if bad >= 0 {
			c.bad = append(c.bad, at(bad))
		}
		for _, i := range kept {
			c.x, c.y = append(c.x, at(i)), append(c.y, value[i])
		}
	}
	return c
}

// smooth is the exponential mean of all values up to each: value n weighs 2/(s+1) against what was before it, where s grows by a quarter with
// each value until it is span, so that the fall at the beginning of a run is not smoothed away. With weights it is such a mean of value times
// weight over one of the weights: tokens a second weigh by their seconds. A value that is not finite stays what it is, and out of the mean.
func smooth(value, weight []float64, span float64) []float64 {
	out := make([]float64, len(value))
	sum, weights, n := 0.0, 0.0, 0
	for i, v := range value {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			out[i] = v
			continue
		}
		w := 1.0
		if weight != nil {
			w = weight[i]
		}
		share := 2 / (min(span, 1+float64(n)/4) + 1)
		sum += (v*w - sum) * share
		weights += (w - weights) * share
		out[i] = sum / weights
		n++
	}
	return out
}
