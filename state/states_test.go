package state

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
	"gputrain/model"
)

// A network that keeps states goes on token by token as by pieces, begins anew where a text is not the one before and more, and tells of each token what
// follows it.
func TestStatesGoOn(t *testing.T) {
	for _, kind := range []string{"lfm2", "qwen3_5_text", "qwen3_5_moe_text"} {
		def, err := model.New(kind, model.Keys{Layers: 3, Heads: 2, Width: 16, Vocab: 23, Context: 80, RopeTheta: 1000})
		require.NoError(t, err)
		require.True(t, model.Recurrent(def))
		m, err := NewModel(gputest.Device(t), def, model.Init(def, 1))
		require.NoError(t, err)
		defer m.Release()
		window := make([]int32, 75) // more than a piece
		for i := range window {
			window[i] = int32(i * i % 23)
		}
		var each [][]float32
		require.NoError(t, m.EachLogits(t.Context(), window, func(_ int, logits []float32) error {
			each = append(each, append([]float32(nil), logits...))
			return nil
		}))
		require.Len(t, each, len(window))
		found, err := m.Logits(t.Context(), window[:3])
		require.NoError(t, err)
		assert.InDeltaSlice(t, each[2], found, 1e-4)
		for i := 3; i < len(window); i++ {
			found, err = m.Decode(t.Context(), window[i])
			require.NoError(t, err)
			assert.InDeltaSlice(t, each[i], found, 1e-4, "%s: token %d", kind, i)
		}
		for _, c := range []struct{ n, kept int }{{75, 0}, {70, 0}, {72, 70}} { // a state does not go back
			found, kept, err := m.Extend(t.Context(), window[:c.n])
			require.NoError(t, err)
			assert.Equal(t, c.kept, kept)
			assert.InDeltaSlice(t, each[c.n-1], found, 1e-4)
		}
	}
}
