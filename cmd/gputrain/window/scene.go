package window

import (
	"fmt"
	"math"
	"strings"
)

var (
	panelColor = rgba{22, 27, 34}
	gridColor  = rgba{36, 43, 53}
	textColor  = rgba{222, 228, 236}
	dimColor   = rgba{130, 141, 156}
	lossColor  = rgba{88, 166, 255}
	validColor = rgba{255, 179, 84}
	normColor  = rgba{126, 214, 150}
	alarmColor = rgba{255, 92, 92}
)

// picture is a scene laid out: shapes, and over them the bars of the histograms in their boxes.
type picture struct {
	Shapes []byte
	Bars   []box
}

// layOut lays out what is seen on a window of so many pixels. scale is 1 where a pixel is as large as it was on desks of old; mouse is
// where the pointer is, nil where it is elsewhere.
func layOut(s seen, width, height int, scale float64, mouse *[2]float64) picture {
	c := &canvas{Unit: 1.25 * scale}
	b := lay(float64(width), float64(height), c.Unit)
	header(c, b.header, s)
	faint := lossColor.mix(panelColor, 0.45)
	chart{title: "loss", unit: "nats a token", empty: "no step yet", series: []series{
		{label: "step", color: faint, points: s.Loss, width: 0.8},
		{label: "mean of 32", color: lossColor, points: s.Mean, width: 1.4},
		{label: "validation", color: validColor, points: s.Validation, width: 1.4, dots: true},
	}}.draw(c, b.loss, mouse)
	chart{title: "gradient norm", unit: "before clipping", empty: "no step yet", logarithmic: true, series: []series{
		{color: normColor, points: s.GradNorm, width: 1},
	}}.draw(c, b.norm, mouse)
	bars := histograms(c, b.weights, s)
	sample(c, b.sample, s)
	return picture{Shapes: c.shapes, Bars: bars}
}

// boxes are the parts of the window.
type boxes struct{ header, loss, norm, weights, sample box }

// lay puts curves on the left, weights and text on the right, or all below each other where the window is narrow.
func lay(w, h, u float64) boxes {
	gap := math.Round(6 * u)
	top := math.Round(22 * u)
	all := box{gap, gap, w - 2*gap, h - 2*gap}
	b := boxes{header: box{all.X, all.Y, all.W, top}}
	y, rest := all.Y+top+gap, all.H-top-gap
	if w < 640*u {
		part := math.Floor((rest - 3*gap) / 4)
		stack := func(i float64) box { return box{all.X, y + i*(part+gap), all.W, part} }
		b.loss, b.norm, b.weights, b.sample = stack(0), stack(1), stack(2), stack(3)
		return b
	}
	left := math.Floor((all.W - gap) * 0.58)
	upper := math.Floor((rest - gap) * 0.58)
	b.loss = box{all.X, y, left, upper}
	b.norm = box{all.X, y + upper + gap, left, rest - upper - gap}
	b.weights = box{all.X + left + gap, y, all.W - left - gap, upper}
	b.sample = box{all.X + left + gap, y + upper + gap, all.W - left - gap, rest - upper - gap}
	return b
}

func header(c *canvas, b box, s seen) {
	u := c.Unit
	c.text(b.X+2*u, b.Y+3*u, 1.3, textColor, s.Title)
	x := b.X + 2*u + c.width(1.3, s.Title) + 16*u
	c.text(x, b.Y+4.5*u, 1, dimColor, s.Status)
	if s.Last == nil {
		return
	}
	progress := "step " + grouped(s.Last.Step)
	if s.Steps > 0 {
		progress += " of " + grouped(s.Steps)
		c.fill(box{b.X, b.Y + b.H - 3*u, b.W, 1.5 * u}, gridColor)
		c.fill(box{b.X, b.Y + b.H - 3*u, b.W * min(1, float64(s.Last.Step)/float64(s.Steps)), 1.5 * u}, lossColor)
	}
	figures := []string{
		progress,
		rate(float64(s.Last.TokensPerSecond)) + " tokens/s",
		number(float64(s.Last.StepMS)) + " ms/step",
		"lr " + number(float64(s.Last.LearningRate)),
	}
	left := x + c.width(1, s.Status+"  ")
	for ; len(figures) > 0; figures = figures[:len(figures)-1] {
		text := strings.Join(figures, "   ")
		if at := b.X + b.W - 2*u - c.width(1, text); at > left || len(figures) == 1 {
			c.text(at, b.Y+4.5*u, 1, textColor, text)
			return
		}
	}
}

// rate is a speed without a fraction.
func rate(v float64) string {
	if !finite(v) {
		return number(v)
	}
	return grouped(int64(math.Round(v)))
}

// histograms lays out the panels of the weights, and returns where their bars go.
func histograms(c *canvas, b box, s seen) []box {
	u := c.Unit
	c.fill(b, panelColor)
	c.text(b.X+8*u, b.Y+7*u, 1, textColor, "weights")
	c.text(b.X+8*u+c.width(1, "weights  "), b.Y+7*u, 1, dimColor, s.Source)
	n := len(s.Histograms)
	if n == 0 {
		c.text(b.X+8*u, b.Y+b.H/2, 1, dimColor, "not counted yet")
		return nil
	}
	in := box{b.X + 8*u, b.Y + 24*u, b.W - 16*u, b.H - 28*u}
	columns := max(1, min(n, int(in.W/(170*u))))
	rows := max(0, min((n+columns-1)/columns, int(in.H/(34*u))))
	w, h := math.Floor(in.W/float64(columns)), math.Floor(in.H/float64(max(1, rows)))
	bars := make([]box, n) // those that there is no room for have none
	for i, g := range s.Histograms[:min(n, rows*columns)] {
		cell := box{in.X + float64(i%columns)*w, in.Y + float64(i/columns)*h, w - 8*u, h}
		limit := "±" + number(g.rangeOf())
		label := shorten(g.Label, int((cell.W-c.width(0.9, limit))/(0.9*u*letterAdvance))-2)
		c.text(cell.X, cell.Y, 0.9, dimColor, label)
		c.text(cell.X+cell.W-c.width(0.9, limit), cell.Y, 0.9, dimColor, limit)
		area := box{cell.X, cell.Y + 10*u, cell.W, cell.H - 18*u}
		c.fill(box{area.X, area.Y + area.H, area.W, 1}, gridColor)
		c.fill(box{area.X + math.Floor(area.W/2), area.Y, 1, area.H}, gridColor)
		if bad := g.nonFinite(); bad > 0 {
			c.text(area.X, area.Y, 0.9, alarmColor, grouped(int64(bad))+" not finite")
		}
		bars[i] = area
	}
	return bars
}

// shorten leaves out the middle of what is longer than so many letters.
func shorten(text string, most int) string {
	if len(text) <= most || most < 5 {
		return text[:max(0, min(len(text), most))]
	}
	head := (most - 2) / 2
	return text[:head] + ".." + text[len(text)-(most-2-head):]
}

func sample(c *canvas, b box, s seen) {
	u := c.Unit
	c.fill(b, panelColor)
	c.text(b.X+8*u, b.Y+7*u, 1, textColor, "sample")
	if s.Sample == nil {
		c.text(b.X+8*u, b.Y+b.H/2, 1, dimColor, "none yet")
		return
	}
	c.text(b.X+8*u+c.width(1, "sample  "), b.Y+7*u, 1, dimColor, fmt.Sprintf("step %s", grouped(s.Sample.Step)))
	columns := int((b.W - 16*u) / (u * letterAdvance))
	rows := int((b.H - 26*u) / (u * lineAdvance))
	if columns < 4 || rows < 1 {
		return
	}
	prompt := []rune(strings.ReplaceAll(s.Sample.Prompt, "\t", tab))
	written := 0 // letters of the prompt that have been drawn
	for i, line := range wrap(s.Sample.Prompt+s.Sample.Text, columns) {
		if i == rows {
			return
		}
		x, y := b.X+8*u, b.Y+20*u+float64(i)*u*lineAdvance
		own := max(0, min(len([]rune(line)), len(prompt)-written))
		letters := []rune(line)
		c.text(x, y, 1, dimColor, string(letters[:own]))
		c.text(x+u*letterAdvance*float64(own), y, 1, textColor, string(letters[own:]))
		written += len(letters)
		if written < len(prompt) && prompt[written] == '\n' {
			written++
		}
	}
}
