package model

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers/array"
	"gputrain/buffers/safetensors"
	"gputrain/internal/embeddings"
)

// A model of each family is written as it was, by itself and after its own pattern: names, types, numbers, and all keys of config.json.
func TestFamiliesComeBack(t *testing.T) {
	for i, name := range slices.Concat(familyNames, familyNames, goldenNames) {
		alone := i < len(familyNames)
		if name == "qwen3_5_wrapped" && alone { // is written as its text part
			continue
		}
		from, to := readGolden(t, name).dir, filepath.Join(t.TempDir(), name)
		def, hosts, err := readHF(from)
		require.NoError(t, err)
		if alone {
			require.NoError(t, writeHF(to, def, hosts, "BF16"))
		} else {
			like, err := openWeights(from, def)
			require.NoError(t, err)
			require.NoError(t, Export(to, def, like.Read, ExportOptions{Like: like}))
		}
		assert.Equal(t, configIn(t, from), configIn(t, to), name)
		want, err := safetensors.Open(filepath.Join(from, "model.safetensors"))
		require.NoError(t, err)
		defer want.Close()
		got, err := safetensors.Open(filepath.Join(to, "model.safetensors"))
		require.NoError(t, err)
		defer got.Close()
		names := slices.DeleteFunc(want.Names(), func(tensor string) bool { // of layers that read another's keys and values
			dead := families[def.Kind()].Dead
			return alone && dead != nil && dead.MatchString(tensor) && !slices.ContainsFunc(hosts, func(h array.Host) bool { return h.Path == tensor })
		})
		require.ElementsMatch(t, names, got.Names(), name)
		for _, tensor := range names {
			wantType, _, _ := want.Info(tensor)
			gotType, _, _ := got.Info(tensor)
			assert.Equal(t, wantType, gotType, tensor)
			a, err := want.Float32(tensor)
			require.NoError(t, err)
			b, err := got.Float32(tensor)
			require.NoError(t, err)
			assert.Equal(t, a, b, tensor)
		}
	}
}

func configIn(t *testing.T, dir string) (fields map[string]any) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "config.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(raw, &fields))
	return fields
}

// The text part of a Gemma 3 with images is the same Gemma 3, whatever its tensors are called, and is written as one.
func TestTextPartOfImages(t *testing.T) {
	from := filepath.Join("testdata", "models", "gemma3_small")
	def, hosts, err := readHF(from)
	require.NoError(t, err)
	text := configIn(t, from)
	raw, err := json.Marshal(map[string]any{
		"model_type": "gemma3", "text_config": text, "vision_config": map[string]any{"hidden_size": 8}, "image_token_index": 9, "mm_tokens_per_image": 4,
	})
	require.NoError(t, err)
	for _, prefix := range []string{"language_model.model.", "model.language_model."} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), raw, 0o666))
		tensors := []safetensors.Tensor{safetensors.Float32s("vision_tower.patch.weight", []int{2}, []float32{1, 2})}
		for _, h := range hosts {
			tensors = append(tensors, safetensors.Float32s(prefix+strings.TrimPrefix(h.Path, "model."), h.Shape, h.Data))
		}
		f, err := os.Create(filepath.Join(dir, "model.safetensors"))
		require.NoError(t, err)
		require.NoError(t, safetensors.Write(f, tensors, nil))
		require.NoError(t, f.Close())
		part, found, err := readHF(dir)
		require.NoError(t, err)
		assert.Equal(t, def.Kind(), part.Kind())
		assert.Equal(t, hosts, found)
		to := filepath.Join(t.TempDir(), "to")
		require.NoError(t, writeHF(to, part, found, "BF16"))
		assert.Equal(t, text, configIn(t, to))
	}
	ministral := configIn(t, filepath.Join("testdata", "models", "ministral3_small"))
	raw, err = json.Marshal(map[string]any{
		"model_type": "mistral3", "text_config": ministral, "vision_config": map[string]any{}, "image_token_index": 10, "spatial_merge_size": 2,
		"vision_feature_layer": -1, "projector_hidden_act": "gelu", "multimodal_projector_bias": false,
	})
	require.NoError(t, err)
	part, err := ParseConfig(raw)
	require.NoError(t, err)
	assert.Equal(t, "ministral3", part.Kind())
	family, err := familyOf(part.Kind())
	require.NoError(t, err)
	assert.Equal(t, "lm_head.weight", family.path("language_model.lm_head.weight"))
	assert.Equal(t, "model.norm.weight", family.path("language_model.model.norm.weight"))
	assert.Empty(t, family.path("vision_tower.patch_conv.weight"))
	_, err = ParseConfig([]byte(`{"model_type": "mistral3", "text_config": {"model_type": "mixtral"}}`))
	require.ErrorContains(t, err, `want a model_type of ["ministral3" "mistral"]`)

	_, err = ParseConfig([]byte(`{"model_type": "gemma3", "text_config": {"hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text", "num_hidden_layers": 34,
		"rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024}, "boi_token_index": 255999, "initializer_range": 0.02, "vision_config": {}}`))
	require.NoError(t, err, "published ones leave sizes out")
}

// What families leave to config.json besides the cases in testdata.
func TestFamilyKeys(t *testing.T) {
	read := func(keys string) decoder {
		def, err := ParseConfig([]byte(`{"hidden_size": 12, "intermediate_size": 5, "vocab_size": 7, "num_attention_heads": 3, "num_key_value_heads": 1,
			"max_position_embeddings": 64, "num_hidden_layers": 4, ` + keys + `}`))
		require.NoError(t, err, keys)
		return def.(decoder)
	}
	windows := func(m decoder) (out []int) {
		for _, l := range m.layers {
			out = append(out, l.window)
		}
		return out
	}
	turned := func(m decoder) (out []bool) {
		for _, l := range m.layers {
			out = append(out, l.rotation != nil)
		}
		return out
	}
	sliding := `"layer_types": ["full_attention", "sliding_attention", "full_attention", "full_attention"]`
	assert.Equal(t, []int{0, 9, 0, 0}, windows(read(`"model_type": "qwen3", "use_sliding_window": true, "sliding_window": 9, `+sliding)))
	assert.Equal(t, []int{0, 0, 9, 9}, windows(read(`"model_type": "qwen2", "use_sliding_window": true, "sliding_window": 9, "max_window_layers": 2`)))
	assert.Equal(t, []int{4096, 4096, 4096, 4096}, windows(read(`"model_type": "mistral"`)))
	assert.Equal(t, []int{0, 0, 0, 0}, windows(read(`"model_type": "mistral", "sliding_window": null`)))
	assert.Equal(t, []int{8, 8, 8, 8}, windows(read(`"model_type": "phi3", "sliding_window": 8`)))
	assert.Equal(t, []int{8, 0, 8, 0}, windows(read(`"model_type": "gemma2", "sliding_window": 8`)))
	assert.Equal(t, []int{8, 8, 0, 8}, windows(read(`"model_type": "gemma3_text", "sliding_window": 8, "sliding_window_pattern": 3`)))
	assert.Equal(t, []bool{true, false, true, false}, turned(read(`"model_type": "smollm3", "no_rope_layer_interval": 2`)))
	assert.Equal(t, []bool{true, true, true, false}, turned(read(`"model_type": "smollm3"`)))
	assert.Equal(t, []int{0, 5, 0, 5}, windows(read(`"model_type": "smollm3", "no_rope_layer_interval": 2, "use_sliding_window": true, "sliding_window": 5`)))
	m := read(`"model_type": "gemma3_text", "sliding_window": 8, "rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8, "rope_theta": 9e5},
		"sliding_attention": {"rope_type": "default", "rope_theta": 77}}, ` + sliding)
	assert.Equal(t, rotation{theta: 9e5, width: 256, rule: "linear", factor: 8, amplify: 1}, *m.layers[0].rotation)
	assert.Equal(t, rotation{theta: 77, width: 256, rule: "default", amplify: 1}, *m.layers[1].rotation)
	assert.Contains(t, m.settings, "rope_parameters")
	assert.NotContains(t, m.settings, "head_dim", "256 where there is no such key")
	m = read(`"model_type": "gemma2"`)
	assert.Equal(t, [2]float64{50, 30}, [2]float64{m.cap, m.logits.cap})
	assert.Equal(t, []int{8, 8, 8, 0}, windows(read(`"model_type": "olmo3", "sliding_window": 8`)))
	m = read(`"model_type": "olmo3", "sliding_window": 8, "rope_theta": 9e5, "rope_scaling": {"rope_type": "yarn", "factor": 8, "original_max_position_embeddings": 8}`)
	assert.Equal(t, []string{"default", "yarn"}, []string{m.layers[0].rotation.rule, m.layers[3].rotation.rule})
	assert.Equal(t, []float64{9e5, 9e5}, []float64{m.layers[0].rotation.theta, m.layers[3].rotation.theta})
	const attention = `"shared_intermediate_size": 5, "num_local_experts": 0, "layer_types": ["attention", "attention", "full_attention", "attention"]`
	assert.Equal(t, []bool{false, false, false, false}, turned(read(`"model_type": "granitemoehybrid", `+attention)))
	assert.Equal(t, []bool{true, true, true, true}, turned(read(`"model_type": "granitemoehybrid", "position_embedding_type": "rope", `+attention)))
	m = read(`"model_type": "granite"`)
	assert.Equal(t, []float64{1, 1, 1, 1}, []float64{m.embeddingScale, m.scale, m.branchScale, m.logits.divisor}, "not a head's width")
	m = read(`"model_type": "llama", "attention_bias": true, "mlp_bias": true`)
	paths := map[string]bool{}
	for _, p := range m.Params() {
		paths[p.Path] = true
	}
	for _, name := range []string{"self_attn.q_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.down_proj"} {
		assert.True(t, paths["model.layers.3."+name+".bias"], name)
	}
	raw, err := ConfigJSON(m, "F32")
	require.NoError(t, err)
	assert.Contains(t, string(raw), `"mlp_bias": true`)
	assert.True(t, embeddings.Has("model.embed_tokens.weight"))
}
