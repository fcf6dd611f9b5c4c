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

// draw draws a series over an axis, from the last point before the view.
func (t *table) draw(name string, axis int, v view) curve {
	s, took, x := t.series[name], t.series[stepMS], t.axes[axis]
	d := newDrawing(v)
	first := max(0, sort.Search(len(s.line), func(i int) bool { return x[s.line[i]] >= v.from })-1)
	at := 0
	if d.mean.span >= 2 {
		first = max(0, first-farSpans*int(math.Ceil(d.mean.span)))
		d.mean.n = first
	}
	weighed := v.span >= 2 && s.weighed()
	for i := first; i < len(s.line) && !d.over; i++ {
		p := point{x: x[s.line[i]], y: s.value[i], weight: 1}
		if weighed {
			if i == first {
				at, _ = slices.BinarySearch(took.line, s.line[i])
			}
			for took.line[at] < s.line[i] {
				at++
			}
			p.weight = took.value[at]
		}
		d.add(p)
	}
	return d.finish()
}

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

// drawing makes a curve of points that come one by one, whose x ascend: the extremes of each bucket [k w, (k+1) w). It keeps no point but these.
type drawing struct {
	view
	curve
	mean   mean
	before point // the newest before the view
	waits  bool  // it is to be drawn
	within bool
	over   bool // what comes is behind the view
	bucket float64
	kept   follow.Extremes[float64]
	points []follow.Point[float64]
}

func newDrawing(v view) *drawing {
	return &drawing{view: v, mean: mean{span: v.span}, bucket: math.NaN()}
}

// add takes the next point.
func (d *drawing) add(p point) {
	if d.over {
		return
	}
	if d.span >= 2 {
		p.y = d.mean.add(p)
	}
	if !d.within && p.x < d.from {
		d.before, d.waits = p, true
		return
	}
	d.within = true
	d.drawBefore()
	d.draw(p)
	d.over = p.x > d.to
}

func (d *drawing) drawBefore() {
	if d.waits {
		d.waits = false
		d.draw(d.before)
	}
}

func (d *drawing) draw(p point) {
	if k := math.Floor(p.x / d.view.bucket); k != d.bucket {
		d.flush()
		d.bucket = k
	}
	d.kept.Add(p.x, p.y)
}

// flush ends a bucket.
func (d *drawing) flush() {
	d.points = d.kept.Take(d.points[:0])
	for _, p := range d.points {
		if p.Finite() {
			d.x, d.y = append(d.x, p.At), append(d.y, p.Value)
		} else {
			d.bad = append(d.bad, p.At)
		}
	}
}

// finish is the curve of all points.
func (d *drawing) finish() curve {
	d.drawBefore()
	d.flush()
	return d.curve
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
