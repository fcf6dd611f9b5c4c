package serve

import (
	"math"
	"slices"
	"strings"

	"gputrain/train/table"
)

// point is a value of a series, where it stands on an axis, what it weighs in a mean, and how many points it stands for there.
type point struct {
	x, y, weight float64
	count        int
}

// line is a series on its way to a curve.
type line struct {
	*drawing
	name   string
	first  int  // the block with the first point to draw
	weighs bool // in the mean, by the time that each step took
}

// farBlocks are so many lines before a view that what is there has no more weight in a mean over 1,024 points, the widest of the page, than rounding has:
// of those before, strips do.
const farBlocks = 3

// drawAll draws series over an axis. A block is read if it reaches into the view, or for a mean. Its strips are read instead of its points where several of
// them share a bucket: a curve of ten million steps is drawn of a few thousand strips, and spikes of one step are in these.
func drawAll(t *table.Table, names []string, axis int, v view) ([]curve, error) {
	lines, first := make([]*line, len(names)), t.Blocks()
	for i, name := range names {
		lines[i] = &line{newDrawing(v), name, firstBlock(t, name, axis, v), v.span >= 2 && weighed(t, name)}
		if first = min(first, lines[i].first); v.span >= 2 {
			first = 0
		}
	}
	var x, y, took table.Column
	var strips table.Strips
	for block := first; block < t.Blocks(); block++ {
		hasAxis := false
		for _, l := range lines {
			if has, _ := t.Has(block, l.name); !has || l.over || block < l.first && v.span < 2 {
				continue
			}
			if !hasAxis {
				if err := t.ReadAxis(block, axis, &x); err != nil {
					return nil, err
				}
				hasAxis = true
			}
			strips.Strip = strips.Strip[:0]
			if block+farBlocks < l.first || coarse(t, block, axis, v) {
				if err := t.ReadStrips(block, l.name, &strips); err != nil {
					return nil, err
				}
			}
			if len(strips.Strip) > 0 {
				l.addStrips(strips.Strip, x.Value)
				continue
			}
			if err := l.addPoints(t, block, x.Value, &y, &took); err != nil {
				return nil, err
			}
		}
	}
	curves := make([]curve, len(lines))
	for i, l := range lines {
		curves[i] = l.finish()
	}
	return curves, nil
}

// coarse tells whether buckets are so wide that each has several strips of a block's lines.
func coarse(t *table.Table, block, axis int, v view) bool {
	first, last := t.Range(block, axis)
	return v.bucket*float64(t.BlockLines(block)) >= 4*table.StripPoints*(last-first)
}

// addPoints adds all points of a block.
func (l *line) addPoints(t *table.Table, block int, x []float64, y, took *table.Column) error {
	if err := t.ReadSeries(block, l.name, y); err != nil {
		return err
	}
	if l.weighs {
		if err := t.ReadSeries(block, stepMS, took); err != nil {
			return err
		}
	}
	at := 0
	for i, line := range y.Line {
		p := point{x: x[line], y: y.Value[i], weight: 1, count: 1}
		if l.weighs {
			for took.Line[at] < line {
				at++
			}
			p.weight = took.Value[at]
		}
		l.add(p)
	}
	return nil
}

// addStrips adds the extremes of strips, or for a mean one point for each, where its last one is.
func (l *line) addStrips(strips []table.Strip, x []float64) {
	for _, s := range strips {
		last := -1
		for i, p := range s.Points {
			if p.Finite() {
				last = i
			}
		}
		for i, p := range s.Points {
			switch {
			case l.span < 2 || !p.Finite():
				l.add(point{x: x[p.At], y: p.Value, weight: 1, count: 1})
			case i < last:
			case l.weighs:
				l.add(point{x: x[p.At], y: s.TimedMean, weight: s.StepMS, count: s.Count})
			default:
				l.add(point{x: x[p.At], y: s.Mean, weight: 1, count: s.Count})
			}
		}
	}
}

// firstBlock is the one with the last point before a view.
func firstBlock(t *table.Table, name string, axis int, v view) int {
	first := 0
	for block := range t.Blocks() {
		if _, last := t.Range(block, axis); last >= v.from {
			break
		}
		if has, _ := t.Has(block, name); has {
			first = block
		}
	}
	return first
}

// stepMS is the series of the time that a step took.
const stepMS = "step_ms"

// weighed says whether a series is of shares or rates, and the time of each step is known: a mean of these counts every step by its time, or a short one
// would seem to be all that the devices did.
func weighed(t *table.Table, name string) bool {
	family, _, _ := strings.Cut(name, ".")
	if !strings.HasSuffix(family, "_per_second") && !slices.Contains([]string{"mfu", "stage_busy", "bubble", "transfer"}, family) {
		return false
	}
	for block := range t.Blocks() {
		if has, timed := t.Has(block, name); has && !timed {
			return false
		}
	}
	return true
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
	kept   table.Extremes[float64]
	points []table.Point[float64]
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
// weight over one of the weights: tokens a second weigh by their seconds. A value that is not finite stays what it is, and out of the mean. A point that
// stands for several counts as so many of its value.
type mean struct {
	span         float64
	sum, weights float64
	n            int
}

func (m *mean) add(p point) float64 {
	if math.IsNaN(p.y) || math.IsInf(p.y, 0) {
		return p.y
	}
	left := 1.0 // of what was before
	if full := 1 + float64(m.n)/4; full >= m.span {
		left = math.Pow(1-2/(m.span+1), float64(p.count))
		m.n += p.count
	} else {
		for range p.count {
			left *= 1 - 2/(min(m.span, 1+float64(m.n)/4)+1)
			m.n++
		}
	}
	m.sum += (p.y*p.weight - m.sum) * (1 - left)
	m.weights += (p.weight - m.weights) * (1 - left)
	return m.sum / m.weights
}
