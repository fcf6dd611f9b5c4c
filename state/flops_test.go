package state

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/model"
)

// The operations of products, attention and head are those of the sums over layers, at the length that is trained, not the model's longest, and
// of all microbatches.
func TestFLOPsOfAnUpdate(t *testing.T) {
	const layers, heads, d, vocab, batch = 2, 2, 16, 32, 3
	def, err := model.NewGPT2(model.GPT2Config{Layers: layers, Heads: heads, Width: d, Vocab: vocab, Context: 64})
	require.NoError(t, err)
	c := tinyConfig(t)
	c.Definition, c.Batch = def, batch
	for _, sequence := range []int{8, 64} {
		for _, accumulate := range []int{1, 4} {
			c.Sequence, c.Microbatches = sequence, accumulate
			got, err := jobOf(t, c).FLOPs()
			require.NoError(t, err)
			tokens := int64(batch * accumulate * sequence)
			pairs := int64(batch * accumulate * heads * sequence * (sequence + 1) / 2)
			assert.Equal(t, 3*2*12*d*d*layers*tokens, got["matmul"])
			assert.Equal(t, pairs*layers*(4*d/heads+4), got["attention"])
			assert.Equal(t, pairs*layers*(8*d/heads+4), got["attention_grad"])
			assert.Equal(t, tokens*vocab*(2*d+4), got["head_loss"])
			assert.Equal(t, tokens*vocab*(4*d+3), got["head_loss_grad"])
		}
	}
}
