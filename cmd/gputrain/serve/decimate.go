package serve

import (
	"iter"
	"math"

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
	span             float64 // of the mean in points; below 2: none
}

// decimate makes a curve of points, whose x ascend: the extremes of each bucket [k w, (k+1) w), and the first point of it that is not finite.
func decimate(points iter.Seq[point], v view) curve {
	if v.span >= 2 {
		points = smooth(points, v.span)
	}
	var c curve
	var part []point // of one bucket
	flush := func() {
		for kept, bad := range follow.Extremes(0, len(part), func(int) float64 { return 0 }, func(i int) float64 { return part[i].y }) {
			if bad >= 0 {
				c.bad = append(c.bad, part[bad].x)
			}
			for _, i := range kept {
				c.x, c.y = append(c.x, part[i].x), append(c.y, part[i].y)
			}
		}
		part = part[:0]
	}
	bucket := math.NaN()
	for p := range v.clip(points) {
		if k := math.Floor(p.x / v.bucket); k != bucket {
			flush()
			bucket = k
		}
		part = append(part, p)
	}
	flush()
	return c
}

// clip are the points from from to to, with one before and one behind.
func (v view) clip(points iter.Seq[point]) iter.Seq[point] {
	return func(yield func(point) bool) {
		var before point
		waits, within := false, false
		for p := range points {
			if !within && p.x < v.from {
				before, waits = p, true
				continue
			}
			if within = true; waits {
				if waits = false; !yield(before) {
					return
				}
			}
			if !yield(p) || p.x > v.to {
				return
			}
		}
		if waits {
			yield(before)
		}
	}
}

// smooth is the exponential mean of all values up to each: value n weighs 2/(s+1) against what was before it, where s grows by a quarter with
// each value until it is span, so that the fall at the beginning of a run is not smoothed away. With weights it is such a mean of value times
// weight over one of the weights: tokens a second weigh by their seconds. A value that is not finite stays what it is, and out of the mean.
func smooth(points iter.Seq[point], span float64) iter.Seq[point] {
	return func(yield func(point) bool) {
		sum, weights, n := 0.0, 0.0, 0
		for p := range points {
			if !math.IsNaN(p.y) && !math.IsInf(p.y, 0) {
				share := 2 / (min(span, 1+float64(n)/4) + 1)
				sum += (p.y*p.weight - sum) * share
				weights += (p.weight - weights) * share
				p.y = sum / weights
				n++
			}
			if !yield(p) {
				return
			}
		}
	}
}
