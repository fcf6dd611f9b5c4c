package serve

import (
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
