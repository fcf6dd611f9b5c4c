package doctor

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
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
			dir := folder(filepath.Join(families, "lora", c.name))
			golden, err := loadCase(dir)
			require.NoError(t, err)
			l, err := loadLoRA(golden, dir)
			require.NoError(t, err)
			c.spoil(l)
			seen, err := l.train(golden, newTwinModel(t, &l.modelCase))
			require.NoError(t, err)
			assertPassed(t, c.what == "", seen)
		})
	}
}

// A case of adapters that is run as doctor runs it compares its scales, too.
func TestWrongScaleOfAdaptersIsCaught(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS(filepath.Join(families, "lora", "lora_llama_plus"))))
	run := func() Result { return RunCase(t.Context(), []*gpu.Device{gputest.Device(t)}, "case", folder(dir)) }
	require.True(t, run().Pass)
	file := filepath.Join(dir, "case.json")
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	scale := regexp.MustCompile(`("scales": \{\s*"[^"]*": )([0-9.]+)`)
	require.Regexp(t, scale, string(raw))
	require.NoError(t, os.WriteFile(file, scale.ReplaceAll(raw, []byte("${1}77")), 0o666))
	wrong := run()
	assert.False(t, wrong.Pass)
	assert.Contains(t, wrong.Worst, "scale of ")
}
