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

	"gputrain/train"
)

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
	out.WriteString("\n## Settings of each\n\n| optimizer | name | peak rate | from | rate at the end | parameters other than the defaults |\n|---|---|---:|---|---:|---|\n")
	for _, e := range c.Entrants {
		fmt.Fprintf(&out, "| %s | %s | %g | %s | %g | %s |\n", e.Label, e.Optimizer, e.LearningRate, e.RateFrom, e.RateEnd, inline(e.Parameters))
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
