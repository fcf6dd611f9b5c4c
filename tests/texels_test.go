package tests

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/state"
)

// What a run learns has the same bits whichever kernels read texels, so nothing of that has to be remembered for a run to go on.
func TestTexelsChangeNoBitOfARun(t *testing.T) {
	t.Parallel()
	gputest.Long(t, "gpu.TestTexelsHaveTheBitsOfBuffers")
	for i, a := range gputest.Adapters(t) {
		if a.Limits.TexelBindings == 0 {
			continue
		}
		for name, def := range texelModels(t) {
			if name == "quad" && i > 0 {
				continue // the same kernels through the other language of the same driver, which take half a minute to compile there
			}
			t.Run(a.Backend+" "+name, func(t *testing.T) {
				var want map[string][]float32
				for _, use := range gputest.Rows([]gpu.TexelUse{gpu.TexelsOff, gpu.TexelsAll, gpu.TexelsForce}, 2) {
					got, refreshes := learnt(t, a, use, name, def)
					assert.Equal(t, use == gpu.TexelsOff, refreshes == 0, "%s: %d refreshes", use, refreshes)
					if want == nil {
						want = got
					}
					assert.Equal(t, want, got, "texels %s", use)
				}
			})
		}
	}
}

// texelModels are models by the optimizer that they are trained with.
func texelModels(t *testing.T) map[string]model.Definition {
	t.Helper()
	gpt2, err := model.NewGPT2(model.GPT2Config{Layers: 2, Heads: 2, Width: 64, Vocab: defaultV, Context: 64})
	require.NoError(t, err)
	llama, err := model.NewLlama(model.LlamaConfig{Layers: 1, Heads: 4, KVHeads: 2, Width: 32, Vocab: defaultV, Context: 64})
	require.NoError(t, err)
	return map[string]model.Definition{"adamw": gpt2, "quad": llama}
}

// learnt is the parameters after three steps of two batches, and the refreshes that they took.
func learnt(t *testing.T, a gpu.Adapter, use gpu.TexelUse, optimizer string, def model.Definition) (map[string][]float32, uint64) {
	t.Helper()
	dev, err := gpu.Open(t.Context(), a, gpu.Options{Texels: use})
	require.NoError(t, err)
	defer dev.Release()
	s, err := state.Create(t.Context(), dev, state.Config{
		Definition: def, Batch: 4, Microbatches: 2, Seed: 7,
		Optimizer: optim.Config{Name: optimizer, Options: optim.Options{Schedule: optim.ScheduleConfig{LearningRate: 0.01}, WeightDecay: 0.1}},
	})
	require.NoError(t, err)
	defer s.Release()
	b := defaultBatch(1)
	n := 8 * def.Context()
	b.Rows, b.Count, b.Tokens, b.Labels = 8, n, b.Tokens[:n], b.Labels[:n]
	for range 3 {
		_, err := s.TrainStep(t.Context(), b)
		require.NoError(t, err)
	}
	_, err = s.Drain(t.Context())
	require.NoError(t, err)
	out := map[string][]float32{}
	for _, leaf := range s.Params().Layout().Leaves() {
		if out[leaf.Path], err = s.Params().Read(t.Context(), leaf.Path); err != nil {
			t.Fatal(fmt.Errorf("%s: %w", leaf.Path, err))
		}
	}
	return out, dev.Counters().Refreshes
}
