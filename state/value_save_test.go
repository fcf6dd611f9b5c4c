package state

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/state/checkpoint"
)

// What is saved comes back with every bit, and steps from there are those that would have come: of trees of any kind, of variables that are no
// parameters, of transformations that nobody has registered.
func TestSaveAndLoadValues(t *testing.T) {
	own := optim.Chain(optim.Trace(0.9, true), optim.ScaleByLearningRate(optim.Constant(0.1)))
	for name, test := range map[string]struct {
		params, other buffers.DType
		optimizer     optim.Config
		transform     optim.Transform
	}{
		"registered": {buffers.F32, buffers.F32, optimizerNamed("adamw", ""), optim.Transform{}},
		"own":        {buffers.F32, buffers.BF16, optim.Config{}, own},
		"half":       {buffers.BF16, buffers.I32, optimizerNamed("muon", ""), optim.Transform{}},
		"factors":    {buffers.F32, buffers.U32, optimizerNamed("skew", `{"block_size":4,"max_size_dense":8}`), optim.Transform{}},
	} {
		t.Run(name, func(t *testing.T) {
			gputest.Each(t, func(t *testing.T, dev *gpu.Device) {
				layout, err := buffers.NewLayout([]buffers.Spec{{Path: "running/mean", Shape: []int{5}}}, dev.Limits())
				require.NoError(t, err)
				other, err := buffers.NewTree(dev, "other", layout, test.other)
				require.NoError(t, err)
				t.Cleanup(other.Release)
				raw := []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20}[:5*test.other.Bits()/8]
				require.NoError(t, other.WriteRaw("running/mean", raw))
				v := newValue(t, Fields{
					Params: upload(t, dev, ownTrees(1), test.params), Other: other, Optimizer: test.optimizer, Transform: test.transform, InitOptimizer: true, Skipped: 2,
				})
				grads := upload(t, dev, ownTrees(0.1), buffers.F32)
				step := func(v Value) Value {
					v, err := v.ApplyGradients(t.Context(), grads)
					require.NoError(t, err)
					return v
				}
				v = step(step(v))
				dir := filepath.Join(t.TempDir(), "saved")
				require.NoError(t, v.Save(t.Context(), dir, SaveOptions{Run: checkpoint.Run{Tokens: 77}}))
				require.NoFileExists(t, filepath.Join(dir, checkpoint.ConfigFile))
				got, record, err := LoadValue(t.Context(), dev, dir, LoadOptions{Transform: test.transform})
				require.NoError(t, err)
				t.Cleanup(func() { got.Release() })
				assert.EqualValues(t, 77, record.Run.Tokens)
				f := fieldsOf(t, got)
				assert.EqualValues(t, 2, f.Step)
				assert.EqualValues(t, 2, f.Skipped)
				assert.Equal(t, test.params, f.Params.DType())
				back, err := f.Other.ReadRaw(t.Context(), "running/mean")
				require.NoError(t, err)
				assert.Equal(t, raw, back)
				v, got = step(v), step(got)
				want, again := filepath.Join(t.TempDir(), "want"), filepath.Join(t.TempDir(), "again")
				require.NoError(t, v.Save(t.Context(), want, SaveOptions{}))
				require.NoError(t, got.Save(t.Context(), again, SaveOptions{}))
				require.Equal(t, contents(t, want), contents(t, again))
				require.NotEqual(t, contents(t, dir), contents(t, want), "a step shows")

				// The optimizer alone, into a value of other parameters.
				fresh := newValue(t, Fields{Params: upload(t, dev, ownTrees(9), test.params), Optimizer: test.optimizer, Transform: test.transform, InitOptimizer: true})
				fresh, record, err = fresh.LoadOptimizer(t.Context(), want)
				require.NoError(t, err)
				assert.EqualValues(t, 3, record.Step, "of the optimizer")
				f = fieldsOf(t, fresh)
				assert.Zero(t, f.Step)
				assert.Equal(t, download(t, upload(t, dev, ownTrees(9), test.params)), download(t, f.Params))
				assert.Equal(t, fieldsOf(t, v).OptimizerState.Counts(), f.OptimizerState.Counts())
				for i, x := range f.OptimizerState.Tensors() {
					a, err := x.Read(t.Context())
					require.NoError(t, err)
					b, err := fieldsOf(t, v).OptimizerState.Tensors()[i].Read(t.Context())
					require.NoError(t, err)
					require.Equal(t, b, a, x.Name)
				}
				fresh.Release()

				// The weights alone.
				weights, _, err := LoadValue(t.Context(), dev, want, LoadOptions{WeightsOnly: true})
				require.NoError(t, err)
				f = fieldsOf(t, weights)
				assert.Zero(t, f.Step)
				assert.Nil(t, f.OptimizerState)
				assert.Empty(t, f.Transform.Name())
				assert.Equal(t, download(t, fieldsOf(t, v).Params), download(t, f.Params))
				weights.Release()
			})
		})
	}
}

// Without its optimizer, and with weights of fewer bits, as an export has them.
func TestSaveOfPartsOfAValue(t *testing.T) {
	dev := gputest.Device(t)
	c := tinyConfig(t)
	v := newValue(t, Fields{Definition: c.Definition, Params: upload(t, dev, model.Init(c.Definition, 3), buffers.F32), Optimizer: tinyOptimizer(), InitOptimizer: true, Step: 5})
	hosts := download(t, fieldsOf(t, v).Params)
	for _, dtype := range []string{"", "F32", "BF16", "F16"} {
		dir := filepath.Join(t.TempDir(), "saved")
		require.NoError(t, v.Save(t.Context(), dir, SaveOptions{WithoutOptimizer: true, DType: dtype}))
		require.NoFileExists(t, filepath.Join(dir, checkpoint.OptimizerFile))
		if dtype != "" {
			// The same files as of an export.
			export := filepath.Join(t.TempDir(), "export")
			require.NoError(t, model.Export(export, c.Definition, func(path string) ([]float32, error) { return fieldsOf(t, v).Params.Read(t.Context(), path) },
				model.ExportOptions{DType: dtype}))
			for _, name := range []string{checkpoint.ConfigFile, "model.safetensors"} {
				assert.Equal(t, contents(t, export)[name], contents(t, dir)[name], name)
			}
		}
		got, _, err := LoadValue(t.Context(), dev, dir, LoadOptions{})
		require.NoError(t, err)
		f := fieldsOf(t, got)
		assert.EqualValues(t, 5, f.Step)
		assert.Nil(t, f.OptimizerState)
		assert.Equal(t, "gpt2", f.Definition.Kind())
		if dtype == "" || dtype == "F32" {
			assert.Equal(t, hosts, download(t, f.Params))
		} else {
			assert.NotEqual(t, hosts, download(t, f.Params))
		}
		got.Release()
		_, _, err = v.LoadOptimizer(t.Context(), dir)
		require.ErrorIs(t, err, checkpoint.ErrMismatch)
		_, _, err = Load(t.Context(), dev, tinyConfig(t), dir)
		require.ErrorIs(t, err, checkpoint.ErrMismatch)
	}
	// A transformation that has no state yet is not in the files.
	bare := newValue(t, Fields{Params: upload(t, dev, ownTrees(1), buffers.F32), Optimizer: tinyOptimizer()})
	dir := filepath.Join(t.TempDir(), "bare")
	require.NoError(t, bare.Save(t.Context(), dir, SaveOptions{}))
	got, _, err := LoadValue(t.Context(), dev, dir, LoadOptions{})
	require.NoError(t, err)
	assert.Empty(t, fieldsOf(t, got).Transform.Name())
	got.Release()

	dir = filepath.Join(t.TempDir(), "x")
	require.Error(t, v.Save(t.Context(), dir, SaveOptions{DType: "F8"}))
	require.NoDirExists(t, dir)
	v.Release()
}

// A value is not loaded of what is not its own, nor of what is damaged; nothing of the device is kept then.
func TestLoadOfAnotherValue(t *testing.T) {
	dev := gputest.Device(t)
	own := optim.Chain(optim.Trace(0.9, true), optim.Scale(-0.1))
	f := Fields{Params: upload(t, dev, ownTrees(1), buffers.F32), Transform: own, InitOptimizer: true}
	v := newValue(t, f)
	dir := filepath.Join(t.TempDir(), "own")
	require.NoError(t, v.Save(t.Context(), dir, SaveOptions{}))
	registered := newValue(t, Fields{Params: upload(t, dev, ownTrees(1), buffers.F32), Optimizer: optimizerNamed("adamw", ""), InitOptimizer: true})
	adam := filepath.Join(t.TempDir(), "adamw")
	require.NoError(t, registered.Save(t.Context(), adam, SaveOptions{}))
	before := dev.Counters().LiveBytes
	for name, test := range map[string]struct {
		dir  string
		tx   optim.Transform
		text string
	}{
		"own and none given":           {dir, optim.Transform{}, "which is no registered one"},
		"own of another name":          {dir, optim.Scale(-0.1), `wanted "scale"`},
		"registered, another is given": {adam, own, "wanted " + `"` + own.Name()},
	} {
		_, _, err := LoadValue(t.Context(), dev, test.dir, LoadOptions{Transform: test.tx})
		require.ErrorIs(t, err, checkpoint.ErrMismatch, name)
		require.ErrorIs(t, err, checkpoint.Err, name)
		assert.ErrorContains(t, err, test.text, name)
	}
	_, _, err := v.LoadOptimizer(t.Context(), adam)
	require.ErrorIs(t, err, checkpoint.ErrMismatch)
	other := optimizerNamed("adamw", `{"b1":0.5}`)
	second := newValue(t, Fields{Params: upload(t, dev, ownTrees(1), buffers.F32), Optimizer: other, InitOptimizer: true})
	_, _, err = second.LoadOptimizer(t.Context(), adam)
	require.ErrorIs(t, err, checkpoint.ErrMismatch)
	assert.ErrorContains(t, err, "parameters.b1: found 0.9, wanted 0.5")
	second.Release()

	path := filepath.Join(adam, "optimizer.safetensors")
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	raw[len(raw)-1] ^= 1
	require.NoError(t, os.WriteFile(path, raw, 0o600))
	_, _, err = LoadValue(t.Context(), dev, adam, LoadOptions{})
	require.ErrorIs(t, err, checkpoint.ErrCorrupt)
	assert.LessOrEqual(t, dev.Counters().LiveBytes, before+1<<10)
	v.Release()
}
