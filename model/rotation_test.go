package model

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/graph"
)

// rotationOf reads the rotation of heads of 8 in a config.json with these keys.
func rotationOf(t *testing.T, raw string) rotation {
	t.Helper()
	var fields map[string]json.RawMessage
	require.NoError(t, json.Unmarshal([]byte(raw), &fields))
	c := newConfigReader(fields)
	r := c.rotation(8, 1000)
	require.Empty(t, c.errs, raw)
	return r
}

// The frequencies of each rule, computed apart from this package, and the keys that files of different age have for it.
func TestRotations(t *testing.T) {
	yarn := `"factor": 8, "original_max_position_embeddings": 64, "beta_fast": 6, "beta_slow": 0.5`
	f := func(i float64) float64 { return math.Pow(1000, -i/4) }
	for raw, want := range map[string]graph.Rope{
		`{}`: {HeadDim: 8, Theta: 1000},
		`{"rope_theta": 5, "rope_scaling": {"rope_type": "default"}}`:    {HeadDim: 8, Theta: 5},
		`{"rope_theta": 5, "rope_parameters": {"rope_theta": 7}}`:        {HeadDim: 8, Theta: 7},
		`{"rope_parameters": {"rope_theta": 7, "rope_type": "default"}}`: {HeadDim: 8, Theta: 7},
		`{"rope_scaling": {"type": "linear", "factor": 4}}`:              {HeadDim: 8, Frequencies: []float64{f(0) / 4, f(1) / 4, f(2) / 4, f(3) / 4}},
		`{"partial_rotary_factor": 0.5}`:                                 {HeadDim: 8, Frequencies: []float64{1, f(2)}},
		`{"rope_parameters": {"partial_rotary_factor": 0.5}}`:            {HeadDim: 8, Frequencies: []float64{1, f(2)}},
		`{"rope_scaling": {"type": "yarn", "truncate": false, "mscale": 0.7, "mscale_all_dim": 0.4, ` + yarn + `}}`: {
			HeadDim: 8, Factor: 1.0575928109100559, Frequencies: []float64{1.0, 0.10283105656567867, 0.003952847075210474, 0.0007029266564879364},
		},
		`{"rope_parameters": {"rope_type": "yarn", "rope_theta": 1000, ` + yarn + `}}`: {
			HeadDim: 8, Factor: 1.2079441541679836, Frequencies: []float64{1.0, 0.10002821681468942, 0.003952847075210474, 0.0007029266564879364},
		},
		`{"rope_scaling": {"rope_type": "yarn", "attention_factor": 1, ` + yarn + `}}`: {HeadDim: 8, Frequencies: []float64{1.0, 0.10002821681468942, 0.003952847075210474, 0.0007029266564879364}},
		`{"max_position_embeddings": 128, "original_max_position_embeddings": 32, "rope_scaling": {"type": "su", "short_factor": [1, 1, 2, 2], "long_factor": [4, 5, 6, 7]}}`: {
			HeadDim: 8, Factor: 1.1832159566199232, Frequencies: []float64{f(0) / 4, f(1) / 5, f(2) / 6, f(3) / 7},
		},
		`{"max_position_embeddings": 128, "rope_parameters": {"rope_type": "longrope", "original_max_position_embeddings": 50, "factor": 2.56, "attention_factor": 1.5,
			"short_factor": [1, 1, 2, 2], "long_factor": [4, 5, 6, 7]}}`: {HeadDim: 8, Factor: 1.5, Frequencies: []float64{f(0), f(1), f(2) / 2, f(3) / 2}},
	} {
		got := rotationOf(t, raw).op(8, 50)
		require.Len(t, got.Frequencies, len(want.Frequencies), raw)
		if len(want.Frequencies) > 0 {
			assert.InDeltaSlice(t, want.Frequencies, got.Frequencies, 1e-14, raw)
		}
		assert.InDelta(t, want.Factor, got.Factor, 1e-12, raw)
		got.Frequencies, want.Frequencies, got.Factor, want.Factor = nil, nil, 0, 0
		assert.Equal(t, want, got, raw)
	}
}

// A model that is lengthened by yarn has the positions that config.json says, or, where those are still the ones that it began with, factor times as many.
func TestContextOfYarn(t *testing.T) {
	for _, test := range []struct {
		kind, rules string
		says, has   int
	}{
		{"qwen2", `"rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 20}`, 20, 80},
		{"qwen3", `"rope_parameters": {"rope_type": "yarn", "factor": 2.5, "original_max_position_embeddings": 20}`, 20, 50},
		{"smollm3", `"no_rope_layers": [0, 1], "rope_scaling": {"type": "yarn", "factor": 4, "original_max_position_embeddings": 20}`, 20, 80},
		{"qwen2", `"rope_scaling": {"type": "yarn", "factor": 4, "original_max_position_embeddings": 20}`, 80, 80},
		{"qwen2", `"rope_scaling": {"type": "yarn", "factor": 4, "original_max_position_embeddings": 20}`, 40, 40},
		{"llama", `"rope_scaling": {"type": "yarn", "factor": 0.5, "original_max_position_embeddings": 20}`, 20, 20},
		{"llama", `"rope_scaling": {"type": "linear", "factor": 4}`, 20, 20},
	} {
		def, err := ParseConfig(fmt.Appendf(nil, `{"model_type": %q, %s, "max_position_embeddings": %d, "vocab_size": 20, "hidden_size": 8, "intermediate_size": 8,
			"num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1}`, test.kind, test.rules, test.says))
		require.NoError(t, err)
		assert.Equal(t, test.has, def.Context(), "%+v", test)
		_, err = def.Build(1, test.has, Options{Logits: true})
		assert.NoError(t, err, "%+v", test)
		again, err := ConfigJSON(def, "F32")
		require.NoError(t, err)
		assert.Contains(t, string(again), fmt.Sprintf(`"max_position_embeddings": %d`, test.says), "files keep what they say")
	}
}
