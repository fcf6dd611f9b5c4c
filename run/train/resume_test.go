package train

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/optim"
	"gputrain/run/data/texts"
	"gputrain/state/checkpoint"
)

// isTiming tells whether a number of metrics.jsonl says how fast a run was or what it took, and not what it has learned.
func isTiming(key string) bool {
	for _, suffix := range []string{"_ms", "_seconds", "_per_second", "_bytes"} {
		if strings.HasSuffix(key, suffix) {
			return true
		}
	}
	return slices.Contains([]string{"mfu", "stage_busy", "bubble", "transfer", "cluster"}, key)
}

// untimed is metrics.jsonl without the timings, line by line.
func untimed(t *testing.T, text string) (lines []string) {
	t.Helper()
	for line := range strings.Lines(text) {
		var fields map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &fields))
		maps.DeleteFunc(fields, func(key string, _ any) bool { return isTiming(key) })
		text, err := json.Marshal(fields)
		require.NoError(t, err)
		lines = append(lines, string(text))
	}
	return lines
}

// leftBy is every byte that a run has left, by file: checkpoints, the record of the settings and all logs, metrics without timings. The
// report, its pictures, the sessions and event files say when and how fast.
func leftBy(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := textsIn(t, dir)
	for name, text := range files {
		switch {
		case strings.HasPrefix(name, "tensorboard"), strings.HasPrefix(name, "."), filepath.Ext(name) == ".svg":
			delete(files, name)
		case name == metricsFile:
			files[name] = strings.Join(untimed(t, text), "\n")
		case name == reportFile, name == sessionsFile:
			files[name] = ""
		}
	}
	return files
}

// requireSame wants the files of two runs to be the same, byte by byte.
func requireSame(t *testing.T, want, got map[string]string) {
	t.Helper()
	require.Equal(t, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)))
	for name, text := range want {
		if got[name] == text {
			continue
		}
		if filepath.Ext(name) == ".safetensors" {
			t.Errorf("%s differs", name)
		} else {
			assert.Equal(t, text, got[name], name)
		}
	}
	require.False(t, t.Failed())
}

// fullRun is a run with everything on that a resume might forget: accumulation, dropout, an order that is drawn anew in each of several
// epochs, a schedule with a warm-up, evaluation, samples, histograms, spike guards and rotation, none of them in step with another.
func fullRun(t *testing.T, dir string, corpus *texts.Corpus, steps int64) Config {
	c := tinyRun(t, dir)
	c.Train, c.Validation = corpus.Train, corpus.Validation
	c.Steps, c.EvalEvery, c.SampleEvery, c.HistogramEvery, c.SaveEvery, c.Keep = steps, 4, 6, 5, Every(7), 2
	c.State.Optimizer.Options.Schedule.Steps = steps
	c.Spikes = SpikeConfig{Loss: 100, GradNorm: 100, UpdateNorm: 100, Window: 16}
	return c
}

// shortText is a text of so many lines, each somewhat less than a window.
func shortText(t *testing.T, lines int) *texts.Corpus {
	t.Helper()
	var text strings.Builder
	for i := range lines {
		fmt.Fprintf(&text, "line %d of %d\n", i*i%97, i)
	}
	file := filepath.Join(t.TempDir(), "text.txt")
	require.NoError(t, os.WriteFile(file, []byte(text.String()), 0o666))
	corpus, err := texts.Open(t.Context(), texts.Config{Text: []string{file}, Validation: 0.1, Context: 16})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, corpus.Close()) })
	return corpus
}

// stop is where a run is stopped: when a step has been submitted, before what is due at it (StepEnd), or before a step is begun (StepBegin).
type stop struct {
	kind eventKind
	step int64
}

// stopsOf are the ways to stop a run of so many steps: at every step, one after the other, and, but with -short, at a single one; with
// GPUTRAIN_SOAK twice at each.
func stopsOf(steps int64) (plans [][]stop) {
	var every []stop
	for step := int64(1); step <= steps; step++ {
		every = append(every, stop{StepEnd, step})
		switch again := step + step%4; {
		case os.Getenv("GPUTRAIN_SOAK") != "" && again < steps:
			plans = append(plans, []stop{{StepEnd, step}, {StepBegin, again}})
		case os.Getenv("GPUTRAIN_SOAK") != "" || step%8 == 6 && !testing.Short():
			plans = append(plans, []stop{{StepEnd, step}})
		}
	}
	return append(plans, every)
}

// around gives a run what stands around its updates: gradients ahead of the weights, and a mean of these, which both begin on the way.
func around(c *Config) {
	o := &c.State.Optimizer.Options
	o.Lookahead = &optim.Lookahead{Scale: 0.5, Decay: 0.8, From: 1, Until: new(int64(5))}
	o.Average = &optim.Averaging{From: 3, Horizon: 2, Blend: 0.6, Without: []string{"wpe"}}
}

// Stopped at any step, once or again and again, and gone on with, a run leaves the bytes that an undisturbed one leaves.
func TestResumeAtEveryStep(t *testing.T) {
	dev := gputest.Device(t)
	text, mixture := shortText(t, 85), documents(t, true)
	two := Pipelined([]*gpu.Device{dev, dev}, twoStages(t, tinyRun(t, t.TempDir()).State))
	long := int64(30)
	if testing.Short() {
		long = 18 // which still goes through the text more than once
	}
	for _, form := range []struct {
		name    string
		steps   int64
		corpus  *texts.Corpus
		adjust  func(*Config)
		targets []Target // of processes, in turn
	}{
		{name: "a text", steps: long, corpus: text, targets: []Target{oneDevice{device: dev}}},
		{name: "a mixture with packed documents, Quad", steps: 7, corpus: mixture, adjust: func(c *Config) {
			c.State.Optimizer = optim.Config{
				Name: "quad", Options: c.State.Optimizer.Options, Parameters: json.RawMessage(`{"block_size":16,"refresh":{"every":2}}`),
			}
			c.State.Documents = true
		}, targets: []Target{oneDevice{device: dev}}},
		{name: "two stages", steps: 7, corpus: text, targets: []Target{two}},
		{name: "one stage and two", steps: 7, corpus: text, adjust: around, targets: []Target{oneDevice{device: dev}, two}},
	} {
		if testing.Short() && form.name == "two stages" {
			continue // which "one stage and two" resumes too
		}
		t.Run(form.name, func(t *testing.T) {
			run := func(dir string) Config {
				c := fullRun(t, dir, form.corpus, form.steps)
				if form.adjust != nil {
					form.adjust(&c)
				}
				return c
			}
			whole := run(t.TempDir())
			result, err := RunOn(t.Context(), form.targets[0], whole)
			require.NoError(t, err)
			require.Equal(t, kindDone, result.Reason)
			want := leftBy(t, whole.Dir)
			for _, name := range []string{metricsFile, samplesFile, histogramsFile, runFile} {
				require.NotEmpty(t, want[name], name)
			}
			record, err := checkpoint.ReadRecord(checkpoint.OS, result.Checkpoint)
			require.NoError(t, err)
			require.NotNil(t, record.Run.Guard)
			require.Len(t, record.Run.Window, int(form.steps))
			require.Equal(t, form.steps*4 > 70, record.Run.Data.Epoch > 0)

			for _, stops := range stopsOf(form.steps) {
				dir, from := t.TempDir(), int64(0)
				for i, stop := range stops {
					c := run(dir)
					c.Prefetch = i % 5 // how far the loader reads ahead changes nothing
					ctx, hook := stopAt(stop.kind, stop.step)
					c.Hooks = []Hook{hook}
					result, err := RunOn(ctx, form.targets[i%len(form.targets)], c)
					require.ErrorIs(t, err, ErrStopped)
					require.Equal(t, 3, result.Reason.ExitCode())
					require.Equal(t, from, result.Resumed)
					require.GreaterOrEqual(t, result.Step, stop.step)
					if stop.kind == StepEnd {
						require.Equal(t, stop.step, result.Step, "no other step is begun")
					}
					from = result.Step
				}
				result, err := RunOn(t.Context(), form.targets[len(stops)%len(form.targets)], run(dir))
				require.NoError(t, err)
				require.Equal(t, kindDone, result.Reason)
				require.Equal(t, from, result.Resumed)
				requireSame(t, want, leftBy(t, dir))
			}
		})
	}
}

// What only looks changes nothing: with evaluation, samples, histograms, watchers, logs, checkpoints and limits that leave nothing out, or with none of
// them, a run learns the same bits.
func TestWhatOnlyLooksChangesNothing(t *testing.T) {
	dev := gputest.Device(t)
	corpus := shortText(t, 85)
	looks := fullRun(t, t.TempDir(), corpus, 12)
	looks.Spikes = SpikeConfig{Loss: 40, GradNorm: 40, UpdateNorm: 40, Window: 3}
	looks.Watchers = []Watcher{{Name: "size", Every: 2, Watch: func(h buffers.Host) (map[string]float64, error) {
		return map[string]float64{"elements": float64(len(h.Data))}, nil
	}}}
	blind := looks
	blind.Dir = t.TempDir()
	blind.Validation, blind.Sample, blind.HistogramEvery, blind.Watchers, blind.SaveEvery = nil, SampleConfig{}, 0, nil, nil
	blind.LogEvery, blind.Spikes = 12, SpikeConfig{}
	var weights []map[string]string
	for _, c := range []Config{looks, blind} {
		ran(t, dev, c)
		weights = append(weights, outcomeOf(t, c.Dir).checkpoint)
	}
	for _, name := range []string{"model.safetensors", "optimizer.safetensors"} {
		require.NotEmpty(t, weights[0][name])
		assert.True(t, weights[0][name] == weights[1][name], "%s differs", name)
	}
}

// A run that goes on may sample otherwise: it learns the same and records the same of it.
func TestResumeWithOtherSamples(t *testing.T) {
	dev := gputest.Device(t)
	want := undisturbed(t, dev)
	c := tinyRun(t, t.TempDir())
	halted(t, dev, c, StepEnd, 5)
	c.Hooks, c.SampleEvery = nil, 2
	c.Sample.Prompt, c.Sample.Tokens, c.Sample.Temperature, c.Sample.TopK = "of", 3, 0, 0
	result := ran(t, dev, c)
	assert.EqualValues(t, 5, result.Resumed)
	got := outcomeOf(t, c.Dir)
	for _, name := range []string{"model.safetensors", "optimizer.safetensors"} {
		require.NotEmpty(t, want.checkpoint[name])
		assert.True(t, want.checkpoint[name] == got.checkpoint[name], "%s differs", name)
	}
	assert.Equal(t, want.metrics, got.metrics)
	assert.NotEqual(t, want.samples, got.samples)
}

// A run that goes on says from where, with what, and how long that took.
func TestResumeTellsWhatItRestored(t *testing.T) {
	dev := gputest.Device(t)
	c := tinyRun(t, t.TempDir())
	halted(t, dev, c, StepEnd, 5)
	var out bytes.Buffer
	c.Hooks, c.Output = nil, &out
	result := ran(t, dev, c)
	assert.EqualValues(t, 5, result.Resumed)
	from := regexp.QuoteMeta(filepath.Join(c.Dir, checkpointsDir, checkpoint.DirName(5)))
	assert.Regexp(t, `resumed from `+from+`: parameters, optimizer state, counts, place in the text \(epoch 0, window 20\) and metrics of step 5, in \d+\.\d\d s\n`, out.String())
	report := textAt(t, c.Dir, reportFile)
	assert.Contains(t, report, "| resumed | from step 5 |")
}

// A kill within the rotation behind the last checkpoint leaves what the same command removes, though it has no step to make.
func TestLastRotationIsFinished(t *testing.T) {
	dev := gputest.Device(t)
	c := tinyRun(t, t.TempDir())
	ran(t, dev, c)
	checkpoints := filepath.Join(c.Dir, checkpointsDir)
	store := checkpoint.Store{FS: checkpoint.OS, Dir: checkpoints}
	want, err := store.Steps()
	require.NoError(t, err)
	require.NotContains(t, want, int64(3))
	other := tinyRun(t, t.TempDir())
	other.Keep = 100
	ran(t, dev, other)
	name := checkpoint.DirName(3)
	require.NoError(t, os.CopyFS(filepath.Join(checkpoints, name), os.DirFS(filepath.Join(other.Dir, checkpointsDir, name))))
	ran(t, dev, c)
	found, err := store.Steps()
	require.NoError(t, err)
	assert.Equal(t, want, found)
}
