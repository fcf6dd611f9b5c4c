package train

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gputrain/gpu"
	"gputrain/internal/svg"
	"gputrain/model"
)

// figures are the rows that come from the metrics.
func (h *history) figures() facts {
	var f facts
	if h.lines > 0 {
		first, last := h.first, h.last
		f.add("steps", "%s", grouped(last.Step))
		f.add(model.Telling(last.Figures).Counts, "%s", grouped(last.Tokens))
		if last.Epoch > 0 {
			f.add("epochs", "%.3f", float64(last.Epoch))
		}
		f.add("training loss", "%.4f at step %d, %.4f at step %d (one step each)", float64(first.Loss), first.Step, float64(last.Loss), last.Step)
		f.add("time in steps", "%s", leftText(time.Duration(h.ms*float64(time.Millisecond))))
		if h.ms > 0 {
			f = append(f, h.speed()...)
		}
		if use := h.use(); use.Busy != nil {
			f.add("stages", "busy %s of the time in steps; nothing to do %s, transfers %s", busyText(use.Busy), percent(use.Bubble), percent(use.Transfer))
		}
		if last.Skipped > 0 {
			f.add("updates left out (not finite)", "%s", grouped(last.Skipped))
		}
	}
	if best := h.best(); best != nil {
		last := h.evals[len(h.evals)-1]
		if last.Rollout != nil {
			f.add("validation reward", "%.4f at step %d; best %.4f at step %d", 0-float64(last.Loss), last.Step, 0-float64(best.Loss), best.Step)
			return f
		}
		f.add("validation loss", "%.4f at step %d; best %.4f at step %d", float64(last.Loss), last.Step, float64(best.Loss), best.Step)
	}
	return f
}

// best is the evaluation of the lowest loss; nil where there is none.
func (h *history) best() *EvalMetrics {
	if len(h.evals) == 0 {
		return nil
	}
	best := &h.evals[0]
	for i, e := range h.evals {
		if e.Loss < best.Loss || best.Loss != best.Loss {
			best = &h.evals[i]
		}
	}
	return best
}

// speed is what the lines of metrics tell of it, as means over the time of their steps.
func (h *history) speed() (f facts) {
	var s Status
	h.mean(&s)
	f.add(s.counted()+" a second in steps", "%s in the loss, %s tokens computed", rate(float64(s.TokensPerSecond)), rate(float64(s.PaddedTokensPerSecond)))
	if s.MFU > 0 {
		f.add("model operations", "%.1f%% of the peak (mfu)", 100*float64(s.MFU))
	}
	f.add("wait for data", "%.1f%% of the time in steps", 100*float64(s.DataWait))
	if h.last.GradNormClipped > 0 {
		f.add("clipped", "%s of the steps", percent(float64(s.Clipped)))
	}
	return f
}

func writeEvals(out io.Writer, evals []EvalMetrics) {
	if len(evals) == 0 {
		return
	}
	fmt.Fprint(out, "\n## Validation\n\n")
	if evals[0].Rollout != nil {
		fmt.Fprint(out, "| step | reward | tokens a completion | cut | completions |\n|---:|---:|---:|---:|---:|\n")
		for _, e := range evals {
			f := e.Rollout
			fmt.Fprintf(out, "| %d | %.4f | %.1f | %s | %s |\n", e.Step, float64(f["reward"]), float64(f["mean_length"]), percent(float64(f["truncated_share"])), grouped(e.Tokens))
		}
		return
	}
	if l := model.Telling(evals[0].Figures); l.Shown != nil {
		names := slices.Concat([]string{"step", "loss"}, l.Shown, []string{l.Counts})
		fmt.Fprintf(out, "| %s |\n|%s\n", strings.Join(names, " | "), strings.Repeat("---:|", len(names)))
		for _, e := range evals {
			fmt.Fprintf(out, "| %d | %.4f | %s | %s |\n", e.Step, float64(e.Loss), strings.Join(shownFigures(l, e.Figures), " | "), grouped(e.Tokens))
		}
		return
	}
	fmt.Fprint(out, "| step | loss (nats a token) | perplexity | tokens |\n|---:|---:|---:|---:|\n")
	for _, e := range evals {
		fmt.Fprintf(out, "| %d | %.4f | %.3f | %s |\n", e.Step, float64(e.Loss), perplexity(e.Loss), grouped(e.Tokens))
	}
}

// writeTimes tells where the time of this process went.
func writeTimes(out io.Writer, spans []Span) {
	all := whole(spans)
	if all == 0 {
		return
	}
	fmt.Fprint(out, "\n## Time\n\n| | seconds | share |\n|---|---:|---:|\n")
	for _, s := range spans {
		share := "beside"
		if !s.Beside {
			share = fmt.Sprintf("%.1f%%", 100*float64(s.Spent)/float64(all))
		}
		fmt.Fprintf(out, "| %s | %.3f | %s |\n", s.Name, s.Spent.Seconds(), share)
	}
	fmt.Fprintf(out, "| **all of it, since the last resume** | %.3f | |\n", all.Seconds())
}

// memory is what one place gives: a device, or the process.
type memory struct {
	name               string
	planned, now, most uint64 // planned 0: nobody has
}

func writeMemory(out io.Writer, rows []memory) {
	if len(rows) == 0 {
		return
	}
	fmt.Fprint(out, "\n## Memory\n\n| | planned | at the end | at most |\n|---|---:|---:|---:|\n")
	for _, m := range rows {
		planned := ""
		if m.planned > 0 {
			planned = gpu.SizeText(m.planned)
		}
		fmt.Fprintf(out, "| %s | %s | %s | %s |\n", cell(m.name), planned, gpu.SizeText(m.now), gpu.SizeText(m.most))
	}
}

// work is the operations of one kind, forward and backward.
type work struct {
	Kind  string  `json:"kind"`
	FLOPs float64 `json:"flops"` // a token
}

func writeWork(out io.Writer, rows []work) {
	all := 0.0
	for _, w := range rows {
		all += w.FLOPs
	}
	if all == 0 {
		return
	}
	fmt.Fprint(out, "\n## Operations a token\n\nForward and backward pass, counted one by one; those of the optimizer come besides.\n\n| | operations | share |\n|---|---:|---:|\n")
	for _, w := range rows {
		fmt.Fprintf(out, "| %s | %s | %.1f%% |\n", w.Kind, grouped(int64(w.FLOPs+.5)), 100*w.FLOPs/all)
	}
	fmt.Fprintf(out, "| **all** | %s | |\n", grouped(int64(all+.5)))
}

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
func (h *history) writePictures(out io.Writer, dir, title string) error {
	for _, p := range []struct {
		name, alt string
		panels    []svg.Panel
	}{
		{lossPicture, "loss over steps", []svg.Panel{h.lossPanel()}},
		{gradientPicture, "learning rate and norm of the gradient over steps", h.gradientPanels()},
		{rolloutsPicture, "rewards and lengths of completions over steps", h.rolledOut.panels()},
		{speedPicture, "tokens a second and time of a step over steps", h.speedPanels()},
		{usePicture, "use of the devices over steps", h.usePanels()},
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
		if err := replaceFile(path, picture.Bytes()); err != nil {
			return err
		}
		fmt.Fprintf(out, "![%s](%s)\n\n", p.alt, p.name)
	}
	return nil
}

// lossPanel draws training loss, its running mean and validation loss over steps.
func (h *history) lossPanel() svg.Panel {
	label := "loss, nats a token"
	if model.Telling(h.last.Figures).Counts != "tokens" {
		label = "loss"
	}
	panel := svg.Panel{XLabel: "step", YLabel: label, Series: []svg.Series{
		{Name: "training", Color: light, Faint: true, Points: h.loss.points},
		{Name: fmt.Sprintf("mean of %d", windowSize), Color: blue, Points: h.meanLoss.points},
	}}
	var validation []svg.Point
	for _, e := range h.evals {
		if e.Rollout != nil { // a reward, which is no loss
			continue
		}
		validation = append(validation, svg.Point{X: float64(e.Step), Y: float64(e.Loss)})
	}
	if len(validation) > 0 {
		panel.Series = append(panel.Series, svg.Series{Name: "validation", Color: red, Dots: true, Points: validation})
	}
	return panel
}

func (h *history) gradientPanels() []svg.Panel {
	if h.lines == 0 {
		return nil
	}
	norm := svg.Panel{XLabel: "step", YLabel: "global norm of the gradient", Series: []svg.Series{
		{Name: "norm", Color: blue, Points: h.gradNorm.points},
	}}
	if h.last.GradNormClipped > 0 {
		norm.Series[0].Faint = true
		norm.Series = append(norm.Series, svg.Series{Name: "clipped", Color: blue, Points: h.clippedNorm.points})
	}
	return []svg.Panel{{XLabel: "step", YLabel: "learning rate", Series: []svg.Series{{Color: blue, Points: h.rate.points}}}, norm}
}

func (h *history) speedPanels() []svg.Panel {
	if h.lines == 0 {
		return nil
	}
	tokens := svg.Panel{XLabel: "step", YLabel: model.Telling(h.last.Figures).Counts + " a second", Top: h.usualComputed.usual(), Series: []svg.Series{
		{Color: light, Faint: true, Points: h.counted.points},
		{Name: fmt.Sprintf("in the loss, mean of %d", windowSize), Color: blue, Points: h.meanCounted.points},
	}}
	if h.padding {
		tokens.Series = append(tokens.Series, svg.Series{Name: "computed", Color: violet, Points: h.meanComputed.points})
	}
	ms := svg.Panel{XLabel: "step", YLabel: "milliseconds a step", Top: h.usualMS.usual(), Series: []svg.Series{
		{Name: "step", Color: blue, Points: h.stepMS.points},
		{Name: "device", Color: green, Dashed: true, Points: h.deviceMS.points},
		{Name: "wait for data", Color: red, Points: h.waitMS.points},
	}}
	return []svg.Panel{tokens, ms}
}

// usePanels are how much of the peak is made use of, and how much of their time stages work, as far as either is known.
func (h *history) usePanels() (panels []svg.Panel) {
	if h.last.MFU > 0 {
		panels = append(panels, svg.Panel{XLabel: "step", YLabel: "% of the peak (mfu)", Top: h.usualMFU.usual(), Series: []svg.Series{
			{Name: "each step", Color: light, Faint: true, Points: h.mfu100.points},
			{Name: fmt.Sprintf("mean of %d", windowSize), Color: blue, Points: h.meanMFU.points},
		}})
	}
	if len(h.last.StageBusy) > 0 {
		busy := svg.Panel{XLabel: "step", YLabel: "% of the time in which a stage computes"}
		for i := range h.last.StageBusy {
			busy.Series = append(busy.Series, svg.Series{
				Name: fmt.Sprintf("stage %d", i), Color: stageColors[i%len(stageColors)], Dashed: i >= len(stageColors), Points: h.stagesBusy[i].points,
			})
		}
		panels = append(panels, busy)
	}
	return panels
}
