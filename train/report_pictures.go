package train

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"

	"gputrain/internal/svg"
)

// Pictures of a report.
const (
	lossPicture     = "loss.svg"
	gradientPicture = "gradient.svg"
	speedPicture    = "speed.svg"
	usePicture      = "use.svg"
)

// Colours of curves.
const (
	blue, light   = "#2f7fd0", "#3d8bd9"
	red, green    = "#d1495b", "#2e9e6b"
	amber, violet = "#c98a1b", "#7b6cd0"
)

var stageColors = []string{blue, red, green, amber, violet}

// writePictures writes the pictures that there is something to see in, and shows them.
func writePictures(out io.Writer, dir, title string, steps []Metrics, evals []EvalMetrics) error {
	for _, p := range []struct {
		name, alt string
		panels    []svg.Panel
	}{
		{lossPicture, "loss over steps", []svg.Panel{lossPanel(steps, evals)}},
		{gradientPicture, "learning rate and norm of the gradient over steps", gradientPanels(steps)},
		{speedPicture, "tokens a second and time of a step over steps", speedPanels(steps)},
		{usePicture, "use of the devices over steps", usePanels(steps)},
	} {
		path := filepath.Join(dir, p.name)
		if len(p.panels) == 0 {
			if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("train: report: %w", err)
			}
			continue
		}
		var picture bytes.Buffer
		if err := (svg.Chart{Title: title, Panels: p.panels}).Write(&picture); err != nil {
			return fmt.Errorf("train: report: %w", err)
		}
		if err := ReplaceFile(path, picture.Bytes()); err != nil {
			return err
		}
		fmt.Fprintf(out, "![%s](%s)\n\n", p.alt, p.name)
	}
	return nil
}

// lossPanel draws training loss, its running mean and validation loss over steps.
func lossPanel(steps []Metrics, evals []EvalMetrics) svg.Panel {
	var mean, validation []svg.Point
	var w window
	for _, m := range steps {
		w.add(float64(m.Loss))
		mean = append(mean, svg.Point{X: float64(m.Step), Y: w.mean()})
	}
	for _, e := range evals {
		validation = append(validation, svg.Point{X: float64(e.Step), Y: float64(e.Loss)})
	}
	raw := points(steps, func(m Metrics) Number { return m.Loss })
	panel := svg.Panel{XLabel: "step", YLabel: "loss, nats a token", Series: []svg.Series{
		{Name: "training", Color: light, Faint: true, Points: raw},
		{Name: fmt.Sprintf("mean of %d", windowSize), Color: blue, Points: mean},
	}}
	if len(validation) > 0 {
		panel.Series = append(panel.Series, svg.Series{Name: "validation", Color: red, Dots: true, Points: validation})
	}
	return panel
}

func gradientPanels(steps []Metrics) []svg.Panel {
	if len(steps) == 0 {
		return nil
	}
	norm := svg.Panel{XLabel: "step", YLabel: "global norm of the gradient", Series: []svg.Series{
		{Name: "norm", Color: blue, Points: points(steps, func(m Metrics) Number { return m.GradNorm })},
	}}
	if steps[len(steps)-1].GradNormClipped > 0 {
		norm.Series[0].Faint = true
		norm.Series = append(norm.Series, svg.Series{Name: "clipped", Color: blue, Points: points(steps, func(m Metrics) Number { return m.GradNormClipped })})
	}
	rate := svg.Panel{XLabel: "step", YLabel: "learning rate", Series: []svg.Series{
		{Color: blue, Points: points(steps, func(m Metrics) Number { return m.LearningRate })},
	}}
	return []svg.Panel{rate, norm}
}

func speedPanels(steps []Metrics) []svg.Panel {
	if len(steps) == 0 {
		return nil
	}
	computed := func(m Metrics) Number { return m.PaddedTokensPerSecond }
	counted := func(m Metrics) Number { return m.TokensPerSecond }
	tokens := svg.Panel{XLabel: "step", YLabel: "tokens a second", Top: usual(points(steps, computed)), Series: []svg.Series{
		{Color: light, Faint: true, Points: points(steps, counted)},
		{Name: fmt.Sprintf("in the loss, mean of %d", windowSize), Color: blue, Points: means(steps, counted)},
	}}
	if slices.ContainsFunc(steps, func(m Metrics) bool { return m.PaddedTokensPerSecond > m.TokensPerSecond }) {
		tokens.Series = append(tokens.Series, svg.Series{Name: "computed", Color: violet, Points: means(steps, computed)})
	}
	step := points(steps, func(m Metrics) Number { return m.StepMS })
	ms := svg.Panel{XLabel: "step", YLabel: "milliseconds a step", Top: usual(step), Series: []svg.Series{
		{Name: "step", Color: blue, Points: step},
		{Name: "device", Color: green, Dashed: true, Points: points(steps, func(m Metrics) Number { return m.DeviceMS })},
		{Name: "wait for data", Color: red, Points: points(steps, func(m Metrics) Number { return m.DataWaitMS })},
	}}
	return []svg.Panel{tokens, ms}
}

// usePanels are how much of the peak is made use of, and how much of their time stages work, as far as either is known.
func usePanels(steps []Metrics) (panels []svg.Panel) {
	if len(steps) == 0 {
		return nil
	}
	last := steps[len(steps)-1]
	if last.MFU > 0 {
		mfu := func(m Metrics) Number { return 100 * m.MFU }
		each := points(steps, mfu)
		panels = append(panels, svg.Panel{XLabel: "step", YLabel: "% of the peak (mfu)", Top: usual(each), Series: []svg.Series{
			{Name: "each step", Color: light, Faint: true, Points: each},
			{Name: fmt.Sprintf("mean of %d", windowSize), Color: blue, Points: means(steps, mfu)},
		}})
	}
	if len(last.StageBusy) > 0 {
		busy := svg.Panel{XLabel: "step", YLabel: "% of the time in which a stage computes"}
		for i := range last.StageBusy {
			busy.Series = append(busy.Series, svg.Series{
				Name: fmt.Sprintf("stage %d", i), Color: stageColors[i%len(stageColors)], Dashed: i >= len(stageColors),
				Points: points(steps, func(m Metrics) Number {
					if i >= len(m.StageBusy) {
						return Number(math.NaN())
					}
					return 100 * m.StageBusy[i]
				}),
			})
		}
		panels = append(panels, busy)
	}
	return panels
}

func points(steps []Metrics, of func(m Metrics) Number) []svg.Point {
	out := make([]svg.Point, 0, len(steps))
	for _, m := range steps {
		out = append(out, svg.Point{X: float64(m.Step), Y: float64(of(m))})
	}
	return out
}

// means are those of a rate or share over the last steps, by time.
func means(steps []Metrics, of func(m Metrics) Number) []svg.Point {
	value, took := make([]float64, len(steps)), make([]float64, len(steps))
	out := make([]svg.Point, 0, len(steps))
	for i, m := range steps {
		value[i], took[i] = float64(of(m))*float64(m.StepMS), float64(m.StepMS)
		from := max(0, i+1-windowSize)
		out = append(out, svg.Point{X: float64(m.Step), Y: sum(value[from:i+1]) / sum(took[from:i+1])})
	}
	return out
}

func sum(values []float64) (s float64) {
	for _, v := range values {
		s += v
	}
	return s
}

// usual is what few of the values are above: steps that take many times as long as others, or seem to take no
// time, would make all the others look alike.
func usual(points []svg.Point) float64 {
	var values []float64
	for _, p := range points {
		if finite(p.Y) {
			values = append(values, p.Y)
		}
	}
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return 2 * values[len(values)*95/100]
}
