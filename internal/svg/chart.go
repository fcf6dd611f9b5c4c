package svg

import (
	"bufio"
	"cmp"
	"fmt"
	"html"
	"io"
	"math"
	"slices"
)

// Chart is a picture of curves, drawn as SVG without anything from outside: light or dark as its reader prefers.
type Chart struct {
	Title  string
	Panels []Panel // side by side
}

// Panel is one pair of axes with its curves.
type Panel struct {
	XLabel, YLabel string
	Series         []Series
	// Direct writes names at the ends of the curves, instead of into a legend above the panel.
	Direct bool
	Top    float64 // what lies above it is cut off; 0: nothing is
}

// Series is one curve.
type Series struct {
	Name   string // "": neither in the legend nor at the end
	Color  string
	Dots   bool // mark the points: for curves of few
	Faint  bool // thin and pale: for what stands behind another curve
	Dashed bool
	Points []Point
}

// Point is a value of a curve.
type Point struct{ X, Y float64 }

// The picture's size and margins in pixels; a panel of several is narrower than a single one.
const (
	chartHeight              = 420
	singleWidth, severalEach = 800, 560
	chartLeft, chartRight    = 72, 20
	chartTop, chartBottom    = 44, 50
	letterWidth              = 7
	labelHeight, boldWidth   = 14, 9 // of the text at the end of a curve
)

// faint is how the curve of a faint series, and its mark in the legend, are drawn.
const faint = ` stroke-opacity="0.4"`

// maxColumns is the number of horizontal places a curve is thinned out to; the highest and the lowest value of each stay, so that no
// spike is lost.
const maxColumns = 720

// Write draws the chart. Points that are not finite are left out.
func (c Chart) Write(w io.Writer) error {
	each := singleWidth
	if len(c.Panels) > 1 {
		each = severalEach
	}
	width := each * max(1, len(c.Panels))
	out := bufio.NewWriter(w)
	Begin(out, width, chartHeight, chartLeft, c.Title)
	for i, p := range c.Panels {
		p.draw(out, i, each)
	}
	fmt.Fprintln(out, "</svg>")
	return out.Flush()
}

// box is where panel number i of that width has its axes.
func (p Panel) box(i, width int) plot {
	right := chartRight
	if p.Direct {
		for _, s := range p.Series {
			right = max(right, 26+boldWidth*len(s.Name))
		}
	}
	b := plot{left: float64(i*width + chartLeft), right: float64((i+1)*width - right), top: chartTop, bottom: chartHeight - chartBottom}
	b.scale(p)
	return b
}

func (p Panel) draw(out io.Writer, i, width int) {
	box := p.box(i, width)
	box.grid(out, p.XLabel, p.YLabel)
	fmt.Fprintf(out, `<clipPath id="panel%d"><rect x="%s" y="%s" width="%s" height="%s"/></clipPath><g clip-path="url(#panel%d)">`+"\n",
		i, px(box.left-4), px(box.top-4), px(box.right-box.left+8), px(box.bottom-box.top+8), i)
	for _, s := range p.Series {
		box.curve(out, s)
	}
	fmt.Fprintln(out, "</g>")
	if p.Direct {
		box.names(out, p.Series)
		return
	}
	legend := float64((i+1)*width - chartRight)
	for _, s := range p.Series {
		if s.Name == "" {
			continue
		}
		legend -= float64(30 + letterWidth*len(s.Name))
		pale := ""
		if s.Faint {
			pale = faint
		}
		Key(out, legend, 24, s.Color, pale, s.Name)
	}
}

// names writes each name in the right margin, as near to the end of its curve as the others allow, with a line between the two.
func (p plot) names(out io.Writer, series []Series) {
	type place struct {
		Series
		x, y, at float64 // the end of the curve, and where the name stands
	}
	var places []place
	for _, s := range series {
		points := thin(s.Points, p.x0, p.x1)
		if s.Name == "" || len(points) == 0 {
			continue
		}
		end := points[len(points)-1]
		y := min(max(p.py(end.Y), p.top), p.bottom)
		places = append(places, place{s, p.px(end.X), y, y})
	}
	slices.SortStableFunc(places, func(a, b place) int { return cmp.Compare(a.y, b.y) })
	// Downwards each keeps clear of the one above it; what has come too low goes back up.
	for i := range places {
		if i > 0 {
			places[i].at = max(places[i].at, places[i-1].at+labelHeight)
		}
	}
	limit := p.bottom
	for i := len(places) - 1; i >= 0; i-- {
		places[i].at = min(places[i].at, limit)
		limit = places[i].at - labelHeight
	}
	for _, l := range places {
		fmt.Fprintf(out, `<polyline fill="none" stroke="%s" stroke-opacity="0.6" stroke-dasharray="2 2" points="%s,%s %s,%s %s,%s"/>`+"\n",
			l.Color, px(l.x), px(l.y), px(p.right), px(l.y), px(p.right+12), px(l.at))
		fmt.Fprintf(out, `<text x="%s" y="%s" font-weight="bold" fill="%s">%s</text>`+"\n", px(p.right+15), px(l.at+4), l.Color, html.EscapeString(l.Name))
	}
}

func (p plot) curve(out io.Writer, s Series) {
	points := thin(s.Points, p.x0, p.x1)
	if len(points) == 0 {
		return
	}
	style := ` stroke-width="1.8"`
	if s.Faint {
		style = ` stroke-width="1"` + faint
	}
	if s.Dashed {
		style += ` stroke-dasharray="6 4"`
	}
	fmt.Fprintf(out, `<polyline fill="none" stroke="%s"%s stroke-linejoin="round" points="`, s.Color, style)
	for i, q := range points {
		if i > 0 {
			fmt.Fprint(out, " ")
		}
		fmt.Fprintf(out, "%s,%s", px(p.px(q.X)), px(p.py(q.Y)))
	}
	fmt.Fprintln(out, `"/>`)
	if s.Dots {
		for _, q := range points {
			fmt.Fprintf(out, `<circle cx="%s" cy="%s" r="3" fill="%s"/>`+"\n", px(p.px(q.X)), px(p.py(q.Y)), s.Color)
		}
	}
}

// thin keeps the finite points and, of many that fall into one column, the lowest and the highest in their order.
func thin(points []Point, x0, x1 float64) []Point {
	var out []Point
	column, low, high := -1, -1, -1
	flush := func() {
		if column < 0 {
			return
		}
		a, b := min(low, high), max(low, high)
		out = append(out, points[a])
		if b != a {
			out = append(out, points[b])
		}
	}
	for i, q := range points {
		if !finite(q.X) || !finite(q.Y) {
			continue
		}
		c := int((q.X - x0) / (x1 - x0) * maxColumns)
		if c != column {
			flush()
			column, low, high = c, i, i
			continue
		}
		if q.Y < points[low].Y {
			low = i
		}
		if q.Y > points[high].Y {
			high = i
		}
	}
	flush()
	return out
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }
