package doctor

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestTwinFollowsAdapters holds the graph with adapters, the merged matrices, and the rates of LoRA+ against cases, in float64; and what a case must catch.
func TestTwinFollowsAdapters(t *testing.T) {
	for _, c := range []struct {
		name, what string
		spoil      func(l *loraCase)
	}{
		{"lora_llama_dora", "", func(*loraCase) {}},
		{"lora_llama_plus", "", func(*loraCase) {}},
		{"lora_llama_plus", "one rate", func(l *loraCase) { l.rates = nil }},
		{"lora_llama_plus", "another rate of the case", func(l *loraCase) { l.Ratio = 8 }},
		{"lora_llama_dora", "no decay", func(l *loraCase) { l.WeightDecay = 0 }},
		{"lora_llama_dora", "a magnitude", func(l *loraCase) { l.initial[2].Data[0] *= 1.001 }},
		{"lora_llama_dora", "a number of the base", func(l *loraCase) { l.frozen[1].Data[0] += 0.01 }},
		{"lora_llama_dora", "another scale", func(l *loraCase) { l.Scales["model.layers.0.mlp.down_proj"] = 1 }},
	} {
		t.Run(c.name+" "+c.what, func(t *testing.T) {
			dir := Folder(filepath.Join(families, "lora", c.name))
			golden, err := loadCase(dir)
			require.NoError(t, err)
			l, err := loadLoRA(golden, dir)
			require.NoError(t, err)
			c.spoil(l)
			seen, err := golden.train(&l.modelCase, newTwinModel(t, &l.modelCase))
			require.NoError(t, err)
			golden.merged(l, seen)
			require.NoError(t, golden.err)
			pass, found, allowed, where := seen.result()
			assert.Equal(t, c.what == "", pass, "%s: %g, allowed %g", where, found, allowed)
		})
	}
}
