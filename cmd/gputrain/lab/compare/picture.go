package compare

import (
	"bytes"
	"fmt"
	"math"

	"gputrain/internal/svg"
)

// colors can be told from white and from almost black (a contrast of 3 or more to both).
var colors = []string{"#3b82f6", "#d97706", "#16a34a", "#ef4444", "#a855f7", "#0d9488", "#db2777", "#857000", "#6b7f93", "#b45309"}

// picture is compare.svg: loss over steps and over seconds, a thin curve for each run and a mean one for each entrant, and a dashed
// line where the baseline ends.
func (c *Comparison) picture() ([]byte, error) {
	steps := svg.Panel{XLabel: "step", YLabel: "validation loss, nats a token", Direct: true, Top: c.top()}
	seconds := svg.Panel{XLabel: "seconds of training", YLabel: steps.YLabel, Direct: true, Top: steps.Top}
	if target := c.target(); !math.IsNaN(target.loss) {
		level := func(end float64) svg.Series {
			return svg.Series{Color: "#808080", Faint: true, Dashed: true, Points: []svg.Point{{X: 0, Y: target.loss}, {X: end, Y: target.loss}}}
		}
		steps.Series = append(steps.Series, level(float64(c.Steps)))
		seconds.Series = append(seconds.Series, level(target.seconds))
	}
	for i, e := range c.Entrants {
		color := colors[i%len(colors)]
		add := func(name string, curve []sample) {
			s := svg.Series{Name: name, Color: color, Faint: name == ""}
			t := s
			for _, p := range curve {
				s.Points = append(s.Points, svg.Point{X: float64(p.step), Y: p.loss})
				t.Points = append(t.Points, svg.Point{X: p.seconds, Y: p.loss})
			}
			steps.Series, seconds.Series = append(steps.Series, s), append(seconds.Series, t)
		}
		if len(e.Runs) > 1 {
			for _, r := range e.Runs {
				add("", mean([]Run{r}))
			}
		}
		add(e.Label, mean(e.shown()))
	}
	var out bytes.Buffer
	err := svg.Chart{Title: fmt.Sprintf("%s, %s", c.Title, count(len(c.Seeds), "seed")), Panels: []svg.Panel{steps, seconds}}.Write(&out)
	return out.Bytes(), err
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// shown are the runs whose mean is drawn: the finished ones, or all where none is.
func (e *Entrant) shown() []Run {
	if runs := e.finished(); len(runs) > 0 {
		return runs
	}
	return e.Runs
}

// top cuts off what stands far above the others: curves that never learned, and the beginnings of all, so that the ends can be told
// apart. It is the highest of the curves that end below the baseline's first loss, a fifth of the way in.
func (c *Comparison) top() float64 {
	first := math.Inf(1)
	if b := c.baseline(); b != nil {
		if curve := mean(b.shown()); len(curve) > 0 {
			first = curve[0].loss
		}
	}
	top := 0.0
	for _, e := range c.Entrants {
		curve := mean(e.shown())
		if len(curve) == 0 || !(curve[len(curve)-1].loss <= first) {
			continue
		}
		for _, p := range curve {
			if p.step*5 >= c.Steps && !math.IsInf(p.loss, 0) {
				top = max(top, p.loss)
				break
			}
		}
	}
	return top
}
