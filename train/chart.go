package train

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
)

// series is one curve of a chart.
type series struct {
	name   string
	color  string
	dots   bool // mark the points: for curves of few
	points []point
}

type point struct{ x, y float64 }

// chart is a picture of curves over one horizontal axis, drawn as SVG without anything from outside.
type chart struct {
	title, xLabel, yLabel string
	series                []series
}

// The picture's size and margins in pixels.
const (
	chartWidth, chartHeight = 800, 420
	chartLeft, chartRight   = 64, 20
	chartTop, chartBottom   = 44, 50
)

// maxColumns is the number of horizontal places a curve is thinned out to; the highest and the lowest value of each stay, so that no
// spike is lost.
const maxColumns = 720

// write draws the chart. Points that are not finite are left out.
func (c chart) write(w io.Writer) error {
	box := c.bounds()
	out := bufio.NewWriter(w)
	fmt.Fprintf(out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n",
		chartWidth, chartHeight, chartWidth, chartHeight)
	fmt.Fprintf(out, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", chartWidth, chartHeight)
	fmt.Fprintf(out, `<text x="%d" y="24" font-size="15" fill="#222222">%s</text>`+"\n", chartLeft, escape(c.title))
	box.grid(out, c.xLabel, c.yLabel)
	legend := float64(chartWidth - chartRight)
	for _, s := range c.series {
		box.curve(out, s)
		legend -= 30 + 7*float64(len(s.name))
		fmt.Fprintf(out, `<line x1="%s" y1="20" x2="%s" y2="20" stroke="%s" stroke-width="3"/><text x="%s" y="24" fill="#222222">%s</text>`+"\n",
			px(legend), px(legend+16), s.color, px(legend+20), escape(s.name))
	}
	fmt.Fprintln(out, "</svg>")
	return out.Flush()
}

// plot maps values to pixels.
type plot struct {
	x0, x1, y0, y1 float64 // values at the edges
	xs, ys         []float64
}

func (c chart) bounds() plot {
	p := plot{x0: math.Inf(1), x1: math.Inf(-1), y0: math.Inf(1), y1: math.Inf(-1)}
	for _, s := range c.series {
		for _, q := range s.points {
			if !finite(q.x) || !finite(q.y) {
				continue
			}
			p.x0, p.x1 = min(p.x0, q.x), max(p.x1, q.x)
			p.y0, p.y1 = min(p.y0, q.y), max(p.y1, q.y)
		}
	}
	if p.x0 > p.x1 {
		p.x0, p.x1, p.y0, p.y1 = 0, 1, 0, 1
	}
	if p.x0 == p.x1 {
		p.x1++
	}
	if p.y0 == p.y1 {
		p.y0, p.y1 = p.y0-.5, p.y1+.5
	}
	p.xs = ticks(p.x0, p.x1, 8)
	p.ys = ticks(p.y0, p.y1, 6)
	// The vertical axis ends on ticks, so that a curve does not run along the frame.
	step := p.ys[1] - p.ys[0]
	p.y0, p.y1 = math.Floor(p.y0/step)*step, math.Ceil(p.y1/step)*step
	p.ys = ticks(p.y0, p.y1, 6)
	return p
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
	for i := math.Ceil(a/step - 1e-9); i*step <= b+step*1e-9; i++ {
		out = append(out, i*step)
	}
	for len(out) < 2 {
		out = append(out, a+float64(len(out))*step)
	}
	return out
}

func (p plot) px(x float64) float64 {
	return chartLeft + (x-p.x0)/(p.x1-p.x0)*(chartWidth-chartLeft-chartRight)
}

func (p plot) py(y float64) float64 {
	return chartTop + (p.y1-y)/(p.y1-p.y0)*(chartHeight-chartTop-chartBottom)
}

func (p plot) grid(out io.Writer, xLabel, yLabel string) {
	const bottom = chartHeight - chartBottom
	for _, x := range p.xs {
		fmt.Fprintf(out, `<line x1="%[1]s" y1="%[2]d" x2="%[1]s" y2="%[3]d" stroke="#e4e4e4"/><text x="%[1]s" y="%[4]d" text-anchor="middle" fill="#555555">%[5]s</text>`+"\n",
			px(p.px(x)), chartTop, bottom, bottom+16, label(x))
	}
	for _, y := range p.ys {
		fmt.Fprintf(out, `<line x1="%[1]d" y1="%[2]s" x2="%[3]d" y2="%[2]s" stroke="#e4e4e4"/><text x="%[4]d" y="%[5]s" text-anchor="end" fill="#555555">%[6]s</text>`+"\n",
			chartLeft, px(p.py(y)), chartWidth-chartRight, chartLeft-6, px(p.py(y)+4), label(y))
	}
	fmt.Fprintf(out, `<rect x="%d" y="%d" width="%d" height="%d" fill="none" stroke="#999999"/>`+"\n",
		chartLeft, chartTop, chartWidth-chartLeft-chartRight, bottom-chartTop)
	fmt.Fprintf(out, `<text x="%d" y="%d" text-anchor="middle" fill="#222222">%s</text>`+"\n",
		(chartLeft+chartWidth-chartRight)/2, chartHeight-14, escape(xLabel))
	middle := (chartTop + bottom) / 2
	fmt.Fprintf(out, `<text x="16" y="%[1]d" text-anchor="middle" fill="#222222" transform="rotate(-90 16 %[1]d)">%[2]s</text>`+"\n", middle, escape(yLabel))
}

func (p plot) curve(out io.Writer, s series) {
	points := thin(s.points, p.x0, p.x1)
	if len(points) == 0 {
		return
	}
	fmt.Fprintf(out, `<polyline fill="none" stroke="%s" stroke-width="1.5" stroke-linejoin="round" points="`, s.color)
	for i, q := range points {
		if i > 0 {
			fmt.Fprint(out, " ")
		}
		fmt.Fprintf(out, "%s,%s", px(p.px(q.x)), px(p.py(q.y)))
	}
	fmt.Fprintln(out, `"/>`)
	if s.dots {
		for _, q := range points {
			fmt.Fprintf(out, `<circle cx="%s" cy="%s" r="3" fill="%s"/>`+"\n", px(p.px(q.x)), px(p.py(q.y)), s.color)
		}
	}
}

// thin keeps the finite points and, of many that fall into one column, the lowest and the highest in their order.
func thin(points []point, x0, x1 float64) []point {
	var out []point
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
		if !finite(q.x) || !finite(q.y) {
			continue
		}
		c := int((q.x - x0) / (x1 - x0) * maxColumns)
		if c != column {
			flush()
			column, low, high = c, i, i
			continue
		}
		if q.y < points[low].y {
			low = i
		}
		if q.y > points[high].y {
			high = i
		}
	}
	flush()
	return out
}

func finite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// px is a coordinate with a tenth of a pixel.
func px(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }

// label is a tick's value without noise in its last digits.
func label(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }

var escaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;")

func escape(s string) string { return escaper.Replace(s) }
