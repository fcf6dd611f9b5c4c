package state

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/model"
)

// A state learns the same bits whatever it computes again, with dropout, microbatches, frozen and quantized parameters, and adapters, and each choice takes less
// memory than the one before.
func TestRecomputeLearnsTheSameBits(t *testing.T) {
	dev := gputest.Device(t)
	llama, err := model.NewLlama(model.LlamaConfig{Layers: 3, Heads: 2, KVHeads: 1, Width: 16, Vocab: testV, Context: testT, Tied: true})
	require.NoError(t, err)
	gpt2, err := model.NewGPT2(model.GPT2Config{Layers: 3, Heads: 2, Width: 16, Vocab: testV, Context: testT, EmbeddingDropout: 0.1, ResidualDropout: 0.1})
	require.NoError(t, err)
	quantized, err := model.WithQuantization(llama, model.Quantization{Mode: "affine"})
	require.NoError(t, err)
	adapted, err := model.WithLoRA(gpt2, model.LoRA{Rank: 3, Target: []string{model.AllLinear}, Dropout: 0.1, DoRA: true})
	require.NoError(t, err)
	for i, def := range []model.Definition{gpt2, llama, quantized, adapted} {
		t.Run(fmt.Sprint(def.Kind(), i), func(t *testing.T) {
			c := tinyConfig(t)
			c.Definition, c.Microbatches = def, 1+i%2
			if i == 0 {
				c.Frozen = matching(def, "wte", "h.1.")
			}
			var want []Metrics
			var params map[string][]float32
			last := uint64(0)
			for _, what := range model.Recomputes {
				c.Recompute = what
				s := create(t, dev, c)
				if last > 0 {
					assert.Less(t, s.Memory()[0].Step, last, what)
				}
				last = s.Memory()[0].Step
				got := train(t, s, 3)
				trees, _ := s.Trees()
				learned := read(t, trees...)
				if want == nil {
					want, params = got, learned
				}
				assert.Equal(t, want, got, what)
				assert.Equal(t, params, learned, what)
				s.Release()
			}
		})
	}
}

// What is left to the memory there is becomes the first choice that fits, and the last where none does.
func TestRecomputeByTheMemoryThereIs(t *testing.T) {
	c := plannedConfig(t)
	c.Evaluation, c.Sampling = 0, false
	bound := func(bytes uint64) *gpu.Device {
		return gputest.Device(t, gputest.WithMemoryLimit(bytes), func(o *gpu.Options) { o.Texels = gpu.TexelsOff }) // which take memory of their own
	}
	limits, plan := bound(1<<40).Limits(), map[string]uint64{}
	for _, c.Recompute = range model.Recomputes {
		p, err := Plan(t.Context(), jobOf(t, c), limits)
		require.NoError(t, err)
		plan[c.Recompute] = p.Total()
	}
	c.Recompute = RecomputeAuto
	p, err := Plan(t.Context(), jobOf(t, c), limits)
	require.NoError(t, err)
	assert.Equal(t, plan[model.RecomputeNone], p.Total(), "without a device there is nothing to fit")
	for what, want := range plan {
		dev := bound(want)
		chosen, err := jobOf(t, c).fits(t.Context(), dev, 0)
		require.NoError(t, err)
		assert.Equal(t, what, chosen.Recompute)
		choice := c
		choice.Recompute = what
		p, err := Plan(t.Context(), jobOf(t, choice), dev.Limits())
		require.NoError(t, err)
		assert.True(t, FitsMemory([]*gpu.Device{dev}, []MemoryPlan{p}, 0))
		if what != model.RecomputeNone { // which does not fit then
			choice.Recompute = model.RecomputeNone
			_, err = Create(t.Context(), dev, choice)
			require.ErrorContains(t, err, "set train.recompute to "+what+": "+gpu.SizeText(want)+" instead of ")
		}
	}
	_, err = Create(t.Context(), bound(plan[model.RecomputeLayers]-1), c)
	require.ErrorIs(t, err, gpu.ErrOutOfMemory)
	assert.ErrorContains(t, err, gpu.SizeText(plan[model.RecomputeLayers])+" wanted")
	assert.ErrorContains(t, err, "lower batch from 4 to 2")

	c.Recompute = "layer"
	assert.ErrorContains(t, c.Validate(), `recompute: "layer", want one of auto, none, attention, layers, did you mean "layers"?`)
}

// What is computed again is work of a step, but not of the mathematics, which metrics count.
func TestWorkOfRecompute(t *testing.T) {
	c := tinyConfig(t)
	a := gpu.Adapter{Index: -1, Name: "none", Type: "discrete", Limits: gpu.DefaultLimits()}
	work := func() (all float64) {
		s, err := Dry(t.Context(), jobOf(t, c), gpu.DryOf(a, a.Limits))
		require.NoError(t, err)
		found := s.Work()
		for _, w := range found[:len(found)-1] {
			all += w.Needed
		}
		return all
	}
	once := work()
	mathematics, err := jobOf(t, c).FLOPs()
	require.NoError(t, err)
	built, err := c.Definition.Build(c.Batch, testT, model.Options{Loss: true, Training: true})
	require.NoError(t, err)
	forward := built.Graph.FLOPs(built.LossSum)
	for _, c.Recompute = range model.Recomputes {
		again, err := jobOf(t, c).Again()
		require.NoError(t, err)
		assert.InDelta(t, float64(forward)*again, work()-once, 1e-6*float64(forward), c.Recompute)
		assert.Equal(t, c.Recompute == model.RecomputeNone, again == 0)
		flops, err := jobOf(t, c).FLOPs()
		require.NoError(t, err)
		assert.Equal(t, mathematics, flops)
	}
}

// Models that people know train within the memory of common cards, by plan.
func TestPlansOfKnownShapes(t *testing.T) {
	limits := gpu.DefaultLimits()
	limits.BufferBytes, limits.BindingBytes, limits.StorageBuffers, limits.Invocations = 2<<30, 2<<30, 64, 1024
	for _, c := range []struct {
		name      string
		shape     model.LlamaConfig
		optimizer string
		recompute string
		most      uint64
	}{
		{"Qwen3 0.6B", model.LlamaConfig{
			Layers: 28, Width: 1024, Heads: 16, KVHeads: 8, HeadDim: 128, Intermediate: 3072, Vocab: 151936, Context: 1024, Tied: true,
		}, "adamw", model.RecomputeAttention, 12 << 30},
		{"Llama 3.2 1B", model.LlamaConfig{
			Layers: 16, Width: 2048, Heads: 32, KVHeads: 8, Intermediate: 8192, Vocab: 128256, Context: 2048, Tied: true,
		}, "lion", model.RecomputeLayers, 16 << 30},
	} {
		def, err := model.NewLlama(c.shape)
		require.NoError(t, err)
		config := Config{Definition: def, Optimizer: tinyOptimizer(), Batch: 1, Recompute: c.recompute}
		config.Optimizer.Name = c.optimizer
		plan, err := Plan(t.Context(), jobOf(t, config), limits)
		require.NoError(t, err)
		t.Logf("%s, %s, %s: %s of %s", c.name, c.optimizer, c.recompute, gpu.SizeText(plan.Total()), plan)
		assert.LessOrEqual(t, plan.Total(), c.most, c.name)
	}
}
