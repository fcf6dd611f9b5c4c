package state

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
	"gputrain/model"
)

// EachLogits are those that Logits gives of each beginning of a window, also behind a piece of a prompt.
func TestEachLogits(t *testing.T) {
	dev := gputest.Device(t)
	def, err := model.New("llama", model.Keys{Layers: 2, Heads: 2, KVHeads: 1, Width: 16, Vocab: 50, Context: 80})
	require.NoError(t, err)
	m, err := NewModel(dev, def, model.Drawn(def, 3))
	require.NoError(t, err)
	defer m.Release()
	for _, n := range []int{80, 65, 64, 1, 7} {
		var window []int32
		for i := range n {
			window = append(window, int32((i*i+n)%50))
		}
		next := 0
		require.NoError(t, m.EachLogits(t.Context(), window, func(at int, logits []float32) error {
			assert.Equal(t, next, at)
			if next++; at%13 == 0 || at == n-1 {
				want, err := m.Logits(t.Context(), window[:at+1])
				require.NoError(t, err)
				assert.InDeltaSlice(t, want, logits, 1e-5, "%d tokens, token %d", n, at)
			}
			return nil
		}))
		assert.Equal(t, n, next)
	}
	enough := errors.New("enough")
	assert.ErrorIs(t, m.EachLogits(t.Context(), []int32{1, 2}, func(int, []float32) error { return enough }), enough)
	assert.ErrorContains(t, m.EachLogits(t.Context(), nil, nil), "found 0 tokens, wanted 1 to 80")
	assert.ErrorContains(t, m.EachLogits(t.Context(), []int32{50}, nil), "50, want 0 to 49")
}
