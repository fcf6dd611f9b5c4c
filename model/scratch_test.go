package model

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A new network of a family is written as one, with what its family has, and is read as the same.
func TestNewOfEveryFamily(t *testing.T) {
	keys := Keys{Layers: 7, Heads: 4, KVHeads: 2, HeadDim: 6, Width: 16, Intermediate: 24, Vocab: 13, Context: 20, RopeTheta: 5000, TieHead: true, Window: 5}
	for kind, c := range map[string]struct {
		settings map[string]any
		windows  []int
	}{
		"qwen2":        {map[string]any{"use_sliding_window": true, "sliding_window": 5.}, []int{5, 5, 5, 5, 5, 5, 5}},
		"qwen3":        {map[string]any{"head_dim": 6., "attention_bias": false}, []int{5, 5, 5, 5, 5, 5, 5}},
		"mistral":      {map[string]any{"sliding_window": 5.}, []int{5, 5, 5, 5, 5, 5, 5}},
		"gemma2":       {map[string]any{"attn_logit_softcapping": 50., "query_pre_attn_scalar": 6.}, []int{5, 0, 5, 0, 5, 0, 5}},
		"gemma3_text":  {map[string]any{"rope_local_base_freq": 10000., "sliding_window_pattern": 6.}, []int{5, 5, 5, 5, 5, 0, 5}},
		"gemma4_text":  {map[string]any{"global_head_dim": 12., "rope_theta": nil}, []int{5, 5, 5, 5, 5, 0, 0}},
		"smollm3":      {map[string]any{"no_rope_layer_interval": 4.}, []int{0, 0, 0, 5, 0, 0, 0}},
		"phi3":         {map[string]any{"original_max_position_embeddings": 20., "pad_token_id": nil}, []int{5, 5, 5, 5, 5, 5, 5}},
		"olmo2":        {map[string]any{"rope_theta": 5000.}, nil},
		"olmo3":        {map[string]any{"sliding_window": 5.}, []int{5, 5, 5, 0, 5, 5, 5}},
		"granite":      {map[string]any{"attention_multiplier": 1.0 / 6, "logits_scaling": 8.}, nil},
		"ministral3":   {map[string]any{"sliding_window": 5.}, []int{5, 5, 5, 5, 5, 5, 5}},
		"lfm2":         {map[string]any{"norm_eps": 1e-5}, nil},
		"qwen3_5_text": {map[string]any{"partial_rotary_factor": 1.}, nil},
		"llama":        {map[string]any{"head_dim": 6.}, nil},
	} {
		k := keys
		if c.windows == nil {
			_, err := New(kind, k)
			require.ErrorContains(t, err, "window: 5, want 0", kind)
			k.Window, c.windows = 0, make([]int, 7)
		}
		def, err := New(kind, k)
		require.NoError(t, err, kind)
		raw, err := ConfigJSON(def, "F32")
		require.NoError(t, err)
		var settings map[string]any
		require.NoError(t, json.Unmarshal(raw, &settings))
		assert.Equal(t, kind, settings["model_type"])
		for key, want := range c.settings {
			assert.Equal(t, want, settings[key], "%s: %s", kind, key)
		}
		var windows []int
		for _, l := range def.(decoder).layers {
			windows = append(windows, l.window)
		}
		assert.Equal(t, c.windows, windows, kind)
		again, err := ParseConfig(raw)
		require.NoError(t, err, kind)
		assert.Equal(t, def.Params(), again.Params(), kind)

		k.Window, k.HeadDim = 0, 0
		def, err = New(kind, k)
		require.NoError(t, err, kind)
		assert.Equal(t, 4, def.(decoder).headDim)
		k.Heads = 3
		_, err = New(kind, k)
		assert.ErrorContains(t, err, "width: 16, want a multiple of heads 3")
	}
	_, err := New("gpt2", keys)
	assert.ErrorContains(t, err, "head_dim 6, window 5: want 0")
	_, err = New("gemma3", keys)
	assert.ErrorContains(t, err, `found "gemma3", wanted one of`)
}

// Networks of a size have about that size, in whole heads, and are wider and deeper the larger they are.
func TestSized(t *testing.T) {
	for _, kind := range Kinds() {
		last := Keys{}
		for _, parameters := range []float64{3e6, 1e8, 7e9} {
			k, def, err := Sized(kind, parameters, 8000, 512, nil)
			require.NoError(t, err, kind)
			assert.Less(t, math.Abs(math.Log(float64(Parameters(def))/parameters)), .1, "%s of %g: %+v", kind, parameters, k)
			assert.Zero(t, k.Width%64)
			assert.Zero(t, k.Heads%max(1, k.KVHeads))
			assert.GreaterOrEqual(t, k.Width, last.Width, kind)
			assert.GreaterOrEqual(t, k.Layers, last.Layers, kind)
			assert.Equal(t, []int{8000, 512}, []int{k.Vocab, k.Context})
			last = k
		}
		again, err := New(kind, last)
		require.NoError(t, err)
		assert.InEpsilon(t, 7e9, float64(Parameters(again)), .1)
	}
	_, _, err := Sized("qwen3", 1e5, 8000, 512, nil)
	assert.ErrorContains(t, err, "found 1e+05 parameters and a vocabulary of 8000, wanted ")
	_, _, err = Sized("mlp", 1e6, 8000, 512, nil)
	assert.ErrorContains(t, err, `found "mlp", wanted a family that new models are made of`)
}
