package state

import (
	"math"
	"math/rand/v2"
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

// orthogonal is g / |g| after five Newton-Schulz steps, x <- 3.4445 x - 4.775 (x xᵀ) x + 2.0315 (x xᵀ)² x, in float64.
func orthogonal(g []float32, rows, cols int) []float64 {
	x, norm := make([]float64, len(g)), 0.0
	for _, v := range g {
		norm += float64(v) * float64(v)
	}
	for i, v := range g {
		x[i] = float64(v) / math.Sqrt(norm)
	}
	gram := func(y []float64) []float64 { // x xᵀ y
		a, out := make([]float64, rows*rows), make([]float64, len(y))
		for i := range rows {
			for j := range rows {
				for k := range cols {
					a[i*rows+j] += x[i*cols+k] * x[j*cols+k]
				}
			}
		}
		for i := range rows {
			for j := range rows {
				for k := range cols {
					out[i*cols+k] += a[i*rows+j] * y[j*cols+k]
				}
			}
		}
		return out
	}
	for range 5 {
		once := gram(x)
		twice := gram(once)
		for i := range x {
			x[i] = 3.4445*x[i] - 4.775*once[i] + 2.0315*twice[i]
		}
	}
	return x
}

// muonValue is a network at step 0 with Muon at a rate of 1 and nothing besides, on which only the trained parameters lie that a test gives
// gradients.
func muonValue(t *testing.T, dev *gpu.Device, def model.Definition, frozen []string) Value {
	t.Helper()
	o := optim.Options{Schedule: optim.ScheduleConfig{LearningRate: 1}}
	f := Fields{Definition: def, InitOptimizer: true, Optimizer: optim.Config{Name: "muon", Options: o}}
	var err error
	f.Params, f.Frozen, err = Job{Config{Definition: def, Frozen: frozen}}.upload(dev, model.Init(def, 1))
	require.NoError(t, err)
	v, err := New(f)
	require.NoError(t, err)
	return v
}

// placed are the parameters of a value after an update on two stages of one device, which take turns with the leaves.
func placed(t *testing.T, v Value, grads []buffers.Host) map[string][]float32 {
	t.Helper()
	f, err := v.Fields()
	require.NoError(t, err)
	dev, stage := f.Params.Device(), map[string]int{}
	for i, path := range Paths(f.Params, f.Frozen) {
		stage[path] = i % 2
	}
	v, err = v.Place(t.Context(), Placement{Devices: []*gpu.Device{dev, dev}, Stage: stage})
	require.NoError(t, err)
	defer func() { v.Release() }()
	f, err = v.Fields()
	require.NoError(t, err)
	trees := make([]*buffers.Tree, 2)
	for i := range trees {
		own := slices.DeleteFunc(slices.Clone(grads), func(h buffers.Host) bool { return stage[h.Path] != i })
		trees[i], err = buffers.UploadAs(dev, "grads", f.Stages[i].Params.Layout(), own, buffers.F32)
		require.NoError(t, err)
		defer trees[i].Release()
	}
	v, err = v.ApplyGradients(t.Context(), trees...)
	require.NoError(t, err)
	out := map[string][]float32{}
	for _, s := range f.Stages {
		hosts, err := s.Params.Download(t.Context())
		require.NoError(t, err)
		for _, h := range hosts {
			out[h.Path] = h.Data
		}
	}
	return out
}

// An update of Muon is as large as the side of the outputs asks, which only the network knows: sqrt(max(1, outputs/inputs)) times an orthogonal
// matrix.
func TestMuonKnowsTheOutputsOfAMatrix(t *testing.T) {
	dev := gputest.Device(t)
	must := func(def model.Definition, err error) model.Definition {
		require.NoError(t, err)
		return def
	}
	llama := must(model.NewLlama(model.LlamaConfig{Layers: 1, Heads: 2, KVHeads: 1, Width: 8, Intermediate: 20, Vocab: 7, Context: 4}))
	gpt2 := must(model.NewGPT2(model.GPT2Config{Layers: 1, Heads: 1, Width: 4, Intermediate: 10, Vocab: 7, Context: 4}))
	for name, c := range map[string]struct {
		def     model.Definition
		outputs func(path string, shape []int) int
	}{
		"llama": {llama, func(_ string, shape []int) int { return shape[0] }},
		"gpt2":  {gpt2, func(_ string, shape []int) int { return shape[1] }},
		"adapters on gpt2": {must(model.WithLoRA(gpt2, model.LoRA{Rank: 2, Target: []string{model.AllLinear}})), func(path string, shape []int) int {
			require.Contains(t, path, "lora_")
			return shape[0]
		}},
	} {
		t.Run(name, func(t *testing.T) {
			var frozen []string
			if own := model.AdapterParams(c.def); own != nil {
				for _, p := range model.BaseOf(c.def).Params() {
					frozen = append(frozen, p.Path)
				}
			}
			v := muonValue(t, dev, c.def, frozen)
			defer func() { v.Release() }()
			f, err := v.Fields()
			require.NoError(t, err)
			before, err := f.Params.Download(t.Context())
			require.NoError(t, err)
			r := rand.New(rand.NewPCG(3, 5))
			var hosts []buffers.Host
			for _, h := range before {
				g := buffers.Host{Path: h.Path, Shape: h.Shape, Data: make([]float32, h.Elements())}
				for i := range g.Data {
					g.Data[i] = float32(r.NormFloat64())
				}
				hosts = append(hosts, g)
			}
			grads, err := buffers.UploadAs(dev, "grads", f.Params.Layout(), hosts, buffers.F32)
			require.NoError(t, err)
			defer grads.Release()
			v, err = v.ApplyGradients(t.Context(), grads)
			require.NoError(t, err)
			after, err := f.Params.Download(t.Context())
			require.NoError(t, err)
			apart := placed(t, muonValue(t, dev, c.def, frozen), hosts)
			for i, h := range after {
				require.Equal(t, h.Data, apart[h.Path], "%s on one of two stages: %d", h.Path, i)
			}
			matrices := 0
			for i, h := range before {
				if len(h.Shape) != 2 || strings.Contains(h.Path, "embed") || strings.Contains(h.Path, "lm_head") || strings.HasPrefix(h.Path, "w") {
					continue // AdamW's
				}
				matrices++
				out := c.outputs(h.Path, h.Shape)
				factor := math.Sqrt(max(1, float64(out)*float64(out)/float64(h.Elements())))
				for k, u := range orthogonal(hosts[i].Data, h.Shape[0], h.Shape[1]) {
					// Five products in f32 of numbers of about 1: 1e-4, as the optimizer's own checks have it.
					require.InDelta(t, float64(h.Data[k])-factor*u, after[i].Data[k], 1e-4, "%s %v [%d]", h.Path, h.Shape, k)
				}
			}
			assert.GreaterOrEqual(t, matrices, 4)
		})
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
