package state

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers/safetensors"
	"gputrain/internal/gputest"
	"gputrain/optim"
	"gputrain/state/checkpoint"
)

// averagedConfig is a run with a mean of the weights from update 3 on, and gradients ahead of the weights.
func averagedConfig(t *testing.T) Config {
	c := tinyConfig(t)
	c.Optimizer.Options.Lookahead = &optim.Lookahead{Scale: 0.5, Decay: 0.8}
	c.Optimizer.Options.Average = &optim.Averaging{From: 3, Horizon: 2, Blend: 0.6, Without: []string{"wpe"}}
	return c
}

// What is evaluated is the share of the weights and that of their mean, of all leaves that have one; behind it training goes on from the bits that were there.
func TestEvaluatedWeights(t *testing.T) {
	dev := gputest.Device(t)
	s, alone := create(t, dev, averagedConfig(t)), create(t, dev, averagedConfig(t))
	train(t, alone, 6)
	for _, step := range []int64{2, 3, 5} {
		train(t, s, step)
		before, mean := read(t, s.Params()), map[string][]float32{}
		for _, tree := range s.Optimizers()[0].Trees() {
			if tree.Name == "average" {
				mean = read(t, tree.Tree)
			}
		}
		require.Len(t, mean, len(before)-1)
		require.Equal(t, step >= 3, s.Averaged())
		moved := 0
		require.NoError(t, s.Evaluated(t.Context(), func() error {
			for path, found := range read(t, s.Params()) {
				for i, w := range before[path] {
					want := float64(w)
					if a := mean[path]; a != nil && step >= 3 {
						want = 0.4*float64(w) + 0.6*float64(a[i])
					}
					require.InDelta(t, want, found[i], 1e-6, "step %d: %s", step, path)
					if found[i] != w {
						moved++
					}
				}
			}
			return nil
		}))
		assert.Equal(t, step > 3, moved > 0, "step %d", step)
		assert.Equal(t, before, read(t, s.Params()), "step %d", step)
	}
	assert.ErrorIs(t, s.Evaluated(t.Context(), func() error { return errors.ErrUnsupported }), errors.ErrUnsupported)
	train(t, s, 6)
	assert.Equal(t, read(t, alone.Params()), read(t, s.Params()), "looking changes nothing")
}

// A checkpoint has the weights that are trained, and their mean from its first update on. Who reads it gets those that were evaluated, but for a run that goes on.
func TestCheckpointsOfAveragedRuns(t *testing.T) {
	dev := gputest.Device(t)
	s := create(t, dev, averagedConfig(t))
	for _, step := range []int64{2, 5} {
		train(t, s, step)
		dir := filepath.Join(t.TempDir(), "checkpoint")
		require.NoError(t, s.Save(t.Context(), dir, checkpoint.Run{}))
		f, err := safetensors.Open(filepath.Join(dir, checkpoint.OptimizerFile))
		require.NoError(t, err)
		has := strings.Contains(strings.Join(f.Names(), " "), "average/")
		require.NoError(t, f.Close())
		assert.Equal(t, step >= 3, has)

		loaded, _, err := Load(t.Context(), dev, averagedConfig(t), dir)
		require.NoError(t, err)
		t.Cleanup(loaded.Release)
		assert.Equal(t, read(t, s.Params()), read(t, loaded.Params()))
		assert.Equal(t, s.Averaged(), loaded.Averaged())

		m, err := LoadModel(dev, dir)
		require.NoError(t, err)
		t.Cleanup(m.Release)
		require.NoError(t, s.Evaluated(t.Context(), func() error {
			want := read(t, s.Params())
			for path, found := range read(t, m.Params()) {
				assert.InDeltaSlice(t, want[path], found, 1e-6, "step %d: %s", step, path)
			}
			return nil
		}))
		train(t, loaded, step+2)
		train(t, s, step+2)
		assert.Equal(t, read(t, s.Params()), read(t, loaded.Params()))
		assert.Equal(t, tensorsIn(t, s), tensorsIn(t, loaded))
	}
}

// tensorsIn is what an optimizer remembers, by name.
func tensorsIn(t *testing.T, s *TrainState) map[string][]byte {
	out := map[string][]byte{}
	for _, tensor := range s.Optimizers()[0].Tensors() {
		raw, err := tensor.Read(t.Context())
		require.NoError(t, err)
		out[tensor.Name] = raw
	}
	return out
}
