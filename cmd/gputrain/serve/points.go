package serve

import (
	"iter"
	"slices"
	"strings"

	"gputrain/train/table"
)

// point is a value of a series, where it stands on an axis, and what it weighs in a mean.
type point struct{ x, y, weight float64 }

// pointsOf are the points of a series over an axis, in blocks of which those alone are read that reach into from and to, with one point before: all up to
// to where they are for a mean. An error ends them.
func pointsOf(t *table.Table, name string, axis int, v view, failed *error) iter.Seq[point] {
	weighs := v.span >= 2 && weighed(t, name)
	return func(yield func(point) bool) {
		var x, y, took table.Column
		for block := firstBlock(t, name, axis, v); block < t.Blocks(); block++ {
			if has, _ := t.Has(block, name); !has {
				continue
			}
			err := t.ReadAxis(block, axis, &x)
			if err == nil {
				err = t.ReadSeries(block, name, &y)
			}
			if err == nil && weighs {
				err = t.ReadSeries(block, stepMS, &took)
			}
			if err != nil {
				*failed = err
				return
			}
			at := 0
			for i, line := range y.Line {
				p := point{x: x.Value[line], y: y.Value[i], weight: 1}
				if weighs {
					for took.Line[at] < line {
						at++
					}
					p.weight = took.Value[at] / 1000
				}
				if !yield(p) {
					return
				}
			}
		}
	}
}

// firstBlock is the one with the last point before a view; the first for a mean, which is of all points before.
func firstBlock(t *table.Table, name string, axis int, v view) int {
	if v.span >= 2 {
		return 0
	}
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
