package model

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What a model has is said in the words of a run file, whatever its family calls it.
func TestKeysOf(t *testing.T) {
	const decoder = `"vocab_size": 64, "hidden_size": 32, "intermediate_size": 16, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 24, "rms_norm_eps": 1e-5`
	of := Keys{Layers: 2, Heads: 4, KVHeads: 4, HeadDim: 8, Width: 32, Intermediate: 16, Context: 24, Vocab: 64, RopeTheta: 500}
	for name, c := range map[string]struct {
		config string
		want   func(k *Keys)
	}{
		"llama":       {`{"model_type": "llama", "rope_theta": 500, ` + decoder + `}`, func(*Keys) {}},
		"newer llama": {`{"model_type": "llama", "rope_parameters": {"rope_type": "default", "rope_theta": 500}, ` + decoder + `}`, func(*Keys) {}},
		"with few keys and heads of their own": {
			`{"model_type": "qwen3", "rope_theta": 500, "num_key_value_heads": 2, "head_dim": 6, "tie_word_embeddings": true, "sliding_window": 9, "use_sliding_window": false, ` + decoder + `}`,
			func(k *Keys) { k.KVHeads, k.HeadDim, k.TieHead = 2, 6, true },
		},
		"with a window": {`{"model_type": "mistral", "rope_theta": 500, "num_key_value_heads": 4, "sliding_window": 9, ` + decoder + `}`, func(k *Keys) { k.Window = 9 }},
		"gpt2": {
			`{"model_type": "gpt2", "vocab_size": 64, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_inner": 16, "n_positions": 24, "layer_norm_epsilon": 1e-5}`,
			func(k *Keys) { k.TieHead, k.RopeTheta = true, 0 },
		},
	} {
		def, err := ParseConfig([]byte(c.config))
		require.NoError(t, err, name)
		want := of
		c.want(&want)
		assert.Equal(t, want, KeysOf(def), name)
		quantized, err := WithQuantization(def, Quantization{})
		require.NoError(t, err)
		assert.Equal(t, want, KeysOf(quantized), name)
	}
	assert.True(t, Reads("llama"))
	assert.False(t, Reads("lama"))
}
