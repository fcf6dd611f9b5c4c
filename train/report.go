package train

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Files of a run directory beside run.yaml and checkpoints.
const (
	metricsFile = "metrics.jsonl"
	samplesFile = "samples.jsonl"
	reportFile  = "report.md"
	chartFile   = "loss.svg"
)

// facts are the lines of a report's table that are known before the first step.
type facts []fact

type fact struct{ name, value string }

func (f *facts) add(name, format string, args ...any) {
	*f = append(*f, fact{name, fmt.Sprintf(format, args...)})
}

// writeReport writes loss.svg and report.md of a run directory, from its files and what the run knows of itself. It can be written
// again at any time; an older one is replaced whole.
func writeReport(dir, title string, known facts, settings []Setting) error {
	steps, evals, err := readMetrics(filepath.Join(dir, metricsFile))
	if err != nil {
		return err
	}
	samples, err := readSamples(filepath.Join(dir, samplesFile))
	if err != nil {
		return err
	}
	var picture, out bytes.Buffer
	if err := lossChart(title, steps, evals).Write(&picture); err != nil {
		return fmt.Errorf("train: report: %w", err)
	}
	fmt.Fprintf(&out, "# %s\n\n![loss over steps](%s)\n\n", title, chartFile)
	table := append(facts{}, known...)
	table = append(table, figures(steps, evals)...)
	out.WriteString("| | |\n|---|---|\n")
	for _, f := range table {
		fmt.Fprintf(&out, "| %s | %s |\n", cell(f.name), cell(f.value))
	}
	if len(evals) > 0 {
		out.WriteString("\n## Validation\n\n| step | loss (nats a token) | perplexity | tokens |\n|---:|---:|---:|---:|\n")
		for _, e := range evals {
			fmt.Fprintf(&out, "| %d | %.4f | %.3f | %s |\n", e.Step, float64(e.Loss), perplexity(e.Loss), grouped(e.Tokens))
		}
	}
	if len(samples) > 0 {
		out.WriteString("\n## Samples\n")
		for _, s := range samples[max(0, len(samples)-3):] {
			fmt.Fprintf(&out, "\nStep %d, temperature %g, top %d, seed %d:\n\n%s\n", s.Step, s.Temperature, s.TopK, s.Seed, indented(s.Prompt+s.Text))
		}
	}
	text, err := settingsText(settings)
	if err != nil {
		return err
	}
	fmt.Fprintf(&out, "\n## Settings\n\n```yaml\n%s```\n", text)
	if err := replaceFile(filepath.Join(dir, chartFile), picture.Bytes()); err != nil {
		return err
	}
	return replaceFile(filepath.Join(dir, reportFile), out.Bytes())
}

// lossChart draws training loss, its running mean and validation loss over steps.
func lossChart(title string, steps []Metrics, evals []EvalMetrics) Chart {
	var raw, mean, validation []Point
	var w window
	for _, m := range steps {
		raw = append(raw, Point{float64(m.Step), float64(m.Loss)})
		w.add(float64(m.Loss))
		mean = append(mean, Point{float64(m.Step), w.mean()})
	}
	for _, e := range evals {
		validation = append(validation, Point{float64(e.Step), float64(e.Loss)})
	}
	panel := Panel{XLabel: "step", YLabel: "loss, nats a token", Series: []Series{
		{Name: "training", Color: "#3d8bd9", Faint: true, Points: raw},
		{Name: fmt.Sprintf("mean of %d", windowSize), Color: "#2f7fd0", Points: mean},
	}}
	if len(validation) > 0 {
		panel.Series = append(panel.Series, Series{Name: "validation", Color: "#d1495b", Dots: true, Points: validation})
	}
	return Chart{Title: title, Panels: []Panel{panel}}
}

// figures are the rows that come from the metrics.
func figures(steps []Metrics, evals []EvalMetrics) facts {
	var f facts
	if len(steps) > 0 {
		first, last := steps[0], steps[len(steps)-1]
		ms := 0.0
		for _, m := range steps {
			ms += float64(m.StepMS)
		}
		f.add("steps", "%s", grouped(last.Step))
		f.add("tokens", "%s", grouped(last.Tokens))
		f.add("training loss", "%.4f at step %d, %.4f at step %d (one step each)", float64(first.Loss), first.Step, float64(last.Loss), last.Step)
		f.add("time in steps", "%s", leftText(time.Duration(ms*float64(time.Millisecond))))
		if ms > 0 {
			f.add("tokens a second in steps", "%s", grouped(int64(float64(last.Tokens)/ms*1000)))
		}
		if use := meanUse(steps); use.Busy != nil {
			f.add("stages", "busy %s of the time in steps; nothing to do %s, transfers %s", busyText(use.Busy), percent(use.Bubble), percent(use.Transfer))
		}
		if last.Skipped > 0 {
			f.add("updates left out (not finite)", "%s", grouped(last.Skipped))
		}
	}
	if len(evals) > 0 {
		best := evals[0]
		for _, e := range evals {
			if e.Loss < best.Loss {
				best = e
			}
		}
		last := evals[len(evals)-1]
		f.add("validation loss", "%.4f at step %d; best %.4f at step %d", float64(last.Loss), last.Step, float64(best.Loss), best.Step)
	}
	return f
}

func readSamples(path string) ([]Sample, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("train: samples: %w", err)
	}
	var out []Sample
	for number, line := range bytes.Split(data, []byte("\n")) {
		if len(line) == 0 {
			continue
		}
		var s Sample
		if err := json.Unmarshal(line, &s); err != nil {
			return nil, fmt.Errorf("train: samples %q: line %d: %w", path, number+1, err)
		}
		out = append(out, s)
	}
	return out, nil
}

// cell keeps a text inside its cell of a table.
func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ", "\r", " ").Replace(s)
}

// indented is a text as a code block, whatever is in it.
func indented(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || r >= ' ' && r != 0x7f {
			return r
		}
		return '\ufffd'
	}, s)
	return "    " + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n    ")
}

// replaceFile puts a file in place in one go.
func replaceFile(path string, data []byte) error {
	temporary := path + ".tmp"
	f, err := os.Create(temporary)
	if err != nil {
		return fmt.Errorf("train: write: %w", err)
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		return fmt.Errorf("train: write: %w", err)
	}
	return nil
}
