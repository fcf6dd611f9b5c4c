package follow

import (
	"math"
	"slices"
)

// Point is a value and where it stands.
type Point[P any] struct {
	At    P
	Value float64
	place int // among the points that Extremes has seen
}

// Finite tells a point that can be drawn from one that is only marked.
func (p Point[P]) Finite() bool { return !math.IsNaN(p.Value) && !math.IsInf(p.Value, 0) }

// Extremes are the points that a picture needs of neighbouring ones where these share a pixel: the first, lowest, highest and last finite one, so that a
// spike of one step is drawn at any zoom, and the first that is not finite.
type Extremes[P any] struct {
	seen   int
	finite bool
	bad    bool
	kept   [5]Point[P] // first, lowest, highest, last, not finite
}

// Add takes the next point.
func (e *Extremes[P]) Add(at P, value float64) {
	p := Point[P]{at, value, e.seen}
	e.seen++
	switch {
	case !p.Finite():
		if !e.bad {
			e.kept[4], e.bad = p, true
		}
	case !e.finite:
		e.kept[0], e.kept[1], e.kept[2], e.kept[3], e.finite = p, p, p, p, true
	default:
		if value < e.kept[1].Value {
			e.kept[1] = p
		}
		if value > e.kept[2].Value {
			e.kept[2] = p
		}
		e.kept[3] = p
	}
}

// Take appends the points to others, each once and in their order, and forgets them.
func (e *Extremes[P]) Take(to []Point[P]) []Point[P] {
	from := len(to)
	if e.finite {
		to = append(to, e.kept[:4]...)
	}
	if e.bad {
		to = append(to, e.kept[4])
	}
	slices.SortFunc(to[from:], func(a, b Point[P]) int { return a.place - b.place })
	own := slices.CompactFunc(to[from:], func(a, b Point[P]) bool { return a.place == b.place })
	e.seen, e.finite, e.bad = 0, false, false
	return to[:from+len(own)]
}
