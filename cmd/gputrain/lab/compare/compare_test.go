package compare

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/run/train"
)

// writeRun writes the metrics of a run of so many steps, evaluated every second one, each step of ms milliseconds.
func writeRun(t *testing.T, dir string, ms float64, losses ...float64) {
	t.Helper()
	var out bytes.Buffer
	for i := range 2 * len(losses) {
		step := int64(i + 1)
		m := train.Metrics{Step: step, Loss: 4, Cost: train.Cost{StepMS: train.Number(ms)}}
		if step == 1 {
			m.StepMS = 1e6 // kernels are built
		}
		require.NoError(t, json.NewEncoder(&out).Encode(m))
		if step%2 == 0 {
			require.NoError(t, json.NewEncoder(&out).Encode(train.EvalMetrics{Step: step, Loss: train.Number(losses[i/2]), Tokens: 10}))
		}
	}
	require.NoError(t, os.MkdirAll(dir, 0o777))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "metrics.jsonl"), out.Bytes(), 0o666))
}

func readRun(t *testing.T, dir string, seed uint64, diverged *train.DivergedError) Run {
	t.Helper()
	r, err := ReadRun(dir, seed, diverged)
	require.NoError(t, err)
	return r
}

func TestReadRun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "adamw-1")
	writeRun(t, dir, 500, 5, 4, 3)
	r := readRun(t, dir, 1, nil)
	assert.Equal(t, Run{
		Seed: 1, Dir: "adamw-1", Ended: "done", Steps: []int64{2, 4, 6}, Seconds: []train.Number{1, 2, 3}, EvalLoss: []train.Number{5, 4, 3}, StepSeconds: 0.5,
	}, r)
	assert.Equal(t, "diverged at step 7", readRun(t, dir, 1, &train.DivergedError{Step: 7}).Ended)

	// A step whose time was not logged cannot be added up.
	raw, err := os.ReadFile(filepath.Join(dir, "metrics.jsonl"))
	require.NoError(t, err)
	lines := strings.SplitAfter(string(raw), "\n")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "metrics.jsonl"), []byte(lines[0]+strings.Join(lines[2:], "")), 0o666))
	_, err = ReadRun(dir, 1, nil)
	assert.ErrorContains(t, err, "found 1 steps up to the evaluation at step 2")
}

func TestStalledSteps(t *testing.T) {
	var steps []train.Metrics
	for _, ms := range []float64{90, 10, 30, 10, 5000, 10, 99} {
		steps = append(steps, train.Metrics{Cost: train.Cost{StepMS: train.Number(ms)}})
	}
	times, typical := trainingTimes(steps)
	assert.InDelta(t, 0.030, typical, 1e-12)
	assert.InDeltaSlice(t, []float64{.03, .01, .03, .01, .03, .01, .099}, times, 1e-12)
	assert.InDelta(t, 2.5, median([]float64{9, 1, 2, 3}), 0)
}

// three has adamw with two seeds, a faster optimizer with a slower step, one that never gets there and one that diverged.
func three(t *testing.T) (*Comparison, string) {
	t.Helper()
	dir := t.TempDir()
	c := &Comparison{Title: "gpt2 on <text>", Adapter: "an adapter", Steps: 8, EvalEvery: 2, Seeds: []uint64{5, 6}, Baseline: "adamw", Settings: map[string]any{"model.layers": 2, "train.steps": 8}, Origins: map[string]string{"train.steps": "--steps"}}
	for _, e := range []struct {
		label string
		ms    float64
		runs  [][]float64
	}{
		{"adamw", 1000, [][]float64{{6, 5, 4, 3.5}, {6, 5, 4, 2.5}}}, // ends at 3.0 on average
		{"fast", 1500, [][]float64{{5, 3.5, 2.5, 2}, {5, 3, 3.5, 2}}},
		{"slow", 1000, [][]float64{{6, 5.5, 5, 4}, {6, 5.5, 5, 4.5}}},
		{"lost", 1000, [][]float64{{6, 900, math.Inf(1)}, {6, 5, 3.5, 3.25}}},
	} {
		entrant := &Entrant{Label: e.label, Steps: 8, Optimizer: e.label, LearningRate: 0.01, RateFrom: "built-in"}
		for i, losses := range e.runs {
			run := filepath.Join(dir, fmt.Sprintf("%s-%d", e.label, c.Seeds[i]))
			writeRun(t, run, e.ms, losses...)
			var diverged *train.DivergedError
			if len(losses) < 4 {
				diverged = &train.DivergedError{Step: 6}
			}
			entrant.Runs = append(entrant.Runs, readRun(t, run, c.Seeds[i], diverged))
		}
		c.Entrants = append(c.Entrants, entrant)
	}
	return c, dir
}

func TestSummary(t *testing.T) {
	c, _ := three(t)
	c.summarize()
	by := map[string]Summary{}
	for _, e := range c.Entrants {
		by[e.Label] = e.Summary
	}
	adamw := by["adamw"]
	assert.Equal(t, train.Number(3), adamw.FinalLoss)
	assert.InDelta(t, math.Sqrt(0.5), float64(adamw.Spread), 1e-12, "of a sample of two: half a unit from the mean each")
	assert.Equal(t, int64(8), adamw.ReachedStep)
	assert.Equal(t, train.Number(1), adamw.StepFraction)
	assert.Equal(t, train.Number(8), adamw.ReachedSeconds)
	assert.Equal(t, train.Number(1), adamw.SecondsFraction)

	// Its mean curve is 5, 3.25, 3, 2: the baseline's 3.0 at step 6, not at 4 as one of its seeds.
	fast := by["fast"]
	assert.Equal(t, int64(6), fast.ReachedStep)
	assert.Equal(t, train.Number(0.75), fast.StepFraction)
	assert.Equal(t, train.Number(9), fast.ReachedSeconds)
	assert.Equal(t, train.Number(9.0/8), fast.SecondsFraction)
	assert.Equal(t, train.Number(1.5), fast.StepSeconds)
	assert.Equal(t, train.Number(0), fast.Spread)

	assert.Zero(t, by["slow"].ReachedStep)
	assert.True(t, math.IsNaN(float64(by["slow"].StepFraction)))

	lost := by["lost"]
	assert.Equal(t, 1, lost.Done)
	assert.Equal(t, 1, lost.Diverged)
	assert.Equal(t, train.Number(3.25), lost.FinalLoss, "of the run that is left")
	assert.True(t, math.IsNaN(float64(lost.Spread)))

	// Before the baseline has ended nothing is known in relation to it.
	c.Entrants[0].Runs = nil
	c.summarize()
	assert.Zero(t, c.Entrants[1].Summary.ReachedStep)
	assert.Equal(t, train.Number(2), c.Entrants[1].Summary.FinalLoss)
}

func TestWrite(t *testing.T) {
	c, dir := three(t)
	c.Entrants[1].Parameters = map[string]any{"b1": 0.8}
	require.NoError(t, Check(dir))
	require.NoError(t, c.Write(dir))
	require.NoError(t, Check(dir), "a comparison that goes on")
	for _, f := range files {
		theirs := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(theirs, f.name), []byte("# mine\n"), 0o666))
		require.ErrorContains(t, Check(theirs), f.name+": found a file that no comparison has written")
	}
	theirs := filepath.Join(t.TempDir(), "theirs") // a link is not followed, nor is what it leads to written
	require.NoError(t, os.WriteFile(theirs, []byte(`{"entrants":1}`), 0o666))
	linked := t.TempDir()
	require.NoError(t, os.Symlink(theirs, filepath.Join(linked, "compare.json")))
	require.ErrorContains(t, Check(linked), "wanted a regular file")
	before := filepath.Join(t.TempDir(), "before")
	require.NoError(t, os.Link(filepath.Join(dir, "compare.json"), before))
	whole, err := os.ReadFile(before)
	require.NoError(t, err)
	c.Title = "again"
	require.NoError(t, c.Write(dir))
	kept, err := os.ReadFile(before)
	require.NoError(t, err)
	assert.Equal(t, string(whole), string(kept), "files are replaced in one go: at no moment is one cut short")
	read := func(name string) string {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		return string(raw)
	}
	var back Comparison
	require.NoError(t, json.Unmarshal([]byte(read("compare.json")), &back))
	assert.Equal(t, c.Entrants[1].Runs, back.Entrants[1].Runs)
	assert.Equal(t, 1, back.Format)
	assert.True(t, math.IsInf(float64(back.Entrants[3].Runs[0].EvalLoss[2]), 1), "what was measured is kept")

	text := read("compare.md")
	for _, want := range []string{
		"| adamw | 8 | 0.01 | 3.0000 ± 0.7071 | 8 | 1.00 | 1.0000 | 8.0 | 1.00 |",
		"| fast | 8 | 0.01 | 2.0000 ± 0.0000 | 6 | 0.75 | 1.5000 | 9.0 | 1.12 |",
		"| slow | 8 | 0.01 | 4.2500 ± 0.3536 | - | - | 1.0000 | - | - |",
		"| lost | 8 | 0.01 | 3.2500, 1 of 2 diverged | - | - | 1.0000 | - | - |",
		"seeds 5, 6", "every 2 steps", "- `train.steps: 8` (--steps)", "`{\"b1\":0.8}`", "| [lost-5](lost-5/report.md) | 5 | diverged at step 6 |",
	} {
		assert.Contains(t, text, want)
	}
	assert.NotContains(t, text, "model.layers", "a default")

	var table bytes.Buffer
	require.NoError(t, c.Table(&table))
	assert.Regexp(t, `(?m)^OPTIMIZER +STEPS +LEARNING RATE +VALIDATION LOSS +STEPS TO ADAMW'S LOSS`, table.String())
	assert.Regexp(t, `(?m)^fast +8 +0\.01 +2\.0000 ± 0\.0000 +6 +0\.75`, table.String())
}

func TestPicture(t *testing.T) {
	c, _ := three(t)
	assert.InDelta(t, 6, c.top(), 0, "the diverged run does not stretch the axis")
	raw, err := c.picture()
	require.NoError(t, err)
	for d := xml.NewDecoder(bytes.NewReader(raw)); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else {
			require.NoError(t, err)
		}
	}
	text := string(raw)
	for _, e := range c.Entrants {
		assert.Equal(t, 2, strings.Count(text, ">"+e.Label+"</text>"), "a name in each panel")
	}
	assert.Contains(t, text, "gpt2 on &lt;text&gt;, 2 seeds")
	assert.Contains(t, text, "prefers-color-scheme:dark")
	assert.NotContains(t, text, "NaN")
	assert.NotContains(t, text, "Inf")

	// Nothing is known yet.
	for _, e := range c.Entrants {
		e.Runs = nil
	}
	raw, err = c.picture()
	require.NoError(t, err)
	assert.NotContains(t, string(raw), "NaN")
}

// contrast is that of WCAG 2.
func contrast(a, b string) float64 {
	luminance := func(hex string) float64 {
		var rgb [3]uint8
		_, err := fmt.Sscanf(hex, "#%02x%02x%02x", &rgb[0], &rgb[1], &rgb[2])
		if err != nil {
			return math.NaN()
		}
		l := 0.0
		for i, v := range rgb {
			s := float64(v) / 255
			if s <= 0.04045 {
				s /= 12.92
			} else {
				s = math.Pow((s+0.055)/1.055, 2.4)
			}
			l += s * [3]float64{0.2126, 0.7152, 0.0722}[i]
		}
		return l
	}
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

func TestColorsAreLegibleInLightAndDark(t *testing.T) {
	assert.InDelta(t, 21, contrast("#000000", "#ffffff"), 1e-9)
	for i, c := range colors {
		assert.GreaterOrEqual(t, contrast(c, "#ffffff"), 3.0, c)
		assert.GreaterOrEqual(t, contrast(c, "#0d1117"), 3.0, c)
		assert.NotContains(t, colors[:i], c)
	}
}
