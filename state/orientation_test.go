package state

import (
	"path/filepath"
	"slices"
	"strings"
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

// The trees of a network, whole and on stages, and after a checkpoint, know which side of a matrix is its outputs, by which Muon scales.
func TestTreesKnowTheOutputsOfAMatrix(t *testing.T) {
	dev := gputest.Device(t)
	adapted, err := model.WithLoRA(tinyModel(t, 0), model.LoRA{Rank: 2, Target: []string{model.AllLinear}})
	require.NoError(t, err)
	for _, def := range []model.Definition{generating(t)["llama"], adapted} {
		want, stage, sides := map[string]bool{}, map[string]int{}, map[bool]int{}
		for i, s := range model.Specs(def) {
			want[s.Path], stage[s.Path] = s.OutIn, i%2
			sides[s.OutIn]++
		}
		require.Len(t, sides, 2)
		knows := func(v Value) {
			found := map[string]bool{}
			params, frozen, _ := trees(fieldsOf(t, v).residents())
			for _, tree := range buffers.Given(slices.Concat(params, frozen)...) {
				for _, leaf := range tree.Layout().Leaves() {
					found[leaf.Path] = leaf.OutIn
				}
			}
			assert.Equal(t, want, found)
		}
		f := Fields{Definition: def, Optimizer: optimizerNamed("muon", ""), InitOptimizer: true}
		var frozen []string
		if model.AdapterParams(def) != nil {
			for _, p := range model.BaseOf(def).Params() {
				frozen = append(frozen, p.Path)
			}
		}
		f.Params, f.Frozen, err = Job{Config{Definition: def, Frozen: frozen}}.upload(dev, model.Init(def, 1))
		require.NoError(t, err)
		v := newValue(t, f)
		knows(v)
		v, err = v.Place(t.Context(), Placement{Devices: []*gpu.Device{dev, dev}, Stage: stage})
		require.NoError(t, err)
		knows(v)
		if frozen == nil {
			dir := filepath.Join(t.TempDir(), "saved")
			require.NoError(t, v.Save(t.Context(), dir, SaveOptions{}))
			loaded, _, err := LoadValue(t.Context(), dev, dir, LoadOptions{})
			require.NoError(t, err)
			knows(loaded)
			loaded.Release()
		}
		v.Release()
	}
}

// A run goes on with the rules that it began with, wherever its record says so or, of an earlier program, says nothing: to the bits of the run at
// once. One that names the newest is refused.
func TestRunsKeepTheirEdition(t *testing.T) {
	dev := gputest.Device(t)
	llama, err := model.NewLlama(model.LlamaConfig{Layers: 11, Heads: 2, Width: 8, Vocab: testV, Context: testT})
	require.NoError(t, err)
	for name, o := range map[string]optim.Config{
		"muon":     {Name: "muon"},
		"quad":     {Name: "quad", Options: optim.Options{Numerics: optim.EFormer}},
		"a number": {Name: "quad", Parameters: []byte(`{"noise_scale":0.5,"block_size":16}`)},
	} {
		t.Run(name, func(t *testing.T) {
			c := tinyConfig(t)
			c.Definition = llama
			o.Options.Schedule = tinyOptimizer().Options.Schedule
			c.Optimizer = o
			begun := c
			begun.Optimizer.Options.Edition = optim.First
			s := create(t, dev, begun)
			train(t, s, 2)
			dir := t.TempDir()
			record := filepath.Join(dir, checkpoint.DirName(2))
			require.NoError(t, s.Save(t.Context(), record, checkpoint.Run{}))
			want := train(t, s, 4)
			unnamed := filepath.Join(dir, "unnamed")
			var files []checkpoint.Source
			for name, text := range contents(t, record) {
				if name == checkpoint.RecordFile {
					before := len(text)
					text = strings.Replace(text, `"edition": 1,`, "", 1)
					require.Less(t, len(text), before)
				}
				if name != "manifest.json" {
					files = append(files, checkpoint.TextFile(name, []byte(text)))
				}
			}
			require.NoError(t, checkpoint.Commit(checkpoint.OS, unnamed, 2, files))
			for _, from := range []string{record, unnamed} {
				again, _, err := Load(t.Context(), dev, c, from)
				require.NoError(t, err)
				assert.Equal(t, want, train(t, again, 4))
				assert.Equal(t, optim.First, again.job.Optimizer.Options.Edition, "and says so again")
				again.Release()
			}
			v, _, err := LoadValue(t.Context(), dev, unnamed, LoadOptions{})
			require.NoError(t, err)
			trained, err := Train(t.Context(), v, c)
			require.NoError(t, err)
			assert.Equal(t, want, train(t, trained, 4), "by way of a value")
			trained.Release()
			newest := c
			newest.Optimizer.Options.Edition = optim.Newest
			_, _, err = Load(t.Context(), dev, newest, unnamed)
			assert.ErrorIs(t, err, checkpoint.ErrMismatch)
		})
	}
}
