package pipeline_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/internal/histogram"
	"gputrain/internal/schedule"
	"gputrain/model"
	"gputrain/run/data"
	"gputrain/state"
)

// onLeast plans a run on stages that are GPUs with the limits that WebGPU guarantees, and nothing more. A plan records every program, and
// so checks every kernel and grid.
func onLeast(t *testing.T, c state.Config, stages int) []state.MemoryPlan {
	t.Helper()
	devices := make([]*gpu.Device, stages)
	for i := range devices {
		devices[i] = gpu.DryOf(gpu.Adapter{Index: i}, gpu.DefaultLimits())
	}
	return planned(t, devices, order(t, c, schedule.OneForwardOneBackward, stages))
}

// The limits that WebGPU guarantees are enough for GPT-2 in four stages, whose head's gradient crosses, and for 32 sequences of it at a time, which
// have activations of 400 MiB. Their parts take no more memory than they would whole.
func TestGPT2WithinGuaranteedLimits(t *testing.T) {
	def, err := model.NewGPT2(model.GPT2Config{Layers: 12, Heads: 12, Width: 768, Vocab: 50257, Context: 1024})
	require.NoError(t, err)
	require.Greater(t, uint64(4*50257*768), gpu.DefaultLimits().BindingBytes)
	onLeast(t, steep(def, "adamw", `{}`, 4, 4), 4)

	c := steep(def, "adamw", `{}`, 32, 1)
	parts := onLeast(t, c, 1)[0]
	whole := gpu.DefaultLimits()
	whole.BindingBytes, whole.BufferBytes = 8<<30, 8<<30
	job, err := state.NewJob(c)
	require.NoError(t, err)
	plan, err := state.Plan(t.Context(), job, whole)
	require.NoError(t, err)
	assert.InEpsilon(t, plan.Total(), parts.Total(), 0.03)
}

// Every optimizer, and heads of every size that has kernels of its own.
func TestKernelsWithinGuaranteedLimits(t *testing.T) {
	for o, x := range optimizers {
		heads := 1 << (o % 4) // of 256, 128, 64 and 32
		def, err := model.NewLlama(model.LlamaConfig{Layers: 1, Heads: heads, KVHeads: max(1, heads/2), Width: 256, Vocab: 300, Context: 600, Intermediate: 700, Tied: o%2 == 0})
		require.NoError(t, err)
		c := steep(def, x.name, `{}`, 2, 2)
		c.Evaluation, c.Sampling = 2, true
		onLeast(t, c, 1+o/4%2)
	}
}

// A device that allows no more than WebGPU guarantees learns, evaluates, samples and counts the same bits.
func TestGuaranteedLimitsAreEnough(t *testing.T) {
	gputest.Long(t, "TestLeafLargerThanABinding")
	limits := gpu.DefaultLimits()
	limits.TexelBindings = 4 // storage textures, where the adapter reads them
	least := gputest.WithLimits(limits)
	dev, small := gputest.Device(t), fleet(t, 2, least)
	for o, x := range optimizers {
		names := []string{"gpt2", "llama"} // what more there is, plans check
		t.Run(x.label, func(t *testing.T) {
			c := steep(deep(t), x.name, x.parameters, 1, 2) // whose kernels TestMatrix has compiled
			if o < len(names) {
				c = steep(families(t)[names[o]], x.name, x.parameters, 2, 2)
				c.Evaluation, c.Sampling = 2, true
			}
			with := batches(c, 2)
			want, wantTold := told(t, dev, c, with)
			got, gotTold := told(t, small[0], c, with)
			sameBits(t, want, got)
			require.Equal(t, wantTold, gotTold)
			if o%5 == 0 {
				sameBits(t, want, together(t, small, order(t, c, schedule.OneForwardOneBackward, 2), with))
			}
		})
	}
}

// told is what a device learns, and what it then says of texts, windows and parameters.
func told(t *testing.T, dev *gpu.Device, c state.Config, with []data.Batch) (l learnt, all []any) {
	t.Helper()
	s, err := state.Create(t.Context(), dev, c)
	require.NoError(t, err)
	defer s.Release()
	l = learnt{learn(t, s, with), paramsOf(t, s)}
	if c.Evaluation == 0 {
		return l, nil
	}
	e, err := data.NewEvaluation(tokens(t, 40).Validation, 4, c.Evaluation, 0)
	require.NoError(t, err)
	loss, err := s.Evaluate(t.Context(), e)
	require.NoError(t, err)
	logits, err := s.Logits(t.Context(), []int32{5, 7})
	require.NoError(t, err)
	next, err := s.Decode(t.Context(), 3)
	require.NoError(t, err)
	params, grads := s.Trees()
	counter, err := histogram.New(t.Context(), func(string) bool { return true }, histogram.Source{Name: "params", Tree: params[0]}, histogram.Source{Name: "grads", Tree: grads[0]})
	require.NoError(t, err)
	defer counter.Release()
	require.NoError(t, counter.Submit(t.Context()))
	histograms, err := counter.Take(t.Context())
	require.NoError(t, err)
	return l, []any{loss, logits, next, histograms}
}
