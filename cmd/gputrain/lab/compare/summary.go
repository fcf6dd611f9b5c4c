package compare

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"text/tabwriter"

	"gputrain/internal/svg"
	"gputrain/run/train"
)

// Summary is what an entrant's runs say together. What is not known is NaN, in JSON "NaN".
type Summary struct {
	Done     int `json:"done"` // runs that made all their steps; the other figures are of these alone
	Diverged int `json:"diverged"`
	// FinalLoss is the mean of the last evaluations, Spread their standard deviation (of a sample; NaN for one run).
	FinalLoss train.Number `json:"final_loss"`
	Spread    train.Number `json:"spread"`
	// ReachedStep is the first evaluated step at which the mean curve is at the baseline's final loss or below, and
	// ReachedSeconds the mean time of training up to it; StepFraction and SecondsFraction are of all the steps of the
	// baseline and of its seconds for them. 0 and NaN where it has not got there.
	ReachedStep     int64        `json:"reached_step"`
	StepFraction    train.Number `json:"step_fraction"`
	ReachedSeconds  train.Number `json:"reached_seconds"`
	SecondsFraction train.Number `json:"seconds_fraction"`
	StepSeconds     train.Number `json:"step_seconds"` // median over all steps of all runs: of the runs' medians
}

// sample is a point of a mean curve.
type sample struct {
	step          int64
	seconds, loss float64
}

// finished are the runs that made all their steps.
func (e *Entrant) finished() []Run {
	return slices.DeleteFunc(slices.Clone(e.Runs), func(r Run) bool { return r.Ended != done || len(r.Steps) == 0 })
}

// mean is the mean curve of runs, as far as all of them go.
func mean(runs []Run) []sample {
	var curve []sample
	for i := 0; len(runs) > 0; i++ {
		var s sample
		for _, r := range runs {
			if i >= len(r.Steps) {
				return curve
			}
			s.step = r.Steps[i]
			s.seconds += float64(r.Seconds[i]) / float64(len(runs))
			s.loss += float64(r.EvalLoss[i]) / float64(len(runs))
		}
		curve = append(curve, s)
	}
	return curve
}

// baseline is the entrant that the others are held to.
func (c *Comparison) baseline() *Entrant {
	for _, e := range c.Entrants {
		if e.Label == c.Baseline {
			return e
		}
	}
	return nil
}

// target is the end of the baseline's mean curve; NaN before it has one.
func (c *Comparison) target() sample {
	if b := c.baseline(); b != nil {
		if curve := mean(b.finished()); len(curve) > 0 {
			return curve[len(curve)-1]
		}
	}
	return sample{loss: math.NaN()}
}

func (c *Comparison) summarize() {
	target := c.target()
	for _, e := range c.Entrants {
		e.Summary = e.summary(target)
	}
}

func (e *Entrant) summary(target sample) Summary {
	nan := train.Number(math.NaN())
	runs := e.finished()
	s := Summary{
		Done: len(runs), FinalLoss: nan, Spread: nan, StepFraction: nan, ReachedSeconds: nan, SecondsFraction: nan, StepSeconds: nan,
	}
	var medians []float64
	for _, r := range e.Runs {
		if r.Ended != done {
			s.Diverged++
		}
	}
	for _, r := range runs {
		medians = append(medians, float64(r.StepSeconds))
	}
	curve := mean(runs)
	if len(curve) == 0 {
		return s
	}
	s.StepSeconds = train.Number(median(medians))
	final := curve[len(curve)-1].loss
	s.FinalLoss = train.Number(final)
	if len(runs) > 1 {
		squares := 0.0
		for _, r := range runs {
			d := float64(r.EvalLoss[len(r.EvalLoss)-1]) - final
			squares += d * d
		}
		s.Spread = train.Number(math.Sqrt(squares / float64(len(runs)-1)))
	}
	for _, p := range curve {
		if p.loss <= target.loss {
			s.ReachedStep, s.ReachedSeconds = p.step, train.Number(p.seconds)
			s.StepFraction = train.Number(float64(p.step) / float64(target.step))
			s.SecondsFraction = train.Number(p.seconds / target.seconds)
			break
		}
	}
	return s
}

// rows are the table, its head first.
func (c *Comparison) rows() [][]string {
	goal := c.Baseline + "'s loss"
	rows := [][]string{{"optimizer", "steps", "learning rate", "validation loss", "steps to " + goal, "of its steps", "s a step", "s to " + goal, "of its s"}}
	for _, e := range c.Entrants {
		s := e.Summary
		loss := figure("%.4f", s.FinalLoss)
		if !math.IsNaN(float64(s.Spread)) {
			loss += figure(" ± %.4f", s.Spread)
		}
		if s.Diverged > 0 {
			loss = strings.TrimPrefix(fmt.Sprintf("%s, %d of %d diverged", loss, s.Diverged, len(e.Runs)), "-, ")
		}
		reached := "-"
		if s.ReachedStep > 0 {
			reached = fmt.Sprint(s.ReachedStep)
		}
		rows = append(rows, []string{
			e.Label, fmt.Sprint(e.Steps), fmt.Sprintf("%g", e.LearningRate), loss, reached, figure("%.2f", s.StepFraction), figure("%.4f", s.StepSeconds),
			figure("%.1f", s.ReachedSeconds), figure("%.2f", s.SecondsFraction),
		})
	}
	return rows
}

func figure(format string, n train.Number) string {
	if math.IsNaN(float64(n)) {
		return "-"
	}
	return fmt.Sprintf(format, float64(n))
}

// Table writes the table as text.
func (c *Comparison) Table(w io.Writer) error {
	c.summarize()
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for i, row := range c.rows() {
		text := strings.Join(row, "\t")
		if i == 0 {
			text = strings.ToUpper(text)
		}
		fmt.Fprintln(out, text)
	}
	return out.Flush()
}

// markdown is compare.md: the picture, the table, and all that one must know to make it again.
func (c *Comparison) markdown() []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "# %s\n\n%s\n\n", c.Title, pictureLine)
	for i, row := range c.rows() {
		fmt.Fprintf(&out, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			out.WriteString("|---|" + strings.Repeat("---:|", len(row)-1) + "\n")
		}
	}
	fmt.Fprintf(&out, "\nValidation loss in nats a token after the last step, %d where nothing else stands: mean ± standard deviation over the seeds %s. ", c.Steps, seeds(c.Seeds))
	fmt.Fprintf(&out, "An optimizer has reached %s's loss at the first evaluation (%s) at which its mean curve is at %s's last mean or below. ",
		c.Baseline, every(c.EvalEvery), c.Baseline)
	fmt.Fprintf(&out, "Seconds are those of training steps, the median of a step and the sum up to there, without evaluation and saving; the first step, and any of more than %d medians, count as a median one (drivers build kernels at first use). ", stalled)
	out.WriteString("All runs of a seed begin with the same weights and see the same batches.\n")
	fmt.Fprintf(&out, "\nAdapter: %s.\n", c.Adapter)
	out.WriteString("\n## Settings of each\n\n| optimizer | name | peak rate | from | rate at the end | parameters other than the defaults | what else its file says |\n|---|---|---:|---|---:|---|---|\n")
	for _, e := range c.Entrants {
		fmt.Fprintf(&out, "| %s | %s | %g | %s | %g | %s | %s |\n", e.Label, e.Optimizer, e.LearningRate, e.RateFrom, e.RateEnd, inline(e.Parameters), inline(e.Options))
	}
	out.WriteString("\n## Settings in common that are not defaults\n\n")
	for _, key := range slices.Sorted(maps.Keys(c.Origins)) {
		value, _ := json.Marshal(c.Settings[key])
		fmt.Fprintf(&out, "- `%s: %s` (%s)\n", key, value, c.Origins[key])
	}
	out.WriteString("\n## Runs\n\n| run | seed | ended | last validation loss | best | seconds |\n|---|---:|---|---:|---:|---:|\n")
	for _, e := range c.Entrants {
		for _, r := range e.Runs {
			last, best, seconds := train.Number(math.NaN()), train.Number(math.NaN()), train.Number(math.NaN())
			if n := len(r.EvalLoss); n > 0 {
				last, best, seconds = r.EvalLoss[n-1], slices.Min(r.EvalLoss), r.Seconds[n-1]
			}
			fmt.Fprintf(&out, "| [%s](%s/report.md) | %d | %s | %s | %s | %s |\n", r.Dir, r.Dir, r.Seed, r.Ended, figure("%.4f", last), figure("%.4f", best), figure("%.1f", seconds))
		}
	}
	return out.Bytes()
}

func every(n int64) string {
	if n == 0 {
		return "only at the end"
	}
	return fmt.Sprintf("every %d steps", n)
}

func seeds(list []uint64) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(list), " ", ", "), "[]")
}

func inline(parameters map[string]any) string {
	if len(parameters) == 0 {
		return "-"
	}
	raw, err := json.Marshal(parameters)
	if err != nil {
		return fmt.Sprint(parameters)
	}
	return "`" + string(raw) + "`"
}

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
