package tensorboard_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/run/data/texts"
	"gputrain/run/tensorboard"
	"gputrain/run/train"
	"gputrain/state"
)

// tiny is a run of 12 steps with everything that leaves figures.
func tiny(t testing.TB, dir string) train.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "text.txt")
	require.NoError(t, os.WriteFile(file, []byte(strings.Repeat("a text, a short one\n", 200)), 0o666))
	corpus, err := texts.Open(t.Context(), texts.Config{Text: []string{file}, Tokens: "bytes", Validation: 0.1, Context: 16})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, corpus.Close()) })
	def, err := model.NewGPT2(model.GPT2Config{Layers: 1, Heads: 2, Width: 16, Vocab: 256, Context: 16})
	require.NoError(t, err)
	return train.Config{
		State: state.Config{Definition: def, Batch: 2, Seed: 11, Optimizer: optim.Config{Name: "adamw", Options: optim.Options{
			Schedule: optim.ScheduleConfig{Type: "constant", LearningRate: 1e-2},
		}}},
		Train: corpus.Train, Validation: corpus.Validation, Fingerprint: "tiny",
		Options: train.Options{
			Steps: 12, EvalEvery: 4, EvalTokens: 64, SaveEvery: train.Every(4), SampleEvery: 6, LogEvery: 2, HistogramEvery: 5,
			Sample: train.SampleConfig{Prompt: "a\n", Tokens: 5, Temperature: 0.8, Seed: 3},
		},
		Watchers: []train.Watcher{{Name: "first", Match: `^params/ln_f\.bias`, Every: 3, Watch: func(h buffers.Host) (map[string]float64, error) {
			return map[string]float64{"value": float64(h.Data[0])}, nil
		}}},
		Dir: dir, Progress: "none", Output: io.Discard, Hooks: []train.Hook{tensorboard.NewHook(dir)},
	}
}

func logOf(t testing.TB, dir string) *tensorboard.Log {
	t.Helper()
	files, err := tensorboard.Files(filepath.Join(dir, train.TensorBoardDir))
	require.NoError(t, err)
	return tensorboard.ReadLog(t, files...)
}

// lines are those of a log of a run directory.
func lines[T any](t testing.TB, dir, name string) (out []T) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, name))
	require.NoError(t, err)
	in := bufio.NewScanner(strings.NewReader(string(raw)))
	for in.Scan() {
		var line T
		require.NoError(t, json.Unmarshal(in.Bytes(), &line))
		out = append(out, line)
	}
	return out
}

// figures are the points of a log by tag and step.
func figures(t testing.TB, l *tensorboard.Log) map[string]tensorboard.Value {
	t.Helper()
	found := map[string]tensorboard.Value{}
	for tag, points := range l.Series {
		for _, p := range points {
			key := fmt.Sprintf("%s@%d", tag, p.Step)
			require.NotContains(t, found, key)
			assert.InDelta(t, 1.9e9, p.WallTime, 3e8)
			found[key] = p.Value
		}
	}
	return found
}

// The events are what the lines of the run directory say, no more and no less.
func TestEventsAreTheLines(t *testing.T) {
	c := tiny(t, t.TempDir())
	_, err := train.Run(t.Context(), gputest.Device(t), c)
	require.NoError(t, err)
	log := logOf(t, c.Dir)
	assert.Equal(t, []int64{1}, log.Starts)
	assert.Empty(t, log.Cut)
	found := figures(t, log)
	scalar := func(tag string, step int64, want train.Number) {
		t.Helper()
		v := found[fmt.Sprintf("%s@%d", tag, step)]
		assert.Equal(t, tensorboard.Value{Tag: tag, Kind: tensorboard.Scalar, Scalar: float32(want)}, v)
	}

	steps, evals, err := train.ReadMetrics(c.Dir)
	require.NoError(t, err)
	require.Len(t, steps, 8) // of log_every and of watchers
	for _, m := range steps {
		scalar("train/loss", m.Step, m.Loss)
		scalar("train/learning_rate", m.Step, m.LearningRate)
		scalar("train/grad_norm", m.Step, m.GradNorm)
		scalar("train/tokens", m.Step, train.Number(m.Tokens))
		scalar("speed/tokens_per_second", m.Step, m.TokensPerSecond)
		scalar("speed/step_ms", m.Step, m.StepMS)
		for key, value := range m.Watched {
			scalar("watched/"+key, m.Step, value)
		}
	}
	scalar("watched/first/params/ln_f.bias/value", 9, steps[5].Watched["first/params/ln_f.bias/value"])
	require.Len(t, evals, 3)
	for _, e := range evals {
		scalar("validation/loss", e.Step, e.Loss)
		scalar("validation/tokens", e.Step, train.Number(e.Tokens))
		scalar("speed/eval_ms", e.Step, e.MS)
	}
	samples := lines[train.Sample](t, c.Dir, "samples.jsonl")
	require.Len(t, samples, 2)
	for _, s := range samples {
		text := "    a\n    " + strings.ReplaceAll(s.Text, "\n", "\n    ")
		assert.Equal(t, tensorboard.Value{Tag: "sample", Kind: tensorboard.Text, Text: text}, found[fmt.Sprintf("sample@%d", s.Step)])
	}
	histograms := lines[train.Histogram](t, c.Dir, "histograms.jsonl")
	require.Len(t, histograms, 3*2*len(c.State.Definition.Params()))
	for _, h := range histograms {
		checkHistogram(t, h, found[fmt.Sprintf("%s@%d", h.Name, h.Step)].Histogram)
	}
	numbers := 0
	for _, line := range lines[map[string]any](t, c.Dir, "metrics.jsonl") {
		numbers += count(line) - 1 // the step
	}
	assert.Len(t, found, numbers+len(samples)+len(histograms))
}

// count is the number of numbers in what JSON has.
func count(v any) (n int) {
	switch v := v.(type) {
	case float64:
		return 1
	case []any:
		for _, x := range v {
			n += count(x)
		}
	case map[string]any:
		for _, x := range v {
			n += count(x)
		}
	}
	return n
}

// checkHistogram holds a histogram to the definitions of mean and deviation.
func checkHistogram(t *testing.T, want train.Histogram, found *tensorboard.Histogram) {
	t.Helper()
	require.NotNil(t, found, want.Name)
	assert.EqualValues(t, want.Min, found.Min)
	assert.EqualValues(t, want.Max, found.Max)
	assert.EqualValues(t, want.Elements, found.Count)
	mean := found.Sum / found.Count
	assert.InDelta(t, float64(want.Mean), mean, 1e-12)
	assert.InDelta(t, math.Pow(float64(want.Deviation), 2), found.SumOfSquares/found.Count-mean*mean, 1e-12)
	total := 0.0
	for i, n := range found.Counts {
		total += n
		assert.EqualValues(t, want.Counts[i], n)
		assert.InDelta(t, float64(want.Max-want.Min)*float64(i+1)/64, found.Limits[i]-found.Min, 1e-12)
	}
	assert.EqualValues(t, want.Elements, total)
	assert.EqualValues(t, want.Max, found.Limits[63])
}

// timeless are figures without those that measure time.
func timeless(found map[string]tensorboard.Value) map[string]tensorboard.Value {
	maps.DeleteFunc(found, func(key string, _ tensorboard.Value) bool {
		return strings.HasPrefix(key, "speed/") || strings.HasPrefix(key, "memory/")
	})
	return found
}

// A run that was killed after any step, whose file ends where the kill left it, and resumed, leaves the points of an undisturbed one.
func TestResumedRunsShowEveryStepOnce(t *testing.T) {
	dev := gputest.Device(t)
	c := tiny(t, t.TempDir())
	_, err := train.Run(t.Context(), dev, c)
	require.NoError(t, err)
	want := timeless(figures(t, logOf(t, c.Dir)))

	between := int64(1)
	if testing.Short() {
		between = 3 // on a checkpoint, and before and after one
	}
	for step := int64(1); step < 12; step += between {
		c := tiny(t, t.TempDir())
		killed := filepath.Join(t.TempDir(), "killed")
		c.Hooks = append(c.Hooks, train.HookFunc(func(_ context.Context, e train.Event) error {
			if e.Kind == train.StepBegin && e.Step == step {
				require.NoError(t, os.CopyFS(killed, os.DirFS(c.Dir)))
				return train.ErrStopped
			}
			return nil
		}))
		_, err := train.Run(t.Context(), dev, c)
		require.ErrorIs(t, err, train.ErrStopped)

		files, err := tensorboard.Files(filepath.Join(killed, train.TensorBoardDir))
		require.NoError(t, err)
		require.Len(t, files, 1)
		f, err := os.OpenFile(files[0], os.O_APPEND|os.O_WRONLY, 0)
		require.NoError(t, err)
		_, err = f.WriteString("\x40\x00\x00") // a record that the kill has cut
		require.NoError(t, errors.Join(err, f.Close()))

		for _, dir := range []string{c.Dir, killed} {
			c := tiny(t, dir)
			result, err := train.Run(t.Context(), dev, c)
			require.NoError(t, err)
			log := logOf(t, dir)
			assert.Equal(t, []int64{1, result.Resumed + 1}, log.Starts)
			assert.Equal(t, want, timeless(figures(t, log)), "stopped before step %d", step+1)
			if dir == killed {
				assert.Equal(t, files, log.Cut)
				assert.Equal(t, step/4*4, result.Resumed)
			}
		}
	}
}

func TestFreshRunsRemoveEvents(t *testing.T) {
	dev := gputest.Device(t)
	c := tiny(t, t.TempDir())
	c.Steps = 2
	for range 2 {
		_, err := train.Run(t.Context(), dev, c)
		require.NoError(t, err)
	}
	assert.Equal(t, []int64{1, 3}, logOf(t, c.Dir).Starts)
	c.Fresh = true
	_, err := train.Run(t.Context(), dev, c)
	require.NoError(t, err)
	assert.Equal(t, []int64{1}, logOf(t, c.Dir).Starts)
}

// A folder that takes no file ends the run before its first step, with an error that says so.
func TestRunsThatCannotWriteEvents(t *testing.T) {
	c := tiny(t, t.TempDir())
	require.NoError(t, os.WriteFile(filepath.Join(c.Dir, train.TensorBoardDir), nil, 0o666))
	result, err := train.Run(t.Context(), gputest.Device(t), c)
	assert.ErrorContains(t, err, "tensorboard: ")
	assert.Equal(t, train.KindUsage, result.Reason)
	assert.Zero(t, result.Step)
}
