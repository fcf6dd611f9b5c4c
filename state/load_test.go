package state

import (
	"bytes"
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/checkpoint"
	"gputrain/gpu/gputest"
	"gputrain/model"
)

// vanishing removes the optimizer's file once it has been verified, when the record is opened.
type vanishing struct{ checkpoint.FileSystem }

func (f vanishing) Open(path string) (io.ReadCloser, error) {
	if dir, name := filepath.Split(path); name == checkpoint.RecordFile {
		if err := f.RemoveAll(filepath.Join(dir, checkpoint.OptimizerFile)); err != nil {
			return nil, err
		}
	}
	return f.FileSystem.Open(path)
}

// What fails after a checkpoint has been verified is told, and a state that may have half of an optimizer makes no more steps.
func TestLoadOptimizerFailsLate(t *testing.T) {
	s := create(t, gputest.Device(t), tinyConfig(t))
	train(t, s, 1)
	dir := filepath.Join(t.TempDir(), "saved")
	require.NoError(t, s.Save(t.Context(), dir, checkpoint.Run{}))
	s.config.FS = vanishing{checkpoint.OS}
	_, err := s.LoadOptimizer(t.Context(), dir)
	require.ErrorContains(t, err, checkpoint.OptimizerFile)
	_, stopped := s.TrainStep(t.Context(), tinyBatch(0, 4, false))
	require.ErrorIs(t, stopped, err)
}

// Weights alone, then the optimizer alone, are what a checkpoint has but for the step.
func TestLoadOnlyWeightsOrOptimizer(t *testing.T) {
	dev := gputest.Device(t)
	c := tinyConfig(t)
	s := create(t, dev, c)
	train(t, s, 3)
	dir := t.TempDir()
	saved, exported := filepath.Join(dir, "saved"), filepath.Join(dir, "exported")
	require.NoError(t, s.Save(t.Context(), saved, checkpoint.Run{}))
	want := contents(t, saved)

	other := c // the weights do not mind what trained them
	other.Optimizer.Name = "sgd"
	cold, err := LoadWeights(t.Context(), dev, other, saved)
	require.NoError(t, err)
	t.Cleanup(cold.Release)
	require.ErrorIs(t, second(cold.LoadOptimizer(t.Context(), saved)), checkpoint.ErrMismatch)
	train(t, cold, 1) // refused, it goes on

	// From an export, which has no manifest, the same.
	hosts := mustWeights(t, saved, c.Definition)
	require.NoError(t, model.Export(exported, c.Definition, func(path string) ([]float32, error) {
		for _, h := range hosts {
			if h.Path == path {
				return h.Data, nil
			}
		}
		return nil, assert.AnError
	}, model.ExportOptions{}))
	for _, from := range []string{saved, exported} {
		half, err := LoadWeights(t.Context(), dev, Config{Batch: c.Batch, Seed: c.Seed, Optimizer: c.Optimizer}, from)
		require.NoError(t, err)
		t.Cleanup(half.Release)
		assert.Zero(t, half.Step())
		path := filepath.Join(dir, "again")
		require.NoError(t, half.Save(t.Context(), path, checkpoint.Run{}))
		got := contents(t, path)
		assert.Equal(t, want["model.safetensors"], got["model.safetensors"])
		assert.NotEqual(t, want[checkpoint.OptimizerFile], got[checkpoint.OptimizerFile], "begins anew")

		_, err = half.TrainStep(t.Context(), tinyBatch(0, 4, false)) // in flight while the optimizer is loaded
		require.NoError(t, err)
		record, err := half.LoadOptimizer(t.Context(), saved)
		require.NoError(t, err)
		assert.EqualValues(t, 3, record.Step, "of the optimizer")
		assert.EqualValues(t, 1, half.Step())
		assert.Equal(t, s.own.OptimizerState.Counts(), half.own.OptimizerState.Counts())
		require.NoError(t, half.Save(t.Context(), path, checkpoint.Run{}))
		assert.Equal(t, want[checkpoint.OptimizerFile], contents(t, path)[checkpoint.OptimizerFile])
	}
	require.ErrorIs(t, second(s.LoadOptimizer(t.Context(), exported)), checkpoint.ErrCorrupt, "a model has no optimizer")
	change(t, filepath.Join(exported, "config.json"), func(d []byte) []byte { return bytes.Replace(d, []byte(`"scale_attn_weights": true,`), nil, 1) })
	_, _, files, err := OpenWeights(c, exported)
	require.NoError(t, err, "a key less that says what is so anyway")
	require.NoError(t, files.Close())
	wrong := c
	wrong.Definition, err = model.NewGPT2(model.GPT2Config{Layers: 3, Heads: 2, Width: 16, Vocab: testV, Context: testT})
	require.NoError(t, err)
	_, err = LoadWeights(t.Context(), dev, wrong, saved)
	require.ErrorIs(t, err, checkpoint.ErrMismatch)
	change(t, filepath.Join(saved, "model.safetensors"), func(d []byte) []byte { d[len(d)-1] ^= 1; return d })
	_, err = LoadWeights(t.Context(), dev, c, saved)
	require.ErrorIs(t, err, checkpoint.ErrCorrupt)
}
