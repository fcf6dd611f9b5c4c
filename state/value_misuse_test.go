package state

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/state/checkpoint"
)

// What is released, lies elsewhere or is not there at all is refused, and the value is as good as before.
func TestValuesAreRefusedWhatIsGone(t *testing.T) {
	dev := gputest.Device(t)
	v := newValue(t, Fields{Params: upload(t, dev, ownTrees(1), buffers.F32), Optimizer: optimizerNamed("adamw", ""), InitOptimizer: true})
	defer func() { v.Release() }()
	grads := upload(t, dev, ownTrees(0.1), buffers.F32)
	grads.Release()
	_, err := v.ApplyGradients(t.Context(), grads)
	require.ErrorContains(t, err, "released")
	grads = upload(t, dev, ownTrees(0.1), buffers.F32)
	v, err = v.ApplyGradients(t.Context(), grads)
	require.NoError(t, err)
	grads.Release() // its program is there
	_, err = v.ApplyGradients(t.Context(), grads)
	require.ErrorContains(t, err, "released")
	f := fieldsOf(t, v)
	assert.EqualValues(t, 1, f.Step)
	for name, n := range f.OptimizerState.Counts() {
		assert.EqualValues(t, 1, n, "%s: what has not run is not counted", name)
	}
	_, _, err = LoadValue(t.Context(), nil, t.TempDir(), LoadOptions{})
	require.ErrorContains(t, err, "device: found none")

	for name, parameters := range map[string]string{
		"adamw": "", "quad": `{"block_size":4,"max_size_dense":8}`, "skew": `{"block_size":4,"max_size_dense":2}`, "muon": "", "adafactor": `{"min_dim_size_to_factor":4}`,
	} {
		w := newValue(t, Fields{Params: upload(t, dev, ownTrees(1), buffers.F32), Optimizer: optimizerNamed(name, parameters), InitOptimizer: true})
		fieldsOf(t, w).OptimizerState.Release()
		_, err = w.ApplyGradients(t.Context(), upload(t, dev, ownTrees(1), buffers.F32))
		require.ErrorContains(t, err, "released", name)
		_, err = w.Clone(t.Context())
		require.ErrorContains(t, err, "released", name)
		require.ErrorContains(t, w.Save(t.Context(), t.TempDir()+"/c", SaveOptions{}), "released", name)
		w.Release()
	}

	params := upload(t, dev, ownTrees(1), buffers.F32)
	lent := newValue(t, Fields{Params: params})
	params.Release()
	_, err = lent.Clone(t.Context())
	require.ErrorContains(t, err, "released")
	require.ErrorContains(t, lent.Save(t.Context(), t.TempDir()+"/c", SaveOptions{}), "released")
	lent.Release()
}

// To train takes an optimizer that a checkpoint can name.
func TestTrainWithoutARegisteredOptimizer(t *testing.T) {
	dev := gputest.Device(t)
	c := tinyConfig(t)
	c.Optimizer = optim.Config{}
	for want, tx := range map[string]optim.Transform{"Optimizer: found none": {}, "Optimizer: found scale, which is no registered one": optim.Scale(-1)} {
		v := newValue(t, Fields{Definition: c.Definition, Params: upload(t, dev, model.Init(c.Definition, 1), buffers.F32), Transform: tx})
		_, err := Train(t.Context(), v, c)
		var wrong *FieldsError
		require.ErrorAs(t, err, &wrong)
		require.ErrorContains(t, err, want)
		v.Release()
	}
}

// The optimizer and the transformation of a value are one thing: whichever is changed holds, and an optimizer state goes on with it.
func TestWithAnotherRate(t *testing.T) {
	dev := gputest.Device(t)
	rated := func(name string, rate float64) optim.Config {
		c := optimizerNamed(name, "")
		c.Options.Schedule = optim.ScheduleConfig{LearningRate: rate}
		return c
	}
	grads := upload(t, dev, ownTrees(0.1), buffers.F32)
	for _, name := range []string{"adamw", "quad"} {
		v := newValue(t, Fields{Params: upload(t, dev, ownTrees(1), buffers.F32), Optimizer: rated(name, 1e-2), InitOptimizer: true})
		step := func(rate float64) {
			var err error
			v, err = v.ApplyGradients(t.Context(), grads)
			require.NoError(t, err)
			assert.InDelta(t, rate, fieldsOf(t, v).OptimizerState.LearningRate(), 1e-12)
		}
		step(1e-2)
		step(1e-2)
		before := remembered(t, fieldsOf(t, v).OptimizerState)
		v, err := v.With(func(f *Fields) { f.Optimizer = rated(name, 3e-3) })
		require.NoError(t, err)
		f := fieldsOf(t, v)
		assert.Equal(t, before, remembered(t, f.OptimizerState), "it remembers what it did")
		assert.EqualValues(t, 2, f.OptimizerState.Counts()["updates"])
		v, err = v.ApplyGradients(t.Context(), grads)
		require.NoError(t, err)
		assert.InDelta(t, 3e-3, fieldsOf(t, v).OptimizerState.LearningRate(), 1e-12)
		path := t.TempDir() + "/other"
		require.NoError(t, v.Save(t.Context(), path, SaveOptions{}))
		loaded, record, err := LoadValue(t.Context(), dev, path, LoadOptions{})
		require.NoError(t, err)
		loaded.Release()
		recorded, err := SavedOptimizer(record)
		require.NoError(t, err)
		assert.InDelta(t, 3e-3, recorded.Options.Schedule.LearningRate, 1e-12)

		// One's own transformation, which no configuration describes any more.
		tx, err := rated(name, 1e-3).Build()
		require.NoError(t, err)
		v, err = v.With(func(f *Fields) { f.Transform = tx })
		require.NoError(t, err)
		assert.Empty(t, fieldsOf(t, v).Optimizer.Name)
		v, err = v.ApplyGradients(t.Context(), grads)
		require.NoError(t, err)
		assert.InDelta(t, 1e-3, fieldsOf(t, v).OptimizerState.LearningRate(), 1e-12)

		live := dev.Counters().LiveBytes
		_, err = v.With(func(f *Fields) { f.Optimizer = optimizerNamed("lion", "") })
		var wrong *FieldsError
		require.ErrorAs(t, err, &wrong)
		assert.Equal(t, "OptimizerState", wrong.Field)
		assert.LessOrEqual(t, dev.Counters().LiveBytes, live+4096, "nothing stays of what was refused")
		v.Release()
	}
	tx, err := rated("adamw", 1).Build()
	require.NoError(t, err)
	_, err = New(Fields{Params: grads, Transform: tx, Optimizer: rated("lion", 1)})
	var wrong *FieldsError
	require.ErrorAs(t, err, &wrong)
	assert.Equal(t, "Transform", wrong.Field)
}

func remembered(t *testing.T, s *optim.State) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	for _, tensor := range s.Tensors() {
		raw, err := tensor.Read(t.Context())
		require.NoError(t, err)
		out[tensor.Name] = raw
	}
	return out
}

// A save removes a checkpoint at most.
func TestSaveRemovesNothingElse(t *testing.T) {
	dev := gputest.Device(t)
	v := newValue(t, Fields{Params: upload(t, dev, ownTrees(1), buffers.F32)})
	t.Cleanup(v.Release)
	save := func(path string) error { return v.Save(context.Background(), path, SaveOptions{}) }
	root := t.TempDir()
	at := func(name string) string { return filepath.Join(root, name) }
	for _, taken := range []string{"home", "home.tmp", "home.replaced"} {
		require.NoError(t, os.MkdirAll(at(taken), 0o777))
		require.NoError(t, os.WriteFile(filepath.Join(at(taken), "thesis.tex"), []byte("years of work"), 0o666))
		err := save(at("home"))
		require.ErrorIs(t, err, fs.ErrExist)
		require.ErrorContains(t, err, "thesis.tex")
		assert.FileExists(t, filepath.Join(at(taken), "thesis.tex"))
		require.NoError(t, os.RemoveAll(at(taken)))
	}
	require.NoError(t, os.WriteFile(at("file"), []byte("years of work"), 0o666))
	err := save(at("file"))
	require.ErrorContains(t, err, "no checkpoint")
	require.ErrorIs(t, err, fs.ErrExist)
	assert.FileExists(t, at("file"))

	require.NoError(t, os.Mkdir(at("home"), 0o777))
	require.NoError(t, save(at("home")), "an empty directory")
	require.NoError(t, os.CopyFS(at("home.old"), os.DirFS(at("home"))))
	require.NoError(t, os.Remove(filepath.Join(at("home"), "manifest.json")))
	require.NoError(t, save(at("home")+"/"), "what is left of a checkpoint, by a name with a slash")
	require.NoError(t, checkpoint.Verify(checkpoint.OS, at("home")))
	require.NoError(t, checkpoint.Verify(checkpoint.OS, at("home.old")), "a copy of one's own")
	entries, err := os.ReadDir(root)
	require.NoError(t, err)
	assert.Len(t, entries, 3, "nothing beside them")

	require.ErrorContains(t, save(""), "no name")
	err = v.Save(t.Context(), at("typed"), SaveOptions{DType: "bf16"})
	require.ErrorContains(t, err, `did you mean "BF16"?`)
	_, _, err = LoadValue(t.Context(), dev, at("hom"), LoadOptions{})
	require.ErrorIs(t, err, fs.ErrNotExist)
	require.ErrorIs(t, err, checkpoint.Err)
	require.NotErrorIs(t, err, checkpoint.ErrCorrupt)
}
