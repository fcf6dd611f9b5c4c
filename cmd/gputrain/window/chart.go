package window

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// series is a curve of a chart.
type series struct {
	label  string
	color  rgba
	points []point
	width  float64
	dots   bool // a dot at each point too
}

// chart is curves over the steps.
type chart struct {
	title, unit string
	series      []series // the last on top
	logarithmic bool     // where that shows more
	empty       string   // said while there is nothing to draw
}

// axis maps values to pixels.
type axis struct {
	low, high   float64 // as logarithms where logarithmic
	from, to    float64 // pixels
	logarithmic bool
}

func (a axis) at(v float64) float64 {
	if a.logarithmic {
		v = math.Log10(v)
	}
	return a.from + (v-a.low)/(a.high-a.low)*(a.to-a.from)
}

// ticks are round values within the axis, about so many.
func (a axis) ticks(about int) []float64 {
	var out []float64
	if a.logarithmic {
		for e := math.Floor(a.low); e <= a.high; e++ {
			for _, m := range []float64{1, 2, 5} {
				v := m * math.Pow(10, e)
				if l := math.Log10(v); l >= a.low && l <= a.high && (m == 1 || a.high-a.low < 2) {
					out = append(out, v)
				}
			}
		}
		return out
	}
	step := roundStep((a.high - a.low) / float64(about))
	for i := math.Ceil(a.low / step); i*step <= a.high; i++ {
		out = append(out, i*step)
	}
	return out
}

// roundStep is the least of 1, 2 and 5 times a power of ten that is not below x.
func roundStep(x float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(x)))
	for _, m := range []float64{1, 2, 5} {
		if m*power >= x {
			return m * power
		}
	}
	return 10 * power
}

// extent is the axis of the values of all series, from the pixel of the lowest to that of the highest.
func (h chart) extent(from, to float64) (axis, bool) {
	low, high := math.Inf(1), math.Inf(-1)
	for _, s := range h.series {
		for _, p := range s.points {
			if finite(p.Value) {
				low, high = min(low, p.Value), max(high, p.Value)
			}
		}
	}
	if low > high {
		return axis{}, false
	}
	a := axis{low: low, high: high, from: from, to: to}
	if h.logarithmic && low > 0 && high > 20*low {
		a.logarithmic, a.low, a.high = true, math.Log10(low), math.Log10(high)
	}
	margin := 0.04 * (a.high - a.low)
	if margin <= 1e-9*max(math.Abs(a.low), math.Abs(a.high)) { // one value but for rounding
		margin = max(math.Abs(a.high)*0.1, 1e-6)
	}
	a.low, a.high = a.low-margin, a.high+margin
	return a, true
}

// draw draws the chart into a box. mouse is where the pointer is.
func (h chart) draw(c *canvas, b box, mouse *[2]float64) {
	u := c.Unit
	c.fill(b, panelColor)
	c.text(b.X+8*u, b.Y+7*u, 1, textColor, h.title)
	c.text(b.X+8*u+c.width(1, h.title+"  "), b.Y+7*u, 1, dimColor, h.unit)
	plot := box{b.X + 46*u, b.Y + 24*u, b.W - 58*u, b.H - 44*u}
	y, any := h.extent(plot.Y+plot.H, plot.Y)
	if !any || plot.W < 20 || plot.H < 10 {
		c.text(b.X+(b.W-c.width(1, h.empty))/2, b.Y+b.H/2, 1, dimColor, h.empty)
		return
	}
	x := h.steps(plot)
	h.grid(c, plot, x, y)
	for _, s := range h.series {
		s.draw(c, plot, x, y)
	}
	var at *int64
	if mouse != nil && plot.contains(mouse[0], mouse[1]) {
		step := int64(math.Round(x.low + (mouse[0]-x.from)/(x.to-x.from)*(x.high-x.low)))
		at = &step
		c.line(mouse[0], plot.Y, mouse[0], plot.Y+plot.H, 1, dimColor)
		c.text(min(mouse[0]+4*u, plot.X+plot.W-c.width(0.9, "step "+grouped(step))), plot.Y+plot.H-9*u, 0.9, textColor, "step "+grouped(step))
	}
	h.legend(c, b, at)
}

// steps is the axis of the steps.
func (h chart) steps(plot box) axis {
	first, last := int64(math.MaxInt64), int64(math.MinInt64)
	for _, s := range h.series {
		if n := len(s.points); n > 0 {
			first, last = min(first, s.points[0].Step), max(last, s.points[n-1].Step)
		}
	}
	return axis{low: float64(first), high: float64(max(last, first+1)), from: plot.X, to: plot.X + plot.W}
}

func (h chart) grid(c *canvas, plot box, x, y axis) {
	u := c.Unit
	for _, v := range y.ticks(max(2, int(plot.H/(30*u)))) {
		at := math.Round(y.at(v))
		c.fill(box{plot.X, at, plot.W, 1}, gridColor)
		label := number(v)
		c.text(plot.X-6*u-c.width(0.9, label), at-2.7*u, 0.9, dimColor, label)
	}
	for _, v := range x.ticks(max(2, int(plot.W/(80*u)))) {
		if v != math.Round(v) {
			continue
		}
		at := math.Round(x.at(v))
		label := grouped(int64(v))
		c.fill(box{at, plot.Y, 1, plot.H}, gridColor)
		c.text(min(max(at-c.width(0.9, label)/2, plot.X-4*u), plot.X+plot.W+8*u-c.width(0.9, label)), plot.Y+plot.H+6*u, 0.9, dimColor, label)
	}
}

func (s series) draw(c *canvas, plot box, x, y axis) {
	width := s.width * max(1, c.Unit)
	runs, broken := decimate(s.points, func(step int64) int { return int(x.at(float64(step)) - plot.X) })
	for _, run := range runs {
		for i, p := range run {
			from := run[max(0, i-1)]
			c.line(x.at(float64(from.Step)), y.at(from.Value), x.at(float64(p.Step)), y.at(p.Value), width, s.color)
			if s.dots {
				c.line(x.at(float64(p.Step)), y.at(p.Value), x.at(float64(p.Step)), y.at(p.Value), 3*width, s.color)
			}
		}
	}
	for _, p := range broken {
		at := x.at(float64(p.Step))
		c.line(at, plot.Y, at, plot.Y+6*c.Unit, 2, alarmColor)
	}
}

// legend names the curves with their newest value, or that of a step.
func (h chart) legend(c *canvas, b box, step *int64) {
	right := b.X + b.W - 12*c.Unit
	for _, s := range slices.Backward(h.series) {
		if len(s.points) == 0 {
			continue
		}
		p := s.points[len(s.points)-1]
		if step != nil {
			i, _ := slices.BinarySearchFunc(s.points, *step, func(p point, step int64) int { return int(p.Step - step) })
			p = s.points[min(i, len(s.points)-1)]
		}
		text := strings.TrimSpace(s.label + " " + number(p.Value))
		right -= c.width(1, text)
		if right < b.X+8*c.Unit+c.width(1, h.title+"  "+h.unit+"   ") {
			return
		}
		c.text(right, b.Y+7*c.Unit, 1, s.color, text)
		right -= 14 * c.Unit
	}
}

// number is a value with four digits that count.
func number(v float64) string {
	switch {
	case math.IsNaN(v):
		return "NaN"
	case v == 0:
		return "0"
	case math.Abs(v) >= 1e6 || math.Abs(v) < 1e-3:
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	text := strconv.FormatFloat(v, 'f', max(0, 3-int(math.Floor(math.Log10(math.Abs(v))))), 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// grouped is an integer with commas.
func grouped(n int64) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
