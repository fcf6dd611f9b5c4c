package state

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/hub"
	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/state/checkpoint"
)

// contents are the bytes of every file of a checkpoint.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	names, err := checkpoint.OS.ReadDir(dir)
	require.NoError(t, err)
	out := map[string]string{}
	for _, name := range names {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		out[name] = string(raw)
	}
	return out
}

// change rewrites one file of a checkpoint.
func change(t *testing.T, path string, edit func([]byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, edit(data), 0o666))
}

// disk is one with so many bytes free.
type disk struct {
	checkpoint.FileSystem
	free uint64
}

func (d disk) Free(string) (uint64, error) { return d.free, nil }

// Stopping at every step and loading gives the same bytes at the end, and the same metrics, as never stopping.
func TestSaveAndLoadAreExact(t *testing.T) {
	gputest.Each(t, func(t *testing.T, dev *gpu.Device) {
		c := tinyConfig(t)
		c.Definition = tinyModel(t, 0.1)
		c.Microbatches = 2
		const steps = 12
		dir := t.TempDir()
		whole := create(t, dev, c)
		var want []Metrics
		for step := int64(1); step <= steps; step++ {
			want = append(want, train(t, whole, step)...)
			require.NoError(t, whole.Save(t.Context(), filepath.Join(dir, checkpoint.DirName(step)), checkpoint.Run{Tokens: step}))
		}
		wanted := contents(t, filepath.Join(dir, checkpoint.DirName(steps)))
		require.Len(t, wanted, 5)
		for at := int64(1); at < steps; at++ {
			s, record, err := Load(t.Context(), dev, c, filepath.Join(dir, checkpoint.DirName(at)))
			require.NoError(t, err)
			assert.Equal(t, at, record.Step)
			assert.Equal(t, at, record.Run.Tokens)
			assert.Equal(t, at, s.Step())
			got := train(t, s, steps)
			require.Equal(t, want[at:], got)
			again := filepath.Join(dir, "again")
			require.NoError(t, s.Save(t.Context(), again, checkpoint.Run{Tokens: steps}))
			require.Equal(t, wanted, contents(t, again), "stopped at step %d", at)
			s.Release()
		}
		// Without the optimizer's state the end would be another: the comparison can fail.
		cold, err := CreateFrom(t.Context(), dev, jobOf(t, c), mustWeights(t, filepath.Join(dir, checkpoint.DirName(6)), c.Definition))
		require.NoError(t, err)
		defer cold.Release()
		cold.own.Step = 6
		assert.NotEqual(t, want[steps-1].Loss, train(t, cold, steps)[steps-7].Loss)
	})
}

func mustWeights(t *testing.T, dir string, def model.Definition) []buffers.Host {
	t.Helper()
	files := hub.Open(dir)
	defer files.Close()
	weights, err := files.Weights(def)
	require.NoError(t, err)
	hosts, err := weights.All()
	require.NoError(t, err)
	return hosts
}

func TestSaveWithMetricsOutstanding(t *testing.T) {
	s := create(t, gputest.Device(t), tinyConfig(t))
	_, err := s.TrainStep(t.Context(), tinyBatch(0, 4, false))
	require.NoError(t, err)
	require.NoError(t, s.Save(t.Context(), filepath.Join(t.TempDir(), "x"), checkpoint.Run{}))
	m, err := s.Drain(t.Context())
	require.NoError(t, err)
	require.Len(t, m, 1, "the metrics that saving waited for are not lost")
}

// Another model, another optimizer, other factors or numerics are refused by the name of what differs.
func TestLoadOfAnotherRun(t *testing.T) {
	dev := gputest.Device(t)
	c := tinyConfig(t)
	dir := filepath.Join(t.TempDir(), checkpoint.DirName(1))
	s := create(t, dev, c)
	train(t, s, 1)
	require.NoError(t, s.Save(t.Context(), dir, checkpoint.Run{}))

	for name, change := range map[string]struct {
		edit func(*Config)
		says string
	}{
		"layers": {func(c *Config) {
			def, err := model.NewGPT2(model.GPT2Config{Layers: 3, Heads: 2, Width: 16, Vocab: testV, Context: testT})
			require.NoError(t, err)
			c.Definition = def
		}, "model: n_layer: found 2, wanted 3"},
		"optimizer": {func(c *Config) { c.Optimizer.Name = "sgd" }, `optimizer: name: found "adamw", wanted "sgd"`},
		"rate":      {func(c *Config) { c.Optimizer.Options.Schedule.LearningRate = 0.5 }, "optimizer: options.schedule.learning_rate: found 0.01, wanted 0.5"},
		"parameter": {func(c *Config) { c.Optimizer.Parameters = json.RawMessage(`{"b1":0.8}`) }, "optimizer: parameters.b1: found 0.9, wanted 0.8"},
		"dtype":     {func(c *Config) { c.Optimizer.Parameters = json.RawMessage(`{"mu_dtype":"bf16"}`) }, `optimizer: parameters.mu_dtype: found "f32", wanted "bf16"`},
		"numerics":  {func(c *Config) { c.Optimizer.Options.Numerics = optim.EFormer }, `optimizer: options.numerics: found "", wanted "eformer"`},
	} {
		t.Run(name, func(t *testing.T) {
			other := c
			change.edit(&other)
			_, _, err := Load(t.Context(), dev, other, dir)
			require.ErrorIs(t, err, checkpoint.ErrMismatch)
			require.ErrorIs(t, err, checkpoint.Err)
			assert.ErrorContains(t, err, change.says)
		})
	}
	// Parameters written out or left to their defaults are the same.
	same := c
	same.Optimizer.Parameters = json.RawMessage(`{"b1":0.9}`)
	loaded, _, err := Load(t.Context(), dev, same, dir)
	require.NoError(t, err)
	loaded.Release()
	// Left out altogether, they come from the checkpoint.
	loaded, _, err = Load(t.Context(), dev, Config{Batch: 4, Seed: 7}, dir)
	require.NoError(t, err)
	defer loaded.Release()
	assert.Equal(t, train(t, s, 3), train(t, loaded, 3))
}

func TestLoadOfDamaged(t *testing.T) {
	dev := gputest.Device(t)
	c := tinyConfig(t)
	s := create(t, dev, c)
	for name, damage := range map[string]struct {
		file string
		edit func([]byte) []byte
		is   error
		says string
	}{
		"optimizer":      {checkpoint.OptimizerFile, func(d []byte) []byte { d[len(d)-1] ^= 1; return d }, checkpoint.ErrCorrupt, `tensor "nu/wte.weight"`},
		"weights":        {"model.safetensors", func(d []byte) []byte { d[len(d)-1] ^= 1; return d }, checkpoint.ErrCorrupt, `tensor "wte.weight"`},
		"record version": {checkpoint.RecordFile, func(d []byte) []byte { return bytes.Replace(d, []byte(`"format": 1`), []byte(`"format": 9`), 1) }, checkpoint.ErrVersion, "format 9, want 1"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), checkpoint.DirName(0))
			require.NoError(t, s.Save(t.Context(), dir, checkpoint.Run{}))
			change(t, filepath.Join(dir, damage.file), damage.edit)
			if damage.is == checkpoint.ErrVersion { // an old, whole checkpoint has a manifest that agrees with it
				var files []checkpoint.Source
				for name, text := range contents(t, dir) {
					if name != "manifest.json" {
						files = append(files, checkpoint.TextFile(name, []byte(text)))
					}
				}
				require.NoError(t, checkpoint.Commit(checkpoint.OS, dir, 0, files))
			}
			_, _, err := Load(t.Context(), dev, c, dir)
			require.ErrorIs(t, err, damage.is)
			assert.ErrorContains(t, err, damage.says)
		})
	}
}

func TestSaveToFullDisk(t *testing.T) {
	c := tinyConfig(t)
	c.FS = disk{checkpoint.OS, 1000}
	s := create(t, gputest.Device(t), c)
	err := s.Save(t.Context(), filepath.Join(t.TempDir(), "x"), checkpoint.Run{})
	var space *checkpoint.SpaceError
	require.ErrorAs(t, err, &space)
	require.ErrorIs(t, err, checkpoint.Err)
	_, _, err = s.CheckSpace(t.Context(), t.TempDir(), 1)
	require.ErrorAs(t, err, &space)
	s.job.FS = disk{checkpoint.OS, 2*space.Wanted - 1}
	each, free, err := s.CheckSpace(t.Context(), t.TempDir(), 1)
	require.NoError(t, err)
	assert.Equal(t, []uint64{space.Wanted, 2*space.Wanted - 1}, []uint64{each, free})
	_, _, err = s.CheckSpace(t.Context(), t.TempDir(), 2)
	require.ErrorIs(t, err, checkpoint.Err, "there is room for one of two")
	params, optimizer, _ := s.own.size()
	assert.Greater(t, space.Wanted, params+optimizer/2)
}

// The size that is asked for beforehand is near what is then written.
func TestSizesOfSources(t *testing.T) {
	s := create(t, gputest.Device(t), tinyConfig(t))
	dir := filepath.Join(t.TempDir(), "x")
	require.NoError(t, s.Save(t.Context(), dir, checkpoint.Run{}))
	list, err := s.snapshot().sources(t.Context(), checkpoint.Run{})
	require.NoError(t, err)
	for _, source := range list {
		size, err := checkpoint.OS.Size(filepath.Join(dir, source.Name))
		require.NoError(t, err)
		assert.LessOrEqual(t, uint64(size), source.Bytes, source.Name)
	}
}

// Weights of more bytes than a file may have are in several, with an index, and are restored from them.
func TestSaveInShards(t *testing.T) {
	dev := gputest.Device(t)
	c := tinyConfig(t)
	s := create(t, dev, c)
	train(t, s, 2)
	dir := t.TempDir()
	whole, sharded := filepath.Join(dir, "whole"), filepath.Join(dir, "sharded")
	require.NoError(t, s.Save(t.Context(), whole, checkpoint.Run{}))
	snapshot := s.snapshot()
	snapshot.shardBytes = 4 << 10
	require.NoError(t, snapshot.Save(t.Context(), sharded, checkpoint.Run{}))
	files := contents(t, sharded)
	assert.NotContains(t, files, "model.safetensors")
	assert.Contains(t, files, checkpoint.IndexFile)
	found, err := hub.Open(sharded).WeightFiles()
	require.NoError(t, err)
	require.Greater(t, len(found), 2)
	assert.Len(t, files, 5+len(found), "config, optimizer, record, manifest, index, shards")
	loaded, _, err := Load(t.Context(), dev, c, sharded)
	require.NoError(t, err)
	defer loaded.Release()
	again := filepath.Join(dir, "again")
	require.NoError(t, loaded.Save(t.Context(), again, checkpoint.Run{}))
	assert.Equal(t, contents(t, whole), contents(t, again))
	require.NoError(t, os.Remove(found[1]))
	require.ErrorIs(t, checkpoint.Verify(checkpoint.OS, sharded), checkpoint.ErrCorrupt)
}

// A save holds a piece of one tensor, a copy all bytes once until it is released: neither grows with the number of saves. Read and written in pieces,
// every optimizer's tensors are the bytes that they are at once.
func TestSavesHoldPieces(t *testing.T) {
	for name := range partOptimizers {
		if testing.Short() && !slices.Contains([]string{"adamw", "mars", "quad"}, name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			dev, dir := gputest.Device(t), t.TempDir()
			c := partConfig(t, name)
			at := func(name string) string { return filepath.Join(dir, name) }
			s := create(t, dev, c)
			train(t, s, 2)
			require.NoError(t, s.Save(t.Context(), at("whole"), checkpoint.Run{}))
			want := contents(t, at("whole"))
			const piece = 60
			c.PieceBytes = piece
			loaded, _, err := Load(t.Context(), dev, c, at("whole"))
			require.NoError(t, err)
			t.Cleanup(loaded.Release)
			largest, all := uint64(piece), uint64(0) // of what cannot be had in pieces
			for _, o := range loaded.Optimizers() {
				for _, tensor := range o.Tensors() {
					if tensor.ReadAt == nil {
						largest = max(largest, uint64(tensor.Bytes()))
					}
					all += uint64(tensor.Bytes())
				}
			}
			all += loaded.Params().Layout().Bytes(buffers.F32)
			for range 3 {
				require.NoError(t, loaded.Stream(t.Context(), checkpoint.Run{}, func(c checkpoint.HostCopy) {
					require.NoError(t, checkpoint.Commit(checkpoint.OS, at("streamed"), c.Step, c.Sources))
				}))
				require.Equal(t, want, contents(t, at("streamed")))
				require.LessOrEqual(t, uint64(loaded.staging.most.Load()), largest)
			}
			for range 3 {
				copied, err := loaded.CopyToHost(t.Context(), checkpoint.Run{})
				require.NoError(t, err)
				require.NoError(t, checkpoint.Commit(checkpoint.OS, at("copied"), copied.Step, copied.Sources))
				require.Equal(t, want, contents(t, at("copied")))
				copied.Release()
				require.LessOrEqual(t, uint64(loaded.staging.most.Load()), all+largest, "the copy before is released")
			}
			require.Greater(t, uint64(loaded.staging.most.Load()), all/2)
		})
	}
}

// What was copied to the host is what was saved at that moment, however training has gone on since.
func TestStagedIsTheStateOfItsStep(t *testing.T) {
	gputest.Each(t, func(t *testing.T, dev *gpu.Device) {
		s := create(t, dev, tinyConfig(t))
		train(t, s, 2)
		dir := t.TempDir()
		run := checkpoint.Run{Tokens: 5, Window: []float64{1, 2}}
		require.NoError(t, s.Save(t.Context(), filepath.Join(dir, "now"), run))
		copied, err := s.CopyToHost(t.Context(), run)
		require.NoError(t, err)
		assert.EqualValues(t, 2, copied.Step)
		train(t, s, 4)
		run.Window[0] = 7 // as a loop goes on to do
		require.NoError(t, checkpoint.Commit(checkpoint.OS, filepath.Join(dir, "later"), copied.Step, copied.Sources))
		assert.Equal(t, contents(t, filepath.Join(dir, "now")), contents(t, filepath.Join(dir, "later")))
	})
}
