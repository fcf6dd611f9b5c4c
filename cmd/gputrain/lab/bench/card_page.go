package bench

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gputrain/gpu"
	"gputrain/internal/terminal"
)

// Files of a measured card.
const (
	CardPage = "card.md"
	CardJSON = "card.json"
)

var notInNames = regexp.MustCompile(`[^a-z0-9.]+`)

// CardFolder is a folder's name for an adapter.
func CardFolder(a gpu.Adapter) string {
	return "card-" + strings.Trim(notInNames.ReplaceAllString(strings.ToLower(a.Name+" "+a.Backend), "-"), "-")
}

// Write writes both files into a folder that is there.
func (c Card) Write(dir string) error {
	raw, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("bench: card: %w", err)
	}
	for name, text := range map[string]string{CardJSON: string(raw) + "\n", CardPage: c.Page()} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return fmt.Errorf("bench: card: %w", err)
		}
	}
	return nil
}

// page is Markdown that is being written.
type page struct{ strings.Builder }

func (p *page) say(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

func (p *page) section(title string) { p.say("\n## %s\n", title) }

// table writes rows of cells; the first column is text, all others are numbers.
func (p *page) table(heads []string, rows [][]string) {
	p.say("| %s |", strings.Join(heads, " | "))
	p.say("|---%s|", strings.Repeat("|---:", len(heads)-1))
	for _, r := range rows {
		for i, cell := range r {
			r[i] = strings.ReplaceAll(line(cell), "|", `\|`)
		}
		p.say("| %s |", strings.Join(r, " | "))
	}
}

// Page is the card for people.
func (c Card) Page() string {
	p := &page{}
	p.say("# %s, %s\n", c.Adapter.Name, c.Adapter.Backend)
	p.say("Measured by `gputrain bench --card` on %s in %.0f s, at %s scale. [What each section means](README.md).", c.Begun.Format("2006-01-02"), c.Seconds, c.Scale)
	if c.Ended != "" {
		p.say("\n**It ended before its time: %s.** What had been measured by then follows.", c.Ended)
	}
	p.section("Who it is")
	p.table([]string{"", ""}, [][]string{
		{"adapter", fmt.Sprintf("%s, %s, %s (%s)", c.Adapter.Name, c.Adapter.Backend, c.Adapter.Type, c.Adapter.Class)},
		{"driver", c.Adapter.Driver},
		{"processor", fmt.Sprintf("%s, %d cores", cmp.Or(c.Processor, "unknown"), c.Cores)},
		{"memory that the machine can give", gpu.SizeText(c.Memory)},
		{"program", c.Program},
		{"features", fmt.Sprintf("timestamps: %t, operands read as texels: %d", c.Adapter.Timestamps, c.Adapter.Texels)},
	})
	p.say("")
	var limits [][]string
	for _, name := range slices.Sorted(maps.Keys(c.Adapter.Limits)) {
		limits = append(limits, []string{name, fmt.Sprint(c.Adapter.Limits[name])})
	}
	p.table([]string{"limit", "value"}, limits)
	p.gaps(c)
	p.parts(c)
	p.starts(c)
	p.checks(c)
	for _, part := range c.Parts {
		if len(part.Figures) > 0 {
			p.figures(part)
		}
	}
	p.models(c)
	return p.String()
}

// line is text of a terminal in one line.
func line(text string) string { return strings.Join(strings.Fields(terminal.Visible(text)), " ") }

func (p *page) gaps(c Card) {
	p.section("The largest gaps, and what to try")
	if len(c.Gaps) == 0 {
		p.say("None.")
	}
	for i, g := range c.Gaps {
		p.say("%d. %s. Try: %s.", i+1, line(g.What), g.Try)
	}
}

func (p *page) parts(c Card) {
	p.section("What was measured")
	var rows [][]string
	for _, part := range c.Parts {
		note := cmp.Or(part.Failed, part.Short)
		rows = append(rows, []string{part.Name, fmt.Sprintf("%d of %d", part.Done, part.Of), fmt.Sprintf("%.1f", part.Seconds), fmt.Sprintf("%.0f", part.Budget), note})
	}
	p.table([]string{"part", "done", "seconds", "of", "what is missing"}, rows)
}

func (p *page) starts(c Card) {
	p.section("Time to the first step")
	var rows [][]string
	for _, s := range c.Starts {
		var spans []string
		for _, span := range s.Spans {
			if !span.Beside && span.Seconds > 0.01*s.Seconds {
				spans = append(spans, fmt.Sprintf("%s %s", span.Name, digits(span.Seconds)))
			}
		}
		rows = append(rows, []string{s.Caches, digits(s.Seconds), strings.Join(spans, ", ")})
	}
	p.table([]string{"driver's caches", "seconds", "of it"}, rows)
}

func (p *page) checks(c Card) {
	p.section("Checks")
	failed, worst := [][]string{}, 0
	for i, r := range c.Checks {
		if !r.Pass {
			failed = append(failed, []string{r.Case, digits(r.MaxError), digits(r.Tolerance), cmp.Or(r.Error, r.Worst)})
		}
		if r.Tolerance > 0 && r.MaxError/r.Tolerance > c.Checks[worst].MaxError/max(c.Checks[worst].Tolerance, math.SmallestNonzeroFloat64) {
			worst = i
		}
	}
	p.say("%d passed, %d FAILED.", len(c.Checks)-len(failed), len(failed))
	if len(c.Checks) > 0 {
		w := c.Checks[worst]
		p.say("Nearest to its tolerance, or farthest beyond: %s, error %s of %s.", w.Case, digits(w.MaxError), digits(w.Tolerance))
	}
	if len(failed) > 0 {
		p.say("")
		p.table([]string{"FAILED", "error", "tolerance", "where"}, failed)
	}
}

func (p *page) figures(part cardPart) {
	p.section(strings.ToUpper(part.Name[:1]) + part.Name[1:])
	best := 0.0
	for _, f := range part.Figures {
		best = max(best, f.Value)
	}
	var rows [][]string
	for _, f := range part.Figures {
		r := []string{f.Bench, digits(f.Value), f.Unit, "", ""}
		if f.Millis > 0 {
			r[3] = digits(f.Millis)
		}
		switch {
		case f.Kernels != "":
			r[4] = fmt.Sprintf("%s of the best, %s", digits(f.Value/best), f.Kernels)
		case f.Of != "":
			r[4] = fmt.Sprintf("%s of %s", digits(f.Ratio), f.Of)
		}
		rows = append(rows, r)
	}
	p.table([]string{"", "speed", "unit", "ms", "beside"}, rows)
}

func (p *page) models(c Card) {
	p.section("Training steps")
	p.say("With AdamW, on random tokens; computed as `gputrain plan --step` does, from the speed of copies and products here.\n")
	var rows, memory [][]string
	for _, m := range c.Models {
		rows = append(rows, []string{
			m.Name, fmt.Sprint(m.Parameters), fmt.Sprint(m.Tokens), m.Recompute, digits(m.Seconds), digits(m.Predicted), digits(m.Ratio), digits(m.TokensPerSecond), digits(m.Create),
		})
		memory = append(memory, []string{
			m.Name, gpu.SizeText(m.Planned), gpu.SizeText(m.Taken), digits(float64(m.Taken) / float64(max(1, m.Planned))), fmt.Sprint(m.Dispatches), fmt.Sprint(m.Submits),
			digits(m.LongestSubmit), digits(m.SubmitLimit),
		})
	}
	p.table([]string{"model", "parameters", "tokens a step", "recomputed", "s a step", "computed", "ratio", "tokens/s", "s to create"}, rows)
	p.say("")
	p.table([]string{"model", "memory planned", "taken", "ratio", "dispatches a step", "submits", "longest, expected s", "limit"}, memory)
	for _, m := range c.Models {
		p.say("\n### %s\n", m.Name)
		p.say("`--set %s`\n", strings.Join(m.Set, " --set "))
		if m.Missing != "" {
			p.say("No times of operations: %s.", line(m.Missing))
			continue
		}
		p.say("A step takes %s s where its passes are timed.\n", digits(m.Profiled))
		if wrong := m.impossible(fastest(c)); wrong != "" {
			p.say("**%s.**\n", wrong)
		}
		var rows [][]string
		for _, o := range m.Operations {
			rows = append(rows, []string{
				o.Name, digits(1e3 * o.Seconds), digits(1e3 * o.Predicted), digits(o.Ratio), fmt.Sprintf("%.1f %%", 100*o.Seconds/m.Profiled),
				digits(o.Needed / 1e9), digits(o.Executed / 1e9), digits(o.Executed / 1e12 / o.Seconds), digits(o.Bytes / 1e9 / o.Seconds),
			})
		}
		p.table([]string{"operation", "ms", "computed", "ratio", "of the step", "GFLOP needed", "executed", "TFLOP/s", "GB/s"}, rows)
	}
}

// digits is a number with three of them.
func digits(x float64) string {
	if math.Abs(x) >= 1000 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.3g", x)
}
