package train

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/internal/histogram"
	"gputrain/model"
	"gputrain/pipeline"
	"gputrain/pipeline/partition"
	"gputrain/state"
	"gputrain/state/checkpoint"
)

// histogramText is histograms.jsonl, "" where there is none.
func histogramText(t *testing.T, dir string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, histogramsFile))
	if !os.IsNotExist(err) {
		require.NoError(t, err)
	}
	return string(raw)
}

func histogramLines(t *testing.T, dir string) (lines []Histogram) {
	t.Helper()
	in := bufio.NewScanner(bytes.NewBufferString(histogramText(t, dir)))
	for in.Scan() {
		var line Histogram
		require.NoError(t, json.Unmarshal(in.Bytes(), &line))
		lines = append(lines, line)
	}
	return lines
}

// tinyHistograms is a short run without what histograms have nothing to do with.
func tinyHistograms(t *testing.T, dir string) Config {
	c := tinyRun(t, dir)
	c.EvalEvery, c.Validation, c.Sample, c.SaveEvery = 0, nil, SampleConfig{}, nil
	c.HistogramEvery = 5
	return c
}

// The lines are those of the tensors as they were, which hooks read, and the squares of all gradients add up to the norm that the optimizer
// measured.
func TestHistograms(t *testing.T) {
	var out bytes.Buffer
	c := tinyHistograms(t, t.TempDir())
	c.Output = &out
	want := map[int64]map[string]histogram.Histogram{}
	c.Hooks = []Hook{HookFunc(func(ctx context.Context, e Event) error {
		if e.Kind != StepEnd || e.Step%5 != 0 && e.Step != 12 {
			return nil
		}
		want[e.Step] = map[string]histogram.Histogram{}
		params, grads := e.State.(*state.TrainState).Trees()
		for i, tree := range append(params, grads...) {
			list, err := tree.Download(ctx)
			require.NoError(t, err)
			for _, h := range list {
				name := []string{"params/", "grads/"}[i] + h.Path
				want[e.Step][name] = histogram.Of(name, h.Data)
			}
		}
		return nil
	})}
	dev := gputest.Device(t)
	ran(t, dev, c)
	assert.Regexp(t, `histograms of \d+ tensors every 5 steps, \d+\.\d KiB of device memory besides`, out.String())

	squares := map[int64]float64{}
	seen := map[int64]int{}
	for _, line := range histogramLines(t, c.Dir) {
		h, ok := want[line.Step][line.Name]
		require.True(t, ok, "%d %s", line.Step, line.Name)
		assert.Equal(t, h.Elements, line.Elements)
		assert.Zero(t, line.NonFinite)
		assert.EqualValues(t, h.Min, line.Min, line.Name)
		assert.EqualValues(t, h.Max, line.Max, line.Name)
		// Sums of a few thousand numbers, in f32.
		assert.InDelta(t, h.Mean, float64(line.Mean), 1e-4*math.Max(-h.Min, h.Max), line.Name)
		assert.InEpsilon(t, 1+h.Deviation, 1+float64(line.Deviation), 1e-5, line.Name)
		total := uint64(0)
		for _, n := range line.Counts {
			total += uint64(n)
		}
		assert.Len(t, line.Counts, histogram.Bins)
		assert.Equal(t, h.Elements, total, line.Name)
		if line.Name[0] == 'g' {
			squares[line.Step] += float64(line.Elements) * float64(line.Deviation*line.Deviation+line.Mean*line.Mean)
		}
		seen[line.Step]++
	}
	all := 2 * len(c.State.Definition.Params())
	assert.Equal(t, map[int64]int{5: all, 10: all, 12: all}, seen, "every fifth step, and the last")
	steps := stepsIn(t, c.Dir)
	for step, sum := range squares {
		assert.InEpsilon(t, float64(steps[step-1].GradNorm), math.Sqrt(sum), 1e-4)
	}
}

// What a run that was stopped leaves is what an undisturbed one does, and so does one on two stages. A line of a later step than the
// checkpoint's, and one that was cut short, are taken away.
func TestHistogramsOfRunsThatGoOn(t *testing.T) {
	dev := gputest.Device(t)
	whole := tinyHistograms(t, t.TempDir())
	ran(t, dev, whole)
	want := histogramText(t, whole.Dir)
	for _, at := range []int64{5, 6} {
		c := tinyHistograms(t, t.TempDir())
		halted(t, dev, c, StepBegin, at)
		left := histogramText(t, c.Dir)
		require.NotEmpty(t, left)
		require.NoError(t, os.WriteFile(filepath.Join(c.Dir, histogramsFile), []byte(left+`{"step":9,"name":"params/x"}`+"\n"+`{"step":`), 0o666))
		c.Hooks = nil
		ran(t, dev, c)
		assert.Equal(t, want, histogramText(t, c.Dir), "stopped at %d", at)
	}
	c := tinyHistograms(t, t.TempDir())
	_, err := RunOn(t.Context(), Pipelined([]*gpu.Device{dev, dev}, twoStages(t, c.State)), c)
	require.NoError(t, err)
	assert.Equal(t, want, histogramText(t, c.Dir), "on two stages")
}

// twoStages cuts a model in two.
func twoStages(t *testing.T, c state.Config) pipeline.Config {
	t.Helper()
	built, err := c.Definition.Build(c.Batch, c.Definition.Context(), model.Options{Loss: true, Training: true})
	require.NoError(t, err)
	assignment, err := partition.Even(built, 2)
	require.NoError(t, err)
	return pipeline.Config{Assignment: assignment}
}

// replaceByItsCopy lets the run of an event go on with its state saved and loaded again.
func replaceByItsCopy(ctx context.Context, t *testing.T, dev *gpu.Device, e Event) error {
	former := e.State.(*state.TrainState)
	path := filepath.Join(t.TempDir(), "former")
	require.NoError(t, former.Save(ctx, path, checkpoint.Run{}))
	other, _, err := state.Load(ctx, dev, former.Config(), path)
	require.NoError(t, err)
	defer former.Release()
	return e.Replace(ctx, other)
}

func TestHistogramsOfSomeTensors(t *testing.T) {
	c := tinyHistograms(t, t.TempDir())
	c.Steps, c.HistogramMatch = 1, []string{`^params/.*ln_f`, `^grads/wpe`}
	dev := gputest.Device(t)
	ran(t, dev, c)
	var names []string
	for _, line := range histogramLines(t, c.Dir) {
		names = append(names, line.Name)
	}
	assert.Equal(t, []string{"grads/wpe.weight", "params/ln_f.bias", "params/ln_f.weight"}, names)

	weights := func() string {
		raw := textAt(t, c.Dir, checkpointsDir, checkpoint.DirName(1), "optimizer.safetensors")
		return raw
	}
	with := weights()
	c.Fresh, c.HistogramEvery = true, 0
	ran(t, dev, c)
	assert.True(t, with == weights(), "counting changes no bit")
	assert.NoFileExists(t, filepath.Join(c.Dir, histogramsFile))
	for pattern, wrong := range map[string]string{"(": "missing closing", "^parms/": "found no tensor of the model, wanted one such as params/"} {
		c.HistogramMatch = []string{pattern}
		assert.ErrorContains(t, c.Validate(), wrong)
	}
	c.HistogramMatch, c.HistogramEvery = nil, -1
	assert.ErrorContains(t, c.Validate(), "histogram_every: found -1, wanted 0 or more")
}
