package hub

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/hub/gguf/llamacpp"
	. "gputrain/model"
)

// Other programs load what is proposed. Transformers refuses heads whose number does not divide the width (LlamaConfig,
// Gemma2Config). llama.cpp makes queries and outputs as wide as the model in the families that are named here, has room
// for 512 layers, and scales the scores of a gemma2 of 46 layers and a gemma3 of 62 by width over heads
// (src/models/*.cpp).
func TestSizedIsLoadedByOthers(t *testing.T) {
	square := []string{"qwen2", "olmo2", "phi3"}
	sizes := []float64{2e5, 2e6, 2e7, 1.24e8, 1e9}
	for _, kind := range Kinds() {
		of := sizes
		if kind == "gemma2" {
			of = append(of, 1.58e11) // of 46 layers, were it not for that
		}
		for _, parameters := range of {
			k, def, err := Sized(kind, parameters, 256, 1024, Exports)
			require.NoError(t, err)
			what := fmt.Sprintf("%s of %g: %+v", kind, parameters, k)
			assert.Zero(t, k.Width%k.Heads, what)
			assert.Zero(t, k.Heads%max(1, k.KVHeads), what)
			assert.Zero(t, k.HeadDim%2, what)
			assert.LessOrEqual(t, k.Layers, 512, what)
			if slices.Contains(square, kind) {
				assert.Equal(t, k.Width, k.Heads*k.HeadDim, what)
			}
			if k.Layers == map[string]int{"gemma2": 46, "gemma3_text": 62}[kind] {
				assert.Equal(t, k.Width/k.Heads, k.HeadDim, what)
			}
			config, err := ConfigJSON(def, "F32")
			require.NoError(t, err)
			assert.NoError(t, llamacpp.Check(config), what)
		}
	}
}
