package train

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/run/data"
	"gputrain/state"
	"gputrain/state/checkpoint"
)

// onBatches is a run on batches by their number, from one on.
func onBatches(t *testing.T, first uint64) Config {
	t.Helper()
	c := tinyRun(t, t.TempDir())
	c.Train = nil
	c.Batches = func(from data.State) (BatchSource, error) {
		if from.Position == 0 {
			from.Position = first
		}
		collator, err := data.NewCollator(16, data.LongKeepEnd)
		return &collated{collator, from, new(int)}, err
	}
	return c
}

// tensorsIn are the parameters and the optimizer's state of a checkpoint.
func tensorsIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, name := range []string{"model.safetensors", checkpoint.OptimizerFile} {
		raw := textAt(t, dir, name)
		out[name] = raw
	}
	return out
}

// A run that begins with what a stopped one has left, in a directory of its own, ends with the bits of one that was not stopped, on one
// device and on stages. What it leaves is what it has saved, and the caller's: released, nothing is left.
func TestRunFromAValue(t *testing.T) {
	devices := gputest.Several(t, 2)
	one := oneDevice{device: devices[0]}
	two := Pipelined(devices, twoStages(t, tinyRun(t, t.TempDir()).State))
	live := func() uint64 { return devices[0].Counters().LiveBytes + devices[1].Counters().LiveBytes }
	whole := onBatches(t, 0)
	_, err := RunOn(t.Context(), one, whole)
	require.NoError(t, err)
	want := outcomeOf(t, whole.Dir)
	for name, targets := range map[string][2]Target{"one device": {one, one}, "one, then two": {one, two}, "two, then two": {two, two}} {
		t.Run(name, func(t *testing.T) {
			var v state.Value
			first := onBatches(t, 0)
			first.Value = &v
			ctx, hook := stopAt(StepEnd, 5)
			first.Hooks = []Hook{hook}
			result, err := RunOn(ctx, targets[0], first)
			require.ErrorIs(t, err, ErrStopped)
			f, err := v.Fields()
			require.NoError(t, err)
			assert.EqualValues(t, 5, f.Step)
			saved := filepath.Join(t.TempDir(), "saved")
			require.NoError(t, v.Save(t.Context(), saved, state.SaveOptions{}))
			assert.Equal(t, tensorsIn(t, result.Checkpoint), tensorsIn(t, saved))

			second := onBatches(t, 5)
			second.Value, second.State.Definition = &v, nil
			var out bytes.Buffer
			second.Output = &out
			result, err = RunOn(t.Context(), targets[1], second)
			require.NoError(t, err)
			assert.Zero(t, result.Resumed)
			assert.Contains(t, out.String(), "begins with what it was given: gpt2 with")
			assert.NotContains(t, out.String(), "warning")
			require.NoError(t, v.Save(t.Context(), saved, state.SaveOptions{}))
			for _, dir := range []string{result.Checkpoint, saved} {
				for file, text := range tensorsIn(t, dir) {
					assert.True(t, want.checkpoint[file] == text, "%s of %s", file, dir)
				}
			}

			// The same again goes on from its own checkpoint, and has nothing to do; what it was given is released.
			held := live()
			result, err = RunOn(t.Context(), targets[1], second)
			require.NoError(t, err)
			assert.EqualValues(t, 12, result.Resumed)
			assert.Equal(t, held, live())
			f, err = v.Fields()
			require.NoError(t, err)
			assert.EqualValues(t, 12, f.Step)
			params, optimizer, _ := v.Size()
			before := live()
			v.Release()
			assert.LessOrEqual(t, live(), before-params-optimizer)
		})
	}
}

// What a run refuses to begin with is as it was, and an error on the way leaves what has been reached.
func TestRunFromAValueThatFails(t *testing.T) {
	devices := gputest.Several(t, 2)
	dev := devices[0]
	begin := func(dev *gpu.Device) state.Value {
		def := undropped(t)
		s, err := state.Create(t.Context(), dev, state.Config{Definition: def, Optimizer: optim.Config{Name: "adamw"}, Batch: 2})
		require.NoError(t, err)
		v, err := s.Value(t.Context())
		require.NoError(t, err)
		v, err = v.With(func(f *state.Fields) { f.Step = 2 })
		require.NoError(t, err)
		return v
	}
	v, elsewhere, spent := begin(dev), begin(devices[1]), begin(dev)
	spent.Release()
	t.Cleanup(func() { v.Release(); elsewhere.Release() })
	for want, change := range map[string]func(c *Config){
		"value: found one beside Params or From":      func(c *Config) { c.Params = model.Init(c.State.Definition, 1) },
		"value: found one beside Params or From, wan": func(c *Config) { c.From = "somewhere" },
		"value: is at step 2, wanted 1 steps at most": func(c *Config) { c.Steps = 1 },
		"value: state: value: fields: spent":          func(c *Config) { c.Value = &spent },
		"wanted it on the device of the run":          func(c *Config) { c.Value = &elsewhere },
		"Params: found other leaves":                  func(c *Config) { c.State.Definition = wider(t) },
		"optimizer state of guard_updates(adamw)":     func(c *Config) { c.State.Optimizer.Name = "lion" },
	} {
		c := onBatches(t, 0)
		c.Value, c.State.Definition = &v, undropped(t)
		change(&c)
		_, err := Run(t.Context(), dev, c)
		require.ErrorContains(t, err, want)
		for _, kept := range []state.Value{v, elsewhere} {
			f, err := kept.Fields()
			require.NoError(t, err, want)
			assert.EqualValues(t, 2, f.Step, want)
		}
	}

	c := onBatches(t, 0)
	c.Value, c.State.Definition, c.State.Optimizer = &v, nil, optim.Config{}
	c.Batches = func(data.State) (BatchSource, error) { return nil, errors.New("no batches today") }
	_, err := Run(t.Context(), dev, c)
	require.ErrorContains(t, err, "no batches today")
	f, err := v.Fields()
	require.NoError(t, err, "it was taken over, and is left")
	assert.EqualValues(t, 2, f.Step)
}

// What a run begins with is there already: it does not count against the plan.
func TestPlanOfARunFromAValue(t *testing.T) {
	c := onBatches(t, 0).withDefaults()
	dev := gputest.Device(t, gputest.WithMemoryLimit(takesOf(t, oneDevice{device: gputest.Device(t)}, c.State).Bytes()+1<<10))
	s, err := state.Create(t.Context(), dev, c.State)
	require.NoError(t, err)
	v, err := s.Value(t.Context())
	require.NoError(t, err)
	defer func() { v.Release() }()
	for value, want := range map[*state.Value]bool{&v: true, nil: false} {
		c.Value = value
		assert.Equal(t, want, takesOf(t, oneDevice{dev, c.taken()}, c.State).Fits)
	}
}

func wider(t *testing.T) model.Definition {
	t.Helper()
	def, err := model.NewGPT2(model.GPT2Config{Layers: 1, Heads: 2, Width: 32, Vocab: 256, Context: 16})
	require.NoError(t, err)
	return def
}
