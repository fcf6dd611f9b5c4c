package inspect

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"math"

	"gputrain/internal/svg"
	"gputrain/run/train"
)

// The picture's sizes in pixels.
const (
	rowHeight            = 18
	plotTop, plotBottom  = 64, 46
	labelWidth, boxWidth = 300, 380
	gap                  = 40
)

const leftColor, rightColor = "#3b82f6", "#d97706"

// Plot draws the Lipschitz estimates and the conditions of each parameter's factors as SVG: from the least to the largest over its blocks,
// with a dot at the median, on axes of powers of ten. Beside the axis stands what has no place on it: ∞, or ✕ where a factor is not finite.
func Plot(w io.Writer, title string, leaves []Leaf) error {
	var rows []Leaf
	for _, l := range leaves {
		if l.Kron != nil {
			rows = append(rows, l)
		}
	}
	if len(rows) == 0 {
		return fmt.Errorf("inspect: plot: found no Kronecker factors, wanted the checkpoint of quad or skew")
	}
	bottom := plotTop + rowHeight*len(rows)
	width, height := labelWidth+2*boxWidth+2*gap, bottom+plotBottom
	out := bufio.NewWriter(w)
	svg.Begin(out, width, height, 16, title)
	for i, side := range []struct{ name, color string }{{"left factor", leftColor}, {"right factor", rightColor}} {
		svg.Key(out, float64(16+110*i), 46, side.color, "", side.name)
	}
	for i, l := range rows {
		fmt.Fprintf(out, `<text class="soft" x="%d" y="%d" text-anchor="end">%s</text>`+"\n", labelWidth-8, plotTop+rowHeight*i+13, html.EscapeString(l.Path))
	}
	for i, panel := range []struct {
		name string
		of   func(f Factor) Spread
	}{
		{"Lipschitz estimate", func(f Factor) Spread { return f.Lipschitz }},
		{"condition (largest over smallest singular value)", func(f Factor) Spread { return f.Condition }},
	} {
		a := newAxis(float64(labelWidth+i*(boxWidth+gap)), rows, panel.of)
		a.draw(out, panel.name, bottom)
		for k, l := range rows {
			y := float64(plotTop + rowHeight*k)
			a.bar(out, y+6, leftColor, panel.of(l.Kron.Left))
			if l.Kron.Right != nil {
				a.bar(out, y+12, rightColor, panel.of(*l.Kron.Right))
			}
		}
	}
	fmt.Fprintln(out, "</svg>")
	return out.Flush()
}

// axis maps positive numbers to pixels by their logarithm.
type axis struct {
	left      float64
	low, high float64 // powers of ten
}

func newAxis(left float64, rows []Leaf, of func(Factor) Spread) axis {
	a := axis{left: left, low: math.Inf(1), high: math.Inf(-1)}
	for _, l := range rows {
		factors := []Factor{l.Kron.Left}
		if l.Kron.Right != nil {
			factors = append(factors, *l.Kron.Right)
		}
		for _, f := range factors {
			s := of(f)
			for _, v := range []train.Number{s.Min, s.Median, s.Max} {
				if v := float64(v); v > 0 && finite(v) {
					a.low, a.high = min(a.low, math.Floor(math.Log10(v))), max(a.high, math.Ceil(math.Log10(v)))
				}
			}
		}
	}
	if a.low > a.high {
		a.low, a.high = 0, 0
	}
	a.high = max(a.high, a.low+1)
	return a
}

func (a axis) x(v float64) float64 { return a.left + (math.Log10(v)-a.low)/(a.high-a.low)*boxWidth }

func (a axis) draw(out io.Writer, name string, bottom int) {
	step := math.Ceil((a.high - a.low) / 8)
	for e := a.low; e <= a.high; e += step {
		svg.Tick(out, a.x(math.Pow(10, e)), plotTop, float64(bottom), fmt.Sprint(math.Pow(10, e)))
	}
	svg.Frame(out, a.left, plotTop, a.left+boxWidth, float64(bottom), name)
}

// bar is a spread: a line from the least to the largest, a dot at the median.
func (a axis) bar(out io.Writer, y float64, color string, s Spread) {
	low, high, median := float64(s.Min), float64(s.Max), float64(s.Median)
	drawn := func(v float64) bool { return v > 0 && finite(v) }
	if drawn(high) {
		if !drawn(low) {
			low = math.Pow(10, a.low) // from 0 or below
		}
		fmt.Fprintf(out, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-width="2"/>`+"\n", a.x(low), y, max(a.x(high), a.x(low)+1), y, color)
	}
	switch {
	case math.IsInf(high, 1):
		fmt.Fprintf(out, `<text x="%.1f" y="%.1f" fill="%s">∞</text>`+"\n", a.left+boxWidth+3, y+4, color)
	case math.IsNaN(high):
		fmt.Fprintf(out, `<text x="%.1f" y="%.1f" fill="%s">✕</text>`+"\n", a.left+boxWidth+3, y+4, color)
	}
	if drawn(median) {
		fmt.Fprintf(out, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`+"\n", a.x(median), y, color)
	}
}
