package serve

import (
	"math"
	"slices"
	"sort"

	"gputrain/cmd/gputrain/follow"
)

// point is a value of a series, where it stands on an axis, and what it weighs in a mean.
type point struct{ x, y, weight float64 }

// farSpans is how many times its span a mean begins before the view: what comes before weighs e^-40 there, less than rounding does.
const farSpans = 20

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

// draw draws a series over an axis, from the last point before the view: the extremes of each bucket [k w, (k+1) w).
func (t *table) draw(name string, axis int, v view) (c curve) {
	s, took, x := t.series[name], t.series[stepMS], t.axes[axis]
	first := max(0, sort.Search(len(s.line), func(i int) bool { return x[s.line[i]] >= v.from })-1)
	begin, smooth := first, v.span >= 2
	if smooth {
		begin = max(0, first-farSpans*int(math.Ceil(v.span)))
	}
	m := mean{span: v.span, n: begin}
	at, weighed := 0, smooth && s.weighed()
	if weighed {
		at, _ = slices.BinarySearch(took.line, s.line[begin])
	}
	bucket := math.NaN()
	var kept follow.Extremes[float64]
	flush := func() {
		for _, p := range kept.Take(nil) {
			if p.Finite() {
				c.x, c.y = append(c.x, p.At), append(c.y, p.Value)
			} else {
				c.bad = append(c.bad, p.At)
			}
		}
	}
	for i := begin; i < len(s.line); i++ {
		p := point{x: x[s.line[i]], y: s.value[i], weight: 1}
		if weighed {
			for took.line[at] < s.line[i] {
				at++
			}
			p.weight = took.value[at]
		}
		if smooth {
			p.y = m.add(p)
		}
		if i < first {
			continue
		}
		if k := math.Floor(p.x / v.bucket); k != bucket {
			flush()
			bucket = k
		}
		kept.Add(p.x, p.y)
		if p.x >= v.from && p.x > v.to {
			break
		}
	}
	flush()
	return c
}

// mean is the exponential mean of all values so far: value n weighs 2/(s+1) against what was before it, where s grows by a quarter with
// each value until it is span, so that the fall at the beginning of a run is not smoothed away. With weights it is such a mean of value times
// weight over one of the weights: tokens a second weigh by their seconds. A value that is not finite stays what it is, and out of the mean.
type mean struct {
	span         float64
	sum, weights float64
	n            int
}

func (m *mean) add(p point) float64 {
	if math.IsNaN(p.y) || math.IsInf(p.y, 0) {
		return p.y
	}
	left := 1 - 2/(min(m.span, 1+float64(m.n)/4)+1) // of what was before
	m.n++
	m.sum += (p.y*p.weight - m.sum) * (1 - left)
	m.weights += (p.weight - m.weights) * (1 - left)
	return m.sum / m.weights
}
