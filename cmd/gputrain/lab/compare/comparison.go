// Package compare puts the runs of several optimizers side by side: the same model, text, steps and seeds, each run from the same initial
// weights and over the same batches as the others of its seed.
package compare

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"gputrain/internal/atomicfile"
	"gputrain/internal/stranger"
	"gputrain/internal/svg"
	"gputrain/run/train"
)

// format is the version of compare.json.
const format = 1

// Comparison is compare.json: what was compared, the curves of every run, and what they say.
type Comparison struct {
	Format    int      `json:"format"`
	Title     string   `json:"title"`
	Adapter   string   `json:"adapter"`
	Steps     int64    `json:"steps"`
	EvalEvery int64    `json:"eval_every"` // 0: at the end only
	Seeds     []uint64 `json:"seeds"`
	// Baseline is the label of the entrant whose final loss the others are held to.
	Baseline string            `json:"baseline"`
	Settings map[string]any    `json:"settings"` // that all runs have in common, by key of the run file
	Origins  map[string]string `json:"origins"`  // of those that are not defaults
	Entrants []*Entrant        `json:"entrants"`
}

// Entrant is an optimizer with the settings that are its own.
type Entrant struct {
	Label        string         `json:"label"`
	Steps        int64          `json:"steps"` // of each run, and of its schedule
	Optimizer    string         `json:"optimizer"`
	LearningRate float64        `json:"learning_rate"` // peak
	RateEnd      float64        `json:"learning_rate_end"`
	RateFrom     string         `json:"learning_rate_from"`
	Parameters   map[string]any `json:"parameters,omitempty"` // that differ from the optimizer's defaults
	Options      map[string]any `json:"options,omitempty"`    // what else its own file says, by key of the run file
	Runs         []Run          `json:"runs"`
	Summary      Summary        `json:"summary"`
}

// Run is one run's curve: validation loss after Steps[i] updates and Seconds[i] of training, evaluation and saving left out.
type Run struct {
	Seed        uint64         `json:"seed"`
	Dir         string         `json:"dir"`
	Ended       string         `json:"ended"` // done, or diverged at step N
	Steps       []int64        `json:"steps"`
	Seconds     []train.Number `json:"seconds"`
	EvalLoss    []train.Number `json:"eval_loss"`
	StepSeconds train.Number   `json:"step_seconds"` // median
}

// done is how a run has ended that made all its steps.
const done = "done"

// ReadRun reads the curve of the run in dir; diverged is that of a run that lost its numbers.
func ReadRun(dir string, seed uint64, diverged *train.DivergedError) (Run, error) {
	r := Run{Seed: seed, Dir: filepath.Base(dir), Ended: done}
	if diverged != nil {
		r.Ended = fmt.Sprintf("diverged at step %d", diverged.Step)
	}
	steps, evals, err := train.ReadMetrics(dir)
	if err != nil {
		return r, err
	}
	times, typical := trainingTimes(steps)
	r.StepSeconds = train.Number(typical)
	made, seconds := 0, 0.0
	for _, e := range evals {
		for made < len(steps) && steps[made].Step <= e.Step {
			seconds += times[made]
			made++
		}
		if int64(made) != e.Step {
			return r, fmt.Errorf("compare: %s: found %d steps up to the evaluation at step %d, wanted the time of each", dir, made, e.Step)
		}
		r.Steps, r.Seconds, r.EvalLoss = append(r.Steps, e.Step), append(r.Seconds, train.Number(seconds)), append(r.EvalLoss, e.Loss)
	}
	return r, nil
}

// stalled is how many times the median a step takes in which something else than training went on: a driver builds a kernel when it is
// first used, in the first step of a process.
const stalled = 10

// trainingTimes are the seconds of each step, and their median. The first step, and one that has stalled, count as a median one: which
// run had to build the kernels is an accident of the order.
func trainingTimes(steps []train.Metrics) (times []float64, typical float64) {
	for _, m := range steps {
		times = append(times, float64(m.StepMS)/1000)
	}
	typical = median(times)
	for i, t := range times {
		if i == 0 || t > stalled*typical {
			times[i] = typical
		}
	}
	return times, typical
}

// median is that of a copy; 0 of nothing.
func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	v = slices.Sorted(slices.Values(v))
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// files are what Write writes, with what tells a file of ours from another of that name.
var files = []struct{ name, has string }{
	{"compare.json", `"entrants":`}, {"compare.svg", svg.Style}, {"compare.md", pictureLine},
}

// pictureLine shows compare.svg in compare.md.
const pictureLine = "![validation loss over steps and over seconds](compare.svg)"

// Check refuses a directory in which Write would replace what no comparison has written.
func Check(dir string) error {
	for _, f := range files {
		path := filepath.Join(dir, f.name)
		file, err := stranger.OpenFile(path, os.O_RDONLY)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("compare: %w: move it away, or choose another --out", err)
		}
		text, err := stranger.ReadFrom(file, f.name)
		if err = errors.Join(err, file.Close()); err != nil {
			return fmt.Errorf("compare: %w", err)
		}
		if !bytes.Contains(text, []byte(f.has)) {
			return fmt.Errorf("compare: %s: found a file that no comparison has written, wanted none: move it away, or choose another --out", path)
		}
	}
	return nil
}

// Write summarizes and writes compare.json, compare.md and compare.svg into dir.
func (c *Comparison) Write(dir string) error {
	c.Format = format
	c.summarize()
	raw, err := json.MarshalIndent(c, "", " ")
	if err != nil {
		return fmt.Errorf("compare: %w", err)
	}
	picture, err := c.picture()
	if err != nil {
		return fmt.Errorf("compare: %w", err)
	}
	for i, text := range [][]byte{append(raw, '\n'), picture, c.markdown()} { // in the order of files
		if err := atomicfile.Replace(filepath.Join(dir, files[i].name), text); err != nil {
			return fmt.Errorf("compare: %w", err)
		}
	}
	return nil
}
