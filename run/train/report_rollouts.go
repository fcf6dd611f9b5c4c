package train

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"gputrain/internal/svg"
	"gputrain/run/grpo"
)

// rolloutsPicture has curves of rewards and of lengths.
const rolloutsPicture = "reward.svg"

// mostGenerations and mostCompletions are how many of them a report shows, the newest.
const mostGenerations, mostCompletions = 12, 4

// rolledOut is what a report tells of generations.
type rolledOut struct {
	steps               []Metrics // of the newest
	reward, length, cut curve
	means               map[string]*curve // of each function
	lines               []grpo.Line       // of the newest generation
}

// add takes the line of a step.
func (r *rolledOut) add(m Metrics) {
	if m.Rollout == nil {
		return
	}
	if r.steps = append(r.steps, m); len(r.steps) > mostGenerations {
		r.steps = r.steps[1:]
	}
	if r.means == nil {
		r.means = map[string]*curve{}
	}
	step := float64(m.Step)
	for name, v := range m.Rollout {
		of, isMean := strings.CutSuffix(name, "/mean")
		switch {
		case isMean:
			of = strings.TrimPrefix(of, "rewards/")
			if r.means[of] == nil {
				r.means[of] = &curve{}
			}
			r.means[of].add(step, float64(v))
		case name == "reward":
			r.reward.add(step, float64(v))
		case name == "mean_length":
			r.length.add(step, float64(v))
		case name == "truncated_share":
			r.cut.add(step, 100*float64(v))
		}
	}
}

// read takes the completions of the newest generation up to a step.
func (r *rolledOut) read(dir string, step int64) (damaged []int, err error) {
	return readLines(filepath.Join(dir, rolloutsFile), func(line []byte) error {
		if !bytes.HasSuffix(line, []byte("\n")) {
			return nil
		}
		var one []grpo.Line
		if err := appendLine(&one, line); err != nil || one[0].Step > step {
			return err
		}
		if len(r.lines) > 0 && r.lines[0].Step != one[0].Step {
			r.lines = nil
		}
		r.lines = append(r.lines, one...)
		return nil
	})
}

// write writes a section of the report.
func (r rolledOut) write(out io.Writer) {
	if len(r.steps) == 0 {
		return
	}
	names := slices.Sorted(maps.Keys(r.means))
	fmt.Fprintf(out, "\n## Rollouts\n\nGenerations, by the step that first learned from each; a dash: nothing was said.\n\n| step | reward | deviation |")
	for _, name := range names {
		fmt.Fprintf(out, " %s |", cell(name))
	}
	fmt.Fprintf(out, " tokens a completion | cut | groups without a difference |\n|%s\n", strings.Repeat("---:|", 6+len(names)))
	for _, m := range r.steps {
		f := m.Rollout
		number := func(name string) string {
			if v, there := f[name]; there {
				return fmt.Sprintf("%.4f", float64(v))
			}
			return "-"
		}
		fmt.Fprintf(out, "| %d | %s | %s |", m.Step, number("reward"), number("reward_std"))
		for _, name := range names {
			fmt.Fprintf(out, " %s |", number("rewards/"+name+"/mean"))
		}
		fmt.Fprintf(out, " %.1f | %s | %s |\n", float64(f["mean_length"]), percent(float64(f["truncated_share"])), percent(float64(f["zero_std_share"])))
	}
	for _, l := range r.lines {
		fmt.Fprintf(out, "\nStep %d, row %d of the text:\n\n%s\n", l.Step, l.Row, indented(l.Prompt))
		for _, c := range l.Completions[:min(mostCompletions, len(l.Completions))] {
			fmt.Fprintf(out, "\n%s:\n\n%s\n", sideCell(gotText(c)), indented(c.Text))
		}
	}
}

// panels are the curves of generations.
func (r rolledOut) panels() []svg.Panel {
	if len(r.steps) == 0 {
		return nil
	}
	rewards := svg.Panel{XLabel: "step", YLabel: "reward, mean of a generation", Series: []svg.Series{{Name: "reward", Color: blue, Points: r.reward.points}}}
	for i, name := range slices.Sorted(maps.Keys(r.means)) {
		rewards.Series = append(rewards.Series, svg.Series{Name: name, Color: stageColors[(i+1)%len(stageColors)], Dashed: true, Points: r.means[name].points})
	}
	return []svg.Panel{rewards, {XLabel: "step", YLabel: "tokens a completion; % cut", Series: []svg.Series{
		{Name: "tokens", Color: blue, Points: r.length.points}, {Name: "cut", Color: red, Points: r.cut.points},
	}}}
}

// gotText is what a completion got.
func gotText(c grpo.Completion) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(c.Rewards)) {
		said := "nothing"
		if v := c.Rewards[name]; v != nil {
			said = fmt.Sprintf("%.4g", *v)
		}
		parts = append(parts, name+" "+said)
	}
	cut := ""
	if c.Truncated {
		cut = ", cut"
	}
	return fmt.Sprintf("%s; advantage %.3f; %d tokens%s", strings.Join(parts, ", "), c.Advantage, c.Tokens, cut)
}
