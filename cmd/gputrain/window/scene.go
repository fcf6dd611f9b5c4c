package window

import (
	"fmt"
	"math"
	"strings"
)

var (
	panelColor = Color{22, 27, 34}
	gridColor  = Color{36, 43, 53}
	textColor  = Color{222, 228, 236}
	dimColor   = Color{130, 141, 156}
	lossColor  = Color{88, 166, 255}
	validColor = Color{255, 179, 84}
	normColor  = Color{126, 214, 150}
	alarmColor = Color{255, 92, 92}
)

// Picture is a Scene laid out: shapes, and over them the bars of the histograms in their boxes.
type Picture struct {
	Shapes []byte
	Bars   []Box
}

// Lay lays out what is seen on a window of so many pixels. scale is 1 where a pixel is as large as it was on desks of old; mouse is
// where the pointer is, nil where it is elsewhere.
func Lay(s Seen, width, height int, scale float64, mouse *[2]float64) Picture {
	c := &Canvas{Unit: 1.25 * scale}
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
	return Picture{Shapes: c.Shapes(), Bars: bars}
}

// boxes are the parts of the window.
type boxes struct{ header, loss, norm, weights, sample Box }

// lay puts curves on the left, weights and text on the right, or all below each other where the window is narrow.
func lay(w, h, u float64) boxes {
	gap := math.Round(6 * u)
	top := math.Round(22 * u)
	all := Box{gap, gap, w - 2*gap, h - 2*gap}
	b := boxes{header: Box{all.X, all.Y, all.W, top}}
	y, rest := all.Y+top+gap, all.H-top-gap
	if w < 640*u {
		part := math.Floor((rest - 3*gap) / 4)
		stack := func(i float64) Box { return Box{all.X, y + i*(part+gap), all.W, part} }
		b.loss, b.norm, b.weights, b.sample = stack(0), stack(1), stack(2), stack(3)
		return b
	}
	left := math.Floor((all.W - gap) * 0.58)
	upper := math.Floor((rest - gap) * 0.58)
	b.loss = Box{all.X, y, left, upper}
	b.norm = Box{all.X, y + upper + gap, left, rest - upper - gap}
	b.weights = Box{all.X + left + gap, y, all.W - left - gap, upper}
	b.sample = Box{all.X + left + gap, y + upper + gap, all.W - left - gap, rest - upper - gap}
	return b
}

func header(c *Canvas, b Box, s Seen) {
	u := c.Unit
	c.Text(b.X+2*u, b.Y+3*u, 1.3, textColor, s.Title)
	x := b.X + 2*u + c.Width(1.3, s.Title) + 16*u
	c.Text(x, b.Y+4.5*u, 1, dimColor, s.Status)
	if s.Last == nil {
		return
	}
	progress := "step " + grouped(s.Last.Step)
	if s.Steps > 0 {
		progress += " of " + grouped(s.Steps)
		c.Fill(Box{b.X, b.Y + b.H - 3*u, b.W, 1.5 * u}, gridColor)
		c.Fill(Box{b.X, b.Y + b.H - 3*u, b.W * min(1, float64(s.Last.Step)/float64(s.Steps)), 1.5 * u}, lossColor)
	}
	figures := []string{
		progress,
		rate(float64(s.Last.TokensPerSecond)) + " tokens/s",
		number(float64(s.Last.StepMS)) + " ms/step",
		"lr " + number(float64(s.Last.LearningRate)),
	}
	left := x + c.Width(1, s.Status+"  ")
	for ; len(figures) > 0; figures = figures[:len(figures)-1] {
		text := strings.Join(figures, "   ")
		if at := b.X + b.W - 2*u - c.Width(1, text); at > left || len(figures) == 1 {
			c.Text(at, b.Y+4.5*u, 1, textColor, text)
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
func histograms(c *Canvas, b Box, s Seen) []Box {
	u := c.Unit
	c.Fill(b, panelColor)
	c.Text(b.X+8*u, b.Y+7*u, 1, textColor, "weights")
	c.Text(b.X+8*u+c.Width(1, "weights  "), b.Y+7*u, 1, dimColor, s.Source)
	n := len(s.Histograms)
	if n == 0 {
		c.Text(b.X+8*u, b.Y+b.H/2, 1, dimColor, "not counted yet")
		return nil
	}
	in := Box{b.X + 8*u, b.Y + 24*u, b.W - 16*u, b.H - 28*u}
	columns := max(1, min(n, int(in.W/(170*u))))
	rows := max(0, min((n+columns-1)/columns, int(in.H/(34*u))))
	w, h := math.Floor(in.W/float64(columns)), math.Floor(in.H/float64(max(1, rows)))
	bars := make([]Box, n) // those that there is no room for have none
	for i, g := range s.Histograms[:min(n, rows*columns)] {
		cell := Box{in.X + float64(i%columns)*w, in.Y + float64(i/columns)*h, w - 8*u, h}
		limit := "±" + number(g.Range())
		label := shorten(g.Label, int((cell.W-c.Width(0.9, limit))/(0.9*u*letterAdvance))-2)
		c.Text(cell.X, cell.Y, 0.9, dimColor, label)
		c.Text(cell.X+cell.W-c.Width(0.9, limit), cell.Y, 0.9, dimColor, limit)
		box := Box{cell.X, cell.Y + 10*u, cell.W, cell.H - 18*u}
		c.Fill(Box{box.X, box.Y + box.H, box.W, 1}, gridColor)
		c.Fill(Box{box.X + math.Floor(box.W/2), box.Y, 1, box.H}, gridColor)
		if bad := g.NonFinite(); bad > 0 {
			c.Text(box.X, box.Y, 0.9, alarmColor, grouped(int64(bad))+" not finite")
		}
		bars[i] = box
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

func sample(c *Canvas, b Box, s Seen) {
	u := c.Unit
	c.Fill(b, panelColor)
	c.Text(b.X+8*u, b.Y+7*u, 1, textColor, "sample")
	if s.Sample == nil {
		c.Text(b.X+8*u, b.Y+b.H/2, 1, dimColor, "none yet")
		return
	}
	c.Text(b.X+8*u+c.Width(1, "sample  "), b.Y+7*u, 1, dimColor, fmt.Sprintf("step %s", grouped(s.Sample.Step)))
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
		c.Text(x, y, 1, dimColor, string(letters[:own]))
		c.Text(x+u*letterAdvance*float64(own), y, 1, textColor, string(letters[own:]))
		written += len(letters)
		if written < len(prompt) && prompt[written] == '\n' {
			written++
		}
	}
}
