package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/hub"
	"gputrain/model"
)

// twoAdapters are a base, and adapters of two ranks in directories beside it.
func twoAdapters(t *testing.T) (base, one, two string) {
	t.Helper()
	def, err := model.New("llama", model.Keys{Layers: 1, Heads: 2, Width: 8, Vocab: 13, Context: 6, RopeTheta: 1e4})
	require.NoError(t, err)
	dir := t.TempDir()
	write := func(name string, def model.Definition) string {
		read := func(path string) ([]float32, error) {
			for i, h := range model.Init(def, 3) {
				for k := range h.Data {
					h.Data[k] += float32((i+len(name)*k)%5) / 16
				}
				if h.Path == path {
					return h.Data, nil
				}
			}
			return nil, os.ErrNotExist
		}
		to := filepath.Join(dir, name)
		require.NoError(t, model.Export(to, def, read, model.ExportOptions{Base: "elsewhere"}))
		return to
	}
	small, err := model.WithLoRA(def, model.LoRA{Rank: 1})
	require.NoError(t, err)
	large, err := model.WithLoRA(def, model.LoRA{Rank: 3, RSLoRA: true})
	require.NoError(t, err)
	return write("base", def), write("one", small), write("larger", large)
}

// Adapters with weights add to the base what each adds alone, times its weight; what export writes of them adds the same, and says what of.
func TestAdaptersAddUp(t *testing.T) {
	base, one, two := twoAdapters(t)
	merged := func(adapters ...string) []float32 {
		c := &mergeCmd{Model: base, Adapter: adapters, writeFlags: writing(t, "merged")}
		require.NoError(t, c.Run(t.Context()))
		_, hosts, err := hub.ReadHF(c.To)
		require.NoError(t, err)
		for _, h := range hosts {
			if h.Path == "model.layers.0.self_attn.q_proj.weight" {
				return h.Data
			}
		}
		return nil
	}
	none, a, b, both := merged(one+"=0"), merged(one), merged(two), merged(one+"=0.5", two+"=-2")
	for i, v := range none {
		assert.InDelta(t, v+0.5*(a[i]-v)-2*(b[i]-v), both[i], 2e-6)
	}
	assert.NotEqual(t, none, both)

	out := &exportCmd{Model: base, Adapter: []string{one + "=0.5", two + "=-2"}, writeFlags: writing(t, "sum")}
	require.NoError(t, out.Run(t.Context()))
	assert.InDeltaSlice(t, both, merged(out.To), 1e-6)
	card, err := os.ReadFile(filepath.Join(out.To, "README.md"))
	require.NoError(t, err)
	assert.Contains(t, string(card), "| sum of adapters | one=0.5, larger=-2 |")

	require.NoError(t, os.WriteFile(filepath.Join(one, model.FingerprintFile), []byte(`{"fingerprint": "sha256:00"}`), 0o666))
	require.NoError(t, os.WriteFile(filepath.Join(two, model.FingerprintFile), []byte(`{"fingerprint": "sha256:11"}`), 0o666))
	for want, adapters := range map[string][]string{
		"wanted adapters of one base":                {one, two},
		"weight: found \"much\", wanted a number":    {one + "=much"},
		"weight: found \"+Inf\", wanted a number":    {one, two + "=+Inf"},
		base + ": found a whole model":               {base},
		"nowhere: found no adapter_config.json in":   {"nowhere"},
		"nowhere: found no adapter_config.json in i": {one, "nowhere=1"},
	} {
		err := (&mergeCmd{Model: base, Adapter: adapters, writeFlags: writing(t, "merged")}).Run(t.Context())
		assert.ErrorContains(t, err, want)
		assert.Equal(t, map[bool]int{true: 6, false: 2}[adapters[0] == one && adapters[len(adapters)-1] == two], exitCode(err), err)
	}
	smol := &exportCmd{Model: one, baseFlag: baseFlag{Base: base}, Ollama: "it", writeFlags: writing(t, "a.gguf")}
	raw, err := os.ReadFile(filepath.Join(base, "config.json"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(base, "config.json"), []byte(strings.Replace(string(raw), `"model_type": "llama"`, `"model_type": "smollm3"`, 1)), 0o666))
	require.ErrorContains(t, smol.Run(t.Context()), "of which Ollama imports no directories, wanted a GGUF file of it for --base: gputrain export "+base)
	_, _, err = (&modelFlags{Model: base, Adapter: []string{"0", "1"}}).open(t.Context())
	assert.ErrorContains(t, err, "--adapter: found 0 and 1, wanted no two selectors of an adapter")
}
