// Package svg draws curves, and what other pictures share with them, without anything from outside: light or dark as their reader prefers.
package svg

import (
	"fmt"
	"html"
	"io"
	"math"
	"strconv"
)

// plot maps values to pixels inside the axes of a panel.
type plot struct {
	left, right, top, bottom float64 // the box
	x0, x1, y0, y1           float64 // values at its edges
	xs, ys                   []float64
}

// scale finds the range of all finite points, below the panel's top.
func (p *plot) scale(panel Panel) {
	p.x0, p.x1, p.y0, p.y1 = math.Inf(1), math.Inf(-1), math.Inf(1), math.Inf(-1)
	for _, s := range panel.Series {
		for _, q := range s.Points {
			if !finite(q.X) || !finite(q.Y) {
				continue
			}
			p.x0, p.x1 = min(p.x0, q.X), max(p.x1, q.X)
			p.y0, p.y1 = min(p.y0, q.Y), max(p.y1, q.Y)
		}
	}
	if p.x0 > p.x1 {
		p.x0, p.x1, p.y0, p.y1 = 0, 1, 0, 1
	}
	if panel.Top != 0 && panel.Top > p.y0 {
		p.y1 = min(p.y1, panel.Top)
	}
	if p.x0 == p.x1 {
		p.x1++
	}
	p.y0, p.y1 = apart(p.y0, p.y1)
	p.xs = ticks(p.x0, p.x1, 8)
	p.ys = ticks(p.y0, p.y1, 6)
	// The vertical axis ends on ticks, so that a curve does not run along the frame.
	step := p.ys[1] - p.ys[0]
	p.y0, p.y1 = math.Floor(p.y0/step)*step, math.Ceil(p.y1/step)*step
	p.ys = ticks(p.y0, p.y1, 6)
}

// apart widens a range that is one value but for the rounding of what was computed of it: between such neighbours there are no round values.
func apart(a, b float64) (low, high float64) {
	if size := max(math.Abs(a), math.Abs(b)); b-a <= max(1e-9*size, 1e-300) {
		half := max(.5, 1e-6*size)
		return a - half, b + half
	}
	return a, b
}

// ticks returns at least two round values in about [a, b], about n of them.
func ticks(a, b float64, n int) []float64 {
	raw := (b - a) / float64(n)
	step := math.Pow(10, math.Floor(math.Log10(raw)))
	for _, m := range []float64{1, 2, 2.5, 5, 10} {
		if m*step >= raw {
			step *= m
			break
		}
	}
	var out []float64
	first := math.Ceil(a/step - 1e-9)
	for i := range 2*n + 2 { // a float counted up stands still at 2^53
		v := (first + float64(i)) * step
		if v > b+step*1e-9 {
			break
		}
		out = append(out, v+0) // no -0
	}
	for len(out) < 2 {
		out = append(out, a+float64(len(out))*step)
	}
	return out
}

func (p plot) px(x float64) float64 { return p.left + (x-p.x0)/(p.x1-p.x0)*(p.right-p.left) }

func (p plot) py(y float64) float64 { return p.top + (p.y1-y)/(p.y1-p.y0)*(p.bottom-p.top) }

func (p plot) grid(out io.Writer, xLabel, yLabel string) {
	for _, x := range p.xs {
		Tick(out, p.px(x), p.top, p.bottom, label(x))
	}
	for _, y := range p.ys {
		fmt.Fprintf(out, `<line class="grid" x1="%[1]s" y1="%[2]s" x2="%[3]s" y2="%[2]s"/><text class="soft" x="%[4]s" y="%[5]s" text-anchor="end">%[6]s</text>`+"\n",
			px(p.left), px(p.py(y)), px(p.right), px(p.left-6), px(p.py(y)+4), label(y))
	}
	Frame(out, p.left, p.top, p.right, p.bottom, xLabel)
	x, y := px(p.left-58), px((p.top+p.bottom)/2)
	fmt.Fprintf(out, `<text class="ink" x="%[1]s" y="%[2]s" text-anchor="middle" transform="rotate(-90 %[1]s %[2]s)">%[3]s</text>`+"\n", x, y, html.EscapeString(yLabel))
}

// label is a tick's value without noise in its last digits.
func label(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }

// Style colours all of a picture but its curves: classes paper, ink, soft (text), grid and frame (lines), light and dark. Every picture has it.
const Style = `<style>.paper{fill:#ffffff}.ink{fill:#222222}.soft{fill:#555555}.grid{stroke:#e4e4e4}.frame{stroke:#999999;fill:none}` +
	`@media (prefers-color-scheme:dark){.paper{fill:#0d1117}.ink{fill:#e6edf3}.soft{fill:#9da7b3}.grid{stroke:#272e38}.frame{stroke:#6e7681}}</style>`

// Begin begins a picture of a size, whose title stands at x; "</svg>" ends it.
func Begin(out io.Writer, width, height, x int, title string) {
	fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %[1]d %[2]d" width="%[1]d" height="%[2]d" font-family="sans-serif" font-size="12">`+
		"\n%[3]s\n"+`<rect class="paper" width="%[1]d" height="%[2]d"/>`+"\n"+`<text class="ink" x="%[4]d" y="24" font-size="15">%[5]s</text>`+"\n",
		width, height, Style, x, html.EscapeString(title))
}

// Key is a colour of the legend with its name; style is more of the line's.
func Key(out io.Writer, x, y float64, color, style, name string) {
	fmt.Fprintf(out, `<line x1="%[1]s" y1="%[2]s" x2="%[3]s" y2="%[2]s" stroke="%[4]s" stroke-width="3"%[5]s/><text class="ink" x="%[6]s" y="%[7]s">%[8]s</text>`+"\n",
		px(x), px(y-4), px(x+16), color, style, px(x+20), px(y), html.EscapeString(name))
}

// Tick is a line of the grid at x, with its value below.
func Tick(out io.Writer, x, top, bottom float64, value string) {
	fmt.Fprintf(out, `<line class="grid" x1="%[1]s" y1="%[2]s" x2="%[1]s" y2="%[3]s"/><text class="soft" x="%[1]s" y="%[4]s" text-anchor="middle">%[5]s</text>`+"\n",
		px(x), px(top), px(bottom), px(bottom+16), value)
}

// Frame is the box of two axes, with what is along x.
func Frame(out io.Writer, left, top, right, bottom float64, along string) {
	fmt.Fprintf(out, `<rect class="frame" x="%s" y="%s" width="%s" height="%s"/>`+"\n", px(left), px(top), px(right-left), px(bottom-top))
	fmt.Fprintf(out, `<text class="ink" x="%s" y="%s" text-anchor="middle">%s</text>`+"\n", px((left+right)/2), px(bottom+36), html.EscapeString(along))
}

// px is a coordinate with a tenth of a pixel.
func px(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }
