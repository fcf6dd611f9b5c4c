package state

import (
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/buffers/safetensors"
	"gputrain/hub"
	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/state/checkpoint"
)

// adaptedConfig is that of a network with adapters and a norm that is trained whole, and the parameters that it begins with: its base is in a new
// directory. reads counts the elements that are read of the base.
func adaptedConfig(t *testing.T, l model.LoRA) (c Config, params []buffers.Host, reads *atomic.Int64) {
	t.Helper()
	c, reads = tinyConfig(t), new(atomic.Int64)
	base := c.Definition
	c.Base = filepath.Join(t.TempDir(), "base")
	hosts := model.Init(base, 5)
	require.NoError(t, model.Export(c.Base, base, func(path string) ([]float32, error) {
		return hosts[slices.IndexFunc(hosts, func(h buffers.Host) bool { return h.Path == path })].Data, nil
	}, model.ExportOptions{}))
	var err error
	c.Definition, err = model.WithLoRA(base, l)
	require.NoError(t, err)
	files := hub.Open(c.Base)
	t.Cleanup(func() { assert.NoError(t, files.Close()) })
	weights, err := files.Weights(base)
	require.NoError(t, err)
	params, _ = weights.ParamsOf(c.Definition, c.Seed)
	own := model.AdapterParams(c.Definition)
	for i, h := range params {
		if slices.Contains(own, h.Path) {
			continue
		}
		params[i].Read = func(dst []float32, first int) error {
			reads.Add(int64(len(dst)))
			return h.Read(dst, first)
		}
	}
	return c, params, reads
}

// A checkpoint of adapters computes what its run did, with the base as that run kept it.
func TestCheckpointsKeepTheirBaseAsTheirRunDid(t *testing.T) {
	dev := gputest.Device(t)
	for _, dtype := range []buffers.DType{buffers.F32, buffers.BF16, buffers.NF4, buffers.NF4Nested} {
		c, params, _ := adaptedConfig(t, model.LoRA{Rank: 3, DoRA: true})
		c.FrozenDType = dtype
		s, err := CreateFrom(t.Context(), dev, jobOf(t, c), params)
		require.NoError(t, err)
		train(t, s, 2)
		dir := filepath.Join(t.TempDir(), "checkpoint")
		require.NoError(t, s.Save(t.Context(), dir, checkpoint.Run{}))
		want, err := s.Logits(t.Context(), []int32{1, 2, 3})
		require.NoError(t, err)
		s.Release()
		m, err := LoadModel(dev, dir)
		require.NoError(t, err)
		found, err := m.Logits(t.Context(), []int32{1, 2, 3})
		require.NoError(t, err)
		assert.Equal(t, want, found, dtype)
		m.Release()

		require.NoError(t, os.Remove(filepath.Join(dir, "manifest.json")))
		text, err := model.Base{Directory: c.Base, Fingerprint: s.job.BaseRecord.Fingerprint, DType: "i32"}.Text()
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, model.BaseFile), text, 0o666))
		_, err = LoadModel(dev, dir)
		assert.ErrorContains(t, err, `base.json: dtype: found "i32", wanted f32, bf16, nf4 or nf4-nested`)
	}
}

// A checkpoint of adapters has them alone, as other programs read them, and names their base, of which a save reads nothing. A run goes on from it with every
// bit, and it is a model to sample from.
func TestCheckpointsOfAdapters(t *testing.T) {
	dev, dir := gputest.Device(t), t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	c, params, reads := adaptedConfig(t, model.LoRA{Rank: 3, DoRA: true, Dropout: 0.2, Save: []string{"ln_f"}})
	own := model.AdapterParams(c.Definition)
	s, err := CreateFrom(t.Context(), dev, jobOf(t, c), params)
	require.NoError(t, err)
	defer s.Release()
	assert.LessOrEqual(t, reads.Load(), 2*model.Parameters(model.BaseOf(c.Definition))+int64(len(own)*testV*16), "for the fingerprint, for the device, and for what begins as a part of it")
	train(t, s, 3)
	reads.Store(0)
	require.NoError(t, s.Save(t.Context(), at("early"), checkpoint.Run{}))
	want := train(t, s, 6)
	require.NoError(t, s.Save(t.Context(), at("late"), checkpoint.Run{}))
	assert.Zero(t, reads.Load())

	files := contents(t, at("early"))
	assert.NotContains(t, files, "model.safetensors")
	assert.Contains(t, files, checkpoint.ConfigFile)
	saved, err := safetensors.Open(filepath.Join(at("early"), model.AdapterWeightsFile))
	require.NoError(t, err)
	assert.ElementsMatch(t, own, saved.Names())
	require.NoError(t, saved.Close())
	assert.Less(t, len(files[model.AdapterWeightsFile])+len(files[checkpoint.OptimizerFile]), 4*int(model.Parameters(model.BaseOf(c.Definition))))

	again, record, err := Load(t.Context(), dev, c, at("early"))
	require.NoError(t, err)
	assert.Len(t, record.Frozen, len(params)-len(own))
	assert.Equal(t, want, train(t, again, 6))
	require.NoError(t, again.Save(t.Context(), at("again"), checkpoint.Run{}))
	assert.Equal(t, contents(t, at("late")), contents(t, at("again")))
	again.Release()

	logits, err := s.Logits(t.Context(), []int32{1, 2, 3})
	require.NoError(t, err)
	m, err := LoadModel(dev, at("late"))
	require.NoError(t, err)
	found, err := m.Logits(t.Context(), []int32{1, 2, 3})
	require.NoError(t, err)
	assert.Equal(t, logits, found)
	m.Release()

	other := c
	other.Definition, err = model.WithLoRA(model.BaseOf(c.Definition), model.LoRA{Rank: 3, Alpha: 7, DoRA: true, Dropout: 0.2, Save: []string{"ln_f"}})
	require.NoError(t, err)
	_, _, err = Load(t.Context(), dev, other, at("early"))
	require.ErrorIs(t, err, checkpoint.ErrMismatch)
	assert.ErrorContains(t, err, "lora_alpha: found 6, wanted 7")

	require.NoError(t, os.Rename(c.Base, at("moved")))
	_, _, err = Load(t.Context(), dev, c, at("late"))
	assert.ErrorContains(t, err, c.Base)
	c.BaseAt = at("moved")
	again, _, err = Load(t.Context(), dev, c, at("late"))
	require.NoError(t, err)
	again.Release()

	c.Base, c.BaseAt = "", ""
	alone, err := CreateFrom(t.Context(), dev, jobOf(t, c), params)
	require.NoError(t, err)
	defer alone.Release()
	assert.ErrorContains(t, alone.Save(t.Context(), at("none"), checkpoint.Run{}), "found adapters and no base")
}
