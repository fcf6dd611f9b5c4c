package train

import (
	"bytes"
	"context"
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

	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/run/data"
	"gputrain/run/data/texts"
	"gputrain/run/record"
	"gputrain/state"
	"gputrain/state/checkpoint"
)

// tinyRun is a run of 12 steps on a text of its own, with everything on.
func tinyRun(t testing.TB, dir string) Config {
	t.Helper()
	var text strings.Builder
	for i := range 400 {
		fmt.Fprintf(&text, "line %d of %d\n", i*i%97, i)
	}
	file := filepath.Join(t.TempDir(), "text.txt")
	require.NoError(t, os.WriteFile(file, []byte(text.String()), 0o666))
	corpus, err := texts.Open(t.Context(), texts.Config{Text: []string{file}, Tokens: "bytes", Validation: 0.1, Context: 16})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, corpus.Close()) })
	def, err := model.NewGPT2(model.GPT2Config{Layers: 1, Heads: 2, Width: 16, Vocab: 256, Context: 16, ResidualDropout: 0.1})
	require.NoError(t, err)
	clip := 1.0
	return Config{
		State: state.Config{Definition: def, Batch: 2, Microbatches: 2, Seed: 11, Optimizer: optim.Config{Name: "adamw", Options: optim.Options{
			Schedule: optim.ScheduleConfig{Type: "cosine", LearningRate: 1e-2, WarmupSteps: 2, Steps: 12}, ClipGrad: &clip,
			WeightDecay: 0.1, WeightDecayMask: optim.MaskMatrices(),
		}}},
		// The fingerprint of this test's file has its name in it, and that changes.
		Train: corpus.Train, Validation: corpus.Validation, Fingerprint: "tiny", Prefetch: 2,
		Options: Options{
			Steps: 12, EvalEvery: 4, EvalTokens: 100, SaveEvery: Every(3), SaveAsync: true, Keep: 2, SampleEvery: 6,
			Sample: SampleConfig{Prompt: "line", Tokens: 5, Temperature: 0.8, TopK: 20, Seed: 3},
		},
		Dir: dir, Progress: "plain", Output: io.Discard,
	}
}

// outcome is what a finished run leaves that must not depend on how often it was stopped.
type outcome struct {
	checkpoint map[string]string
	metrics    []string
	samples    string
	rollouts   string // "" of a run without
}

func outcomeOf(t *testing.T, dir string) outcome {
	t.Helper()
	rollouts, _ := os.ReadFile(filepath.Join(dir, rolloutsFile))
	return outcome{checkpointFiles(t, dir, 12), untimed(t, textAt(t, dir, metricsFile)), textAt(t, dir, samplesFile), string(rollouts)}
}

// ran is how a run ends that comes to its end.
func ran(t testing.TB, dev *gpu.Device, c Config) Result {
	t.Helper()
	result, err := Run(t.Context(), dev, c)
	require.NoError(t, err)
	return result
}

// halted is how a run ends that is stopped at an event.
func halted(t testing.TB, dev *gpu.Device, c Config, kind eventKind, step int64) Result {
	t.Helper()
	ctx, hook := stopAt(kind, step)
	c.Hooks = append([]Hook{hook}, c.Hooks...)
	result, err := Run(ctx, dev, c)
	require.ErrorIs(t, err, ErrStopped)
	return result
}

// stepsIn are the lines of steps in metrics.jsonl of a run directory.
func stepsIn(t testing.TB, dir string) []Metrics {
	t.Helper()
	steps, _, err := ReadMetrics(dir)
	require.NoError(t, err)
	return steps
}

// textAt is the text of a file.
func textAt(t testing.TB, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	require.NoError(t, err)
	return string(text)
}

func undisturbed(t *testing.T, dev *gpu.Device) outcome {
	t.Helper()
	dir := t.TempDir()
	result := ran(t, dev, tinyRun(t, dir))
	require.Equal(t, kindDone, result.Reason)
	return outcomeOf(t, dir)
}

// A run of a model that there is shows first what that wrote.
func TestRunSamplesBeforeTraining(t *testing.T) {
	dev := gputest.Device(t)
	first := t.TempDir()
	ran(t, dev, tinyRun(t, first))
	steps := func(dir string) (all []int64) {
		samples, _, err := readSamples(filepath.Join(dir, samplesFile))
		require.NoError(t, err)
		for _, s := range samples {
			all = append(all, s.Step)
		}
		return all
	}
	scratch := steps(first)
	require.NotContains(t, scratch, int64(0))
	c := tinyRun(t, t.TempDir())
	c.From = filepath.Join(first, checkpointsDir, checkpoint.DirName(12))
	for range 2 { // the second time it has lost its checkpoints, and begins again with its logs
		ran(t, dev, c)
		require.Equal(t, append([]int64{0}, scratch...), steps(c.Dir))
		require.NoError(t, os.RemoveAll(filepath.Join(c.Dir, checkpointsDir)))
	}
	var f forecast
	f.count(c, 0)
	require.EqualValues(t, len(scratch)+1, f.samples.many)
}

func TestRun(t *testing.T) {
	gputest.Each(t, func(t *testing.T, dev *gpu.Device) {
		dir := t.TempDir()
		var out bytes.Buffer
		var events []eventKind
		c := tinyRun(t, dir)
		c.Output = &out
		c.Hooks = []Hook{HookFunc(func(_ context.Context, e Event) error {
			events = append(events, e.Kind)
			return nil
		})}
		result := ran(t, dev, c)
		assert.Equal(t, kindDone, result.Reason)
		assert.Zero(t, result.Reason.ExitCode())
		assert.EqualValues(t, 12, result.Step)
		assert.Less(t, result.EvalLoss, 5.5)
		assert.Equal(t, result.BestLoss, result.EvalLoss)
		assert.Equal(t, filepath.Join(dir, checkpointsDir, checkpoint.DirName(12)), result.Checkpoint)

		count := map[eventKind]int{}
		for _, e := range events {
			count[e]++
		}
		assert.Equal(t, map[eventKind]int{
			Started: 1, StepBegin: 12, StepEnd: 12, Stepped: 12, Evaluating: 3, Evaluated: 3, Sampled: 2, Saved: 4, Ended: 1,
		}, count)
		for _, want := range []string{"adapter ", "parameters; memory planned", "validation loss", "step 12/12", "a sample:", "tokens/s"} {
			assert.Contains(t, out.String(), want)
		}
		o := outcomeOf(t, dir)
		assert.Len(t, o.metrics, 15)
		assert.Len(t, o.checkpoint, 5)
		steps, _, _, err := readMetrics(filepath.Join(dir, metricsFile))
		require.NoError(t, err)
		assert.InDelta(t, math.Log(256), float64(steps[0].Loss), 0.2)
		assert.EqualValues(t, 12*4*16, steps[11].Tokens)
		names, err := os.ReadDir(filepath.Join(dir, checkpointsDir))
		require.NoError(t, err)
		assert.Len(t, names, 2, "rotated")
		report := textAt(t, dir, reportFile)
		assert.Contains(t, report, "done at step 12 of 12")
		assert.FileExists(t, filepath.Join(dir, lossPicture))

		// The same again has nothing left to do.
		out.Reset()
		again := ran(t, dev, c)
		assert.EqualValues(t, 12, again.Resumed)
		assert.Contains(t, out.String(), "all 12 steps are made")
		assert.Equal(t, o, outcomeOf(t, dir))
	})
}

// stopAt ends the context at an event.
func stopAt(kind eventKind, step int64) (ctx context.Context, hook Hook) {
	ctx, cancel := context.WithCancelCause(context.Background())
	return ctx, HookFunc(func(_ context.Context, e Event) error {
		if e.Kind == kind && e.Step == step {
			cancel(errors.New("enough"))
		}
		return nil
	})
}

type stoppingTokenizer struct {
	byteTokenizer
	stop func()
}

func (s stoppingTokenizer) Encode(text string) ([]int32, error) {
	s.stop()
	return s.byteTokenizer.Encode(text)
}

func newestStep(t *testing.T, dir string) int64 {
	t.Helper()
	steps, err := checkpoint.Store{FS: checkpoint.OS, Dir: filepath.Join(dir, checkpointsDir)}.Steps()
	require.NoError(t, err)
	if len(steps) == 0 {
		return 0
	}
	return steps[0]
}

// poison makes a parameter infinite before the step after step.
func poison(step int64) Hook {
	return HookFunc(func(_ context.Context, e Event) error {
		if e.Kind == StepBegin && e.Step == step {
			return e.State.(*state.TrainState).Params().Write("h.0.mlp.c_proj.bias", append([]float32{float32(math.Inf(1))}, make([]float32, 15)...))
		}
		return nil
	})
}

func TestDivergence(t *testing.T) {
	dev := gputest.Device(t)
	dir := t.TempDir()
	var out bytes.Buffer
	c := tinyRun(t, dir)
	c.Output, c.SaveEvery, c.Hooks = &out, Every(6), []Hook{poison(6)}
	result, err := Run(t.Context(), dev, c)
	require.ErrorIs(t, err, errDiverged)
	var diverged *DivergedError
	require.ErrorAs(t, err, &diverged)
	assert.Equal(t, "params/h.0.mlp.c_proj.bias", diverged.Tensor)
	assert.EqualValues(t, 9, diverged.Step, "the third bad step of 7, 8, 9")
	assert.EqualValues(t, 3, diverged.Skipped)
	assert.Equal(t, kindDiverged, result.Reason)
	assert.Equal(t, 4, result.Reason.ExitCode())
	assert.Contains(t, out.String(), "step 7: loss NaN")
	assert.EqualValues(t, 6, newestStep(t, dir))
	steps, evals, _, err := readMetrics(filepath.Join(dir, metricsFile))
	require.NoError(t, err)
	assert.True(t, math.IsNaN(float64(steps[6].Loss)), "what was measured is logged")
	assert.EqualValues(t, 3, steps[8].Skipped)
	assert.True(t, math.IsNaN(float64(evals[1].Loss)))

	// From the last good checkpoint it goes on.
	c.Hooks = nil
	result = ran(t, dev, c)
	assert.EqualValues(t, 6, result.Resumed)
	assert.Equal(t, undisturbed(t, dev), outcomeOf(t, dir))
}

// Bad steps with good ones between them are no divergence.
func TestPatienceCountsInARow(t *testing.T) {
	const path = "h.0.mlp.c_proj.bias"
	c := tinyRun(t, t.TempDir())
	c.SaveEvery = Every(0)
	var good []float32
	c.Hooks = []Hook{HookFunc(func(ctx context.Context, e Event) (err error) {
		if e.Kind != StepBegin {
			return nil
		}
		switch e.Step {
		case 4, 8: // steps 5 and 6, 9 and 10 are bad
			if good, err = e.State.(*state.TrainState).Params().Read(ctx, path); err != nil {
				return err
			}
			return e.State.(*state.TrainState).Params().Write(path, append([]float32{float32(math.NaN())}, good[1:]...))
		case 6, 10:
			return e.State.(*state.TrainState).Params().Write(path, good)
		}
		return nil
	})}
	result := ran(t, gputest.Device(t), c)
	record, err := checkpoint.ReadRecord(checkpoint.OS, result.Checkpoint)
	require.NoError(t, err)
	assert.EqualValues(t, 4, record.Skipped)
	assert.Zero(t, record.Run.InARow)
}

// A state that is not finite is not committed, and the run says what it was, also when it learns of it later.
func TestWhatIsNotFiniteIsNotSaved(t *testing.T) {
	for _, beside := range []bool{false, true} {
		c := tinyRun(t, t.TempDir())
		c.Hooks = []Hook{poison(8)} // a save is due at step 9, before patience ends
		c.SaveAsync, c.NaNPatience = beside, 100
		result, err := Run(t.Context(), gputest.Device(t), c)
		require.ErrorIs(t, err, checkpoint.ErrNonFinite)
		var diverged *DivergedError
		require.ErrorAs(t, err, &diverged)
		assert.ErrorContains(t, err, `first not finite: tensor "params/h.0.mlp.c_proj.bias"`)
		assert.EqualValues(t, 9, diverged.Step)
		assert.Equal(t, kindDiverged, result.Reason)
		assert.EqualValues(t, 6, newestStep(t, c.Dir))
	}
}

func TestCorruptCheckpointOfARun(t *testing.T) {
	dev := gputest.Device(t)
	dir := t.TempDir()
	c := tinyRun(t, dir)
	halted(t, dev, c, StepBegin, 7)
	damage := func(step int64) {
		path := filepath.Join(dir, checkpointsDir, checkpoint.DirName(step), "optimizer.safetensors")
		raw := []byte(textAt(t, path))
		raw[len(raw)-5] ^= 4
		require.NoError(t, os.WriteFile(path, raw, 0o666))
	}
	newest := newestStep(t, dir)
	damage(newest)
	require.NoError(t, os.MkdirAll(filepath.Join(dir, checkpointsDir, checkpoint.DirName(99)+".tmp"), 0o777))
	var out bytes.Buffer
	c = tinyRun(t, dir)
	c.Output = &out
	result := ran(t, dev, c)
	assert.EqualValues(t, 6, result.Resumed)
	assert.Contains(t, out.String(), "warning: passed over")
	assert.Contains(t, out.String(), "warning: going on from step 6; newer checkpoints that are not whole: 1\n")
	assert.Contains(t, out.String(), `tensor "nu/`)
	assert.Contains(t, out.String(), "left by an interrupted save")
	assert.Equal(t, undisturbed(t, dev), outcomeOf(t, dir))

	for _, step := range []int64{9, 12} {
		damage(step)
	}
	result, err := Run(t.Context(), dev, c)
	require.ErrorIs(t, err, checkpoint.ErrCorrupt)
	require.ErrorContains(t, err, "or start over with --fresh")
	assert.Equal(t, kindCheckpoint, result.Reason)
	assert.Equal(t, 6, result.Reason.ExitCode())
	c.Fresh, c.Launch = true, "launch"
	ran(t, dev, c)
	marker, err := ReadMarker(dir)
	require.NoError(t, err)
	assert.Equal(t, "launch", marker.Launch)
}

func TestOtherSettingsAreRefused(t *testing.T) {
	dev := gputest.Device(t)
	dir := t.TempDir()
	ctx, hook := stopAt(StepBegin, 4)
	c := tinyRun(t, dir)
	c.Hooks = []Hook{hook}
	_, err := Run(ctx, dev, c)
	require.ErrorIs(t, err, ErrStopped)
	for key, edit := range map[string]func(*Config){
		"train.seed": func(c *Config) { c.State.Seed++ },
		"optimizer.options.schedule.learning_rate": func(c *Config) { c.State.Optimizer.Options.Schedule.LearningRate = 1 },
		"state.batch":                    func(c *Config) { c.State.Batch = 4 },
		"data (fingerprint of the text)": func(c *Config) { c.Fingerprint = "other" },
	} {
		c := tinyRun(t, dir)
		edit(&c)
		_, err := Run(t.Context(), dev, c)
		var changed *ChangedError
		require.ErrorAs(t, err, &changed, key)
		assert.Equal(t, key, changed.Key)
		assert.ErrorContains(t, err, "--fresh")
	}
	// A text of which an earlier program made other tokens is told by the row.
	before := tinyRun(t, dir)
	before.Earlier, before.Fingerprint = data.Earlier{Fingerprint: before.Fingerprint, Why: "line 7: a reason"}, "other"
	_, err = Run(t.Context(), dev, before)
	require.ErrorContains(t, err, "as a row has other tokens than the program that began the run made of it: line 7: a reason; finish the run with that program, begin another one")
	// Settings of one's own do not hide another model from the checkpoint.
	other := tinyRun(t, dir)
	other.Settings = []record.Setting{{Key: "note", Value: 1}}
	writeSettings(t, dir, other.Settings)
	other.State.Definition, err = model.NewGPT2(model.GPT2Config{Layers: 2, Heads: 2, Width: 16, Vocab: 256, Context: 16})
	require.NoError(t, err)
	_, err = Run(t.Context(), dev, other)
	require.ErrorIs(t, err, checkpoint.ErrMismatch)
}

func TestFullDisk(t *testing.T) {
	dev := gputest.Device(t)
	dir := t.TempDir()
	c := tinyRun(t, dir)
	var out bytes.Buffer
	c.State.FS, c.Output = fullAfter{FileSystem: checkpoint.OS, path: checkpoint.DirName(6)}, &out
	result, err := Run(t.Context(), dev, c)
	require.ErrorIs(t, err, checkpoint.Err)
	require.ErrorContains(t, err, "bytes free")
	assert.Contains(t, out.String(), "checkpoint problem at step ")
	assert.Equal(t, kindCheckpoint, result.Reason)
	assert.Equal(t, 6, result.Reason.ExitCode())
	assert.EqualValues(t, 3, newestStep(t, dir))
	ran(t, dev, tinyRun(t, dir))
	assert.Equal(t, undisturbed(t, dev), outcomeOf(t, dir))
}

func TestNoRoomForTheFirstCheckpoint(t *testing.T) {
	dir := t.TempDir()
	c := tinyRun(t, dir)
	c.State.FS = noRoom{checkpoint.OS}
	result, err := Run(t.Context(), gputest.Device(t), c)
	var space *checkpoint.SpaceError
	require.ErrorAs(t, err, &space)
	assert.Equal(t, kindCheckpoint, result.Reason)
	assert.Zero(t, result.Step, "said before any work is done")
	assert.ErrorContains(t, err, "train.keep 2, train.keep_best 1, and the one being written")
}

// A run has room for all checkpoints that it will have at once, not for one.
func TestRoomForAllCheckpoints(t *testing.T) {
	c := Config{}
	c.Steps, c.SaveEvery, c.Keep, c.KeepBest = 100, Every(10), 3, 2
	assert.Equal(t, 4, c.mostCheckpoints())
	assert.Equal(t, 4, c.savesAfter(0))
	assert.Equal(t, 2, c.savesAfter(80))
	assert.Equal(t, 1, c.savesAfter(99))
	assert.Zero(t, c.savesAfter(100))
	c.SaveEvery = intervals{{Every: 40, Until: 80}, {Every: 90}}
	assert.Equal(t, 4, c.savesAfter(0), "40, 80, 90 and 100")
	assert.Equal(t, 2, c.savesAfter(80))
	c.Validation = tinyRun(t, "").Validation
	assert.Equal(t, 4, c.mostCheckpoints(), "without evaluations none is the best")
	c.EvalEvery = 10
	assert.Equal(t, 6, c.mostCheckpoints(), "and the best")
	c.SaveEvery = Every(0)
	assert.Equal(t, 1, c.savesAfter(0), "at the end")
}

type noRoom struct{ checkpoint.FileSystem }

func (noRoom) Free(string) (uint64, error) { return 1000, nil }

// fullAfter has no room once a checkpoint of that name is to be written.
type fullAfter struct {
	checkpoint.FileSystem
	path string
}

func (f fullAfter) RemoveAll(path string) error {
	if strings.Contains(path, f.path) {
		return &checkpoint.SpaceError{Wanted: 10, Free: 1}
	}
	return f.FileSystem.RemoveAll(path)
}

func TestOutOfMemoryBeforeTheFirstStep(t *testing.T) {
	dev := gputest.Device(t, gputest.WithMemoryLimit(500<<10))
	var out bytes.Buffer
	c := tinyRun(t, filepath.Join(t.TempDir(), "run"))
	c.Output = &out
	c.Peak = func(context.Context) (float64, error) {
		t.Error("what does not fit is measured")
		return 1e9, nil
	}
	result, err := Run(t.Context(), dev, c)
	require.ErrorIs(t, err, gpu.ErrOutOfMemory)
	assert.Equal(t, kindMemory, result.Reason)
	assert.Equal(t, 5, result.Reason.ExitCode())
	assert.ErrorContains(t, err, "lower")
	assert.NotContains(t, out.String(), "the run takes about")
	assert.NoDirExists(t, c.Dir)

	c.Dir = t.TempDir() // of somebody
	_, err = Run(t.Context(), dev, c)
	require.ErrorIs(t, err, gpu.ErrOutOfMemory)
	assert.DirExists(t, c.Dir)
}

func TestConfigErrors(t *testing.T) {
	for says, edit := range map[string]func(*Config){
		"train.steps: found 0, wanted 1 or more":       func(c *Config) { c.Steps = 0 },
		"train.eval_every: found -1, wanted 0 or more": func(c *Config) { c.EvalEvery = -1 },
		"run directory: none":                          func(c *Config) { c.Dir = "" },
		"training text: none":                          func(c *Config) { c.Train = nil },
		"data timeout: -1ns, want at least 0":          func(c *Config) { c.DataTimeout = -1 },
		"temperature":                                  func(c *Config) { c.Sample.Temperature = -1 },
		"batch: 0":                                     func(c *Config) { c.State.Batch = 0 },
		"the model has 100": func(c *Config) {
			def, err := model.NewGPT2(model.GPT2Config{Layers: 1, Heads: 2, Width: 16, Vocab: 100, Context: 16})
			require.NoError(t, err)
			c.State.Definition = def
		},
	} {
		c := tinyRun(t, t.TempDir())
		edit(&c)
		assert.ErrorContains(t, c.Validate(), says)
	}
}

func TestRunWithoutADevice(t *testing.T) {
	_, err := Run(t.Context(), nil, tinyRun(t, t.TempDir()))
	require.EqualError(t, err, "train: device: found none, wanted one of gpu.Open")
}
