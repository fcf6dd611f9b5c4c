package model

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers/safetensors"
	"gputrain/graph"
)

// gemma4Of is a Gemma 4 of so many layers.
func gemma4Of(layers int, keys string) (decoder, error) {
	raw, _ := json.Marshal(layers)
	def, err := ParseConfig([]byte(`{"model_type": "gemma4_text", "hidden_size": 12, "intermediate_size": 5, "vocab_size": 7, "num_attention_heads": 2, "num_key_value_heads": 2,
		"max_position_embeddings": 64, "head_dim": 8, "global_head_dim": 16, "num_hidden_layers": ` + string(raw) + keys + `}`))
	m, _ := def.(decoder)
	return m, err
}

// What differs by layer, as config.json says it and where it says nothing.
func TestGemma4Layers(t *testing.T) {
	m, err := gemma4Of(13, `, "num_kv_shared_layers": 3, "use_double_wide_mlp": true`)
	require.NoError(t, err)
	for i, l := range m.layers {
		full := i == 5 || i == 11 || i == 12
		assert.Equal(t, full, l.window == 0, i)
		assert.Equal(t, map[bool]int{false: 8, true: 16}[full], m.at(i).headDim, i)
		assert.Equal(t, map[bool]int{false: 5, true: 10}[i >= 10], m.at(i).intermediate, i)
		assert.Equal(t, map[int]int{10: 1, 11: 6, 12: 7}[i], l.borrows, "of the last layer of its kind before 10")
	}
	assert.Equal(t, 512, m.layers[0].window)
	assert.Equal(t, perLayer{256, 7}, m.perLayer)
	assert.InDeltaSlice(t, []float64{1, 0.1, 0.01, 0.001}, m.layers[0].rotation.frequencies(9), 1e-12)
	turned := m.layers[5].rotation.frequencies(9)
	require.Len(t, turned, 8)
	assert.Equal(t, []float64{1, 1e6}, []float64{turned[0], m.layers[5].rotation.theta})
	assert.NotZero(t, turned[1])
	assert.Equal(t, make([]float64, 6), turned[2:], "a quarter turns")

	m, err = gemma4Of(2, `, "attention_k_eq_v": true, "num_global_key_value_heads": 1, "hidden_size_per_layer_input": 0, "layer_types": ["sliding_attention", "full_attention"]`)
	require.NoError(t, err)
	paths := map[string][]int{}
	for _, p := range m.Params() {
		paths[p.Path] = p.Shape
	}
	assert.Equal(t, []int{16, 12}, paths["model.layers.0.self_attn.v_proj.weight"])
	assert.Equal(t, []int{16, 12}, paths["model.layers.1.self_attn.k_proj.weight"], "one head")
	assert.NotContains(t, paths, "model.layers.1.self_attn.v_proj.weight")
	assert.NotContains(t, paths, perLayerTable)
	assert.Equal(t, []string{"model.layers.0.layer_scalar", "model.layers.1.layer_scalar"}, Fixed(m))

	for keys, says := range map[string]string{
		`"enable_moe_block": true`:               "enable_moe_block: true, want false",
		`"use_bidirectional_attention": "all"`:   `use_bidirectional_attention: "all", want null or vision`,
		`"num_kv_shared_layers": 7`:              "num_kv_shared_layers: 7, want at most 6",
		`"num_kv_shared_layers": 2`:              "num_kv_shared_layers: 2, want a layer of the kind of layer 5",
		`"rope_parameters": {"rope_theta": 7}`:   "rope_parameters: ",
		`"vocab_size_per_layer_input": 6`:        "vocab_size_per_layer_input: 6, want 7",
		`"layer_types": ["full_attention", "x"]`: "layer_types",
	} {
		_, err := gemma4Of(7, ", "+keys)
		require.ErrorContains(t, err, says)
	}
	_, err = ParseConfig([]byte(`{"model_type": "gemma4_unified"}`))
	require.ErrorContains(t, err, "images are not supported")
}

// The text part of a Gemma 4 that sees and hears is the same Gemma 4, without the keys and values that no layer reads.
func TestGemma4InParts(t *testing.T) {
	from := filepath.Join("testdata", "models", "gemma4_small")
	def, hosts, err := readHF(from)
	require.NoError(t, err)
	raw, err := json.Marshal(map[string]any{
		"model_type": "gemma4", "text_config": configIn(t, from), "vision_config": map[string]any{"hidden_size": 8}, "audio_config": nil, "image_token_id": 9,
		"vision_soft_tokens_per_image": 4, "tie_word_embeddings": true,
	})
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), raw, 0o666))
	write := func(more ...string) {
		var tensors []safetensors.Tensor
		for _, name := range append(more, "model.vision_tower.x.weight", "model.audio_tower.x.weight", "model.embed_vision.x.weight", "model.embed_audio.x.weight", "model.language_model.layers.4.self_attn.v_proj.weight") {
			tensors = append(tensors, safetensors.Float32s(name, []int{2}, []float32{1, 2}))
		}
		for _, h := range hosts {
			tensors = append(tensors, safetensors.Float32s("model.language_model."+strings.TrimPrefix(h.Path, "model."), h.Shape, h.Data))
		}
		f, err := os.Create(filepath.Join(dir, "model.safetensors"))
		require.NoError(t, err)
		require.NoError(t, safetensors.Write(f, tensors, nil))
		require.NoError(t, f.Close())
	}
	write()
	part, found, err := readHF(dir)
	require.NoError(t, err)
	assert.Equal(t, hosts, found)
	assert.True(t, Same(def, part))
	write("model.language_model.layers.4.self_attn.x_proj.weight")
	_, _, err = readHF(dir)
	require.ErrorContains(t, err, "x_proj.weight\" is no parameter")
}

// Adapters stand on what a layer has: one that reads another's keys and values has no matrices of them. What nobody trains is never copied.
func TestGemma4Adapters(t *testing.T) {
	def := readGolden(t, "gemma4_small").def
	_, err := WithLoRA(def, LoRA{Rank: 2, Target: []string{AllLinear}, Save: []string{"layers.0"}})
	require.ErrorContains(t, err, "which has an adapter too")
	m, err := WithLoRA(def, LoRA{Rank: 2, Target: []string{AllLinear}})
	require.NoError(t, err)
	scales := AdapterScales(m)
	assert.Contains(t, scales, "model.layers.2.self_attn.v_proj")
	assert.Contains(t, scales, "model.layers.4.per_layer_input_gate")
	assert.NotContains(t, scales, "model.layers.4.self_attn.v_proj")
	m, err = WithLoRA(def, LoRA{Rank: 2, Target: []string{"q_proj"}, Layers: []int{4}, Save: []string{"layers.0"}})
	require.NoError(t, err)
	assert.Contains(t, AdapterParams(m), "base_model.model.model.layers.0.mlp.up_proj.weight")
	assert.NotContains(t, AdapterParams(m), "base_model.model.model.layers.0.layer_scalar")
}

// Documents one behind the other have the logits that each has alone: layers that read another's keys see their own document too.
func TestGemma4Documents(t *testing.T) {
	g := readGolden(t, "gemma4_small")
	lengths, vocab := []int{8, 1, 11}, g.def.Vocab()
	feeds := g.feeds(t, 1)
	ids := feeds[InputTokens].Data[:20]
	logits := func(tokens []float64, o Options) []float64 {
		o.Logits = true
		built, err := g.def.Build(1, len(tokens), o)
		require.NoError(t, err)
		feeds[InputTokens] = &graph.Array{Shape: []int{1, len(tokens)}, Data: tokens}
		found, err := graph.Eval(built.Graph, feeds, built.Logits)
		require.NoError(t, err)
		return found[0].Data
	}
	positions := graph.NewArray([]int{1, len(ids)})
	at := 0
	for _, n := range lengths {
		for i := range n {
			positions.Data[at+i] = float64(i)
		}
		at += n
	}
	feeds[InputPositions] = positions
	together := logits(ids, Options{Documents: true})
	at = 0
	for _, n := range lengths {
		assert.InDeltaSlice(t, logits(ids[at:at+n], Options{}), together[at*vocab:(at+n)*vocab], 1e-12)
		at += n
	}
}
