package state

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/internal/gputest"
	"gputrain/model"
)

// A state whose activations lie in bf16 learns other bits than one in f32, the same whatever it computes again, with frozen parameters and heads that
// norms turn.
func TestStoredInBF16(t *testing.T) {
	dev := gputest.Device(t)
	gpt2, err := model.NewGPT2(model.GPT2Config{Layers: 2, Heads: 2, Width: 16, Vocab: testV, Context: testT, ResidualDropout: 0.1})
	require.NoError(t, err)
	qwen, err := model.New("qwen3", model.Keys{Layers: 2, Heads: 2, KVHeads: 1, Width: 16, HeadDim: 8, Vocab: testV, Context: testT, RopeTheta: 10000})
	require.NoError(t, err)
	for i, def := range []model.Definition{gpt2, qwen} {
		t.Run(def.Kind(), func(t *testing.T) {
			c := tinyConfig(t)
			if c.Definition = def; i == 0 {
				c.Frozen = matching(def, "wte", "h.1.")
			}
			exact := train(t, create(t, dev, c), 2)
			c.Storage = buffers.BF16
			var want []Metrics
			for _, c.Recompute = range model.Recomputes {
				got := train(t, create(t, dev, c), 2)
				if want == nil {
					want = got
				}
				assert.Equal(t, want, got, c.Recompute)
			}
			assert.NotEqual(t, exact[1].Loss, want[1].Loss)
			assert.InDelta(t, exact[1].Loss, want[1].Loss, 1e-2, "rounding errors")
		})
	}
	c := tinyConfig(t)
	c.Storage = buffers.NF4
	require.ErrorContains(t, c.Validate(), "state: config: storage: found nf4, wanted f32 or bf16")
}
