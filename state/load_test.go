package state

import (
	"io"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
	"gputrain/state/checkpoint"
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
	s.job.FS = vanishing{checkpoint.OS}
	_, err := s.LoadOptimizer(t.Context(), dir)
	require.ErrorContains(t, err, checkpoint.OptimizerFile)
	_, stopped := s.TrainStep(t.Context(), tinyBatch(0, 4, false))
	require.ErrorIs(t, stopped, err)
}

// The parameters of a checkpoint, and then its optimizer, are what it has but for the step.
func TestLoadOnlyWeightsOrOptimizer(t *testing.T) {
	dev := gputest.Device(t)
	c := tinyConfig(t)
	s := create(t, dev, c)
	train(t, s, 3)
	dir := t.TempDir()
	saved, path := filepath.Join(dir, "saved"), filepath.Join(dir, "again")
	require.NoError(t, s.Save(t.Context(), saved, checkpoint.Run{}))
	want, params := contents(t, saved), mustWeights(t, saved, c.Definition)

	other := c
	other.Optimizer.Name = "sgd"
	cold, err := CreateFrom(t.Context(), dev, jobOf(t, other), params)
	require.NoError(t, err)
	t.Cleanup(cold.Release)
	require.ErrorIs(t, second(cold.LoadOptimizer(t.Context(), saved)), checkpoint.ErrMismatch)
	train(t, cold, 1) // refused, it goes on

	half, err := CreateFrom(t.Context(), dev, jobOf(t, c), params)
	require.NoError(t, err)
	t.Cleanup(half.Release)
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

	change(t, filepath.Join(saved, "model.safetensors"), func(d []byte) []byte { d[len(d)-1] ^= 1; return d })
	require.ErrorIs(t, second(half.LoadOptimizer(t.Context(), saved)), checkpoint.ErrCorrupt)
}
