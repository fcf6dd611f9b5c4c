package llamacpp

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/hub/gguf"
)

const tiedLlama = `{"model_type": "llama", "hidden_size": 4, "num_attention_heads": 2, "num_key_value_heads": 1, "num_hidden_layers": 1, "intermediate_size": 8,
	"vocab_size": 6, "max_position_embeddings": 64, "head_dim": 4, "tie_word_embeddings": true}`

// loras are the two matrices of a module, whose elements count up.
func loras(module string, rank, in, out int) []Tensor {
	tensor := func(name string, shape ...int) Tensor {
		x := make([]float32, shape[0]*shape[1])
		for i := range x {
			x[i] = float32(i)
		}
		return Tensor{Name: "base_model.model." + module + name, Shape: shape, Read: func() ([]float32, error) { return x, nil }}
	}
	return []Tensor{tensor(".lora_A.weight", rank, in), tensor(".lora_B.weight", out, rank)}
}

// A file has one alpha: what differs from it goes into B, whose rows have llama.cpp's order.
func TestConvertAdapter(t *testing.T) {
	const q, up = "model.layers.0.self_attn.q_proj", "model.layers.0.mlp.up_proj"
	keys, tensors, err := ConvertAdapter(Adapter{
		Name: "a", Config: []byte(tiedLlama), Tensors: append(loras(up, 2, 4, 8), loras(q, 1, 4, 8)...), Scales: map[string]float64{up: 3, q: 12},
	}, gguf.F32)
	require.NoError(t, err)
	f := file(t, encoded(t, keys, tensors))
	for key, want := range map[string]any{"general.type": "adapter", "general.architecture": "llama", "adapter.type": "lora", "adapter.lora.alpha": float32(6)} {
		found, _ := f.Value(key)
		assert.Equal(t, want, found, key)
	}
	a, _ := f.Info("blk.0.ffn_up.weight.lora_a")
	assert.Equal(t, []int{2, 4}, a.Shape)
	assert.Equal(t, []float32{0, 1, 2, 3}, elements(t, f, "blk.0.ffn_up.weight.lora_b")[:4], "6 / 2 is its scale")
	assert.Equal(t, []float32{0, 1, 2, 3}, elements(t, f, "blk.0.attn_q.weight.lora_a"))
	assert.Equal(t, []float32{0, 4, 2, 6, 8, 12, 10, 14}, elements(t, f, "blk.0.attn_q.weight.lora_b"), "6 / 1 is half of its scale")
	_, err = New(f)
	assert.ErrorContains(t, err, `key general.type: found "adapter", wanted a model`)
}

// One matrix of a Granite 4 is two of llama.cpp's: A is that of both, and B is cut.
func TestConvertAdapterOfHalves(t *testing.T) {
	const joined, down = "model.layers.0.shared_mlp.input_linear", "model.layers.0.shared_mlp.output_linear"
	config := `{"model_type": "granitemoehybrid", "hidden_size": 4, "num_attention_heads": 2, "num_key_value_heads": 1, "num_hidden_layers": 1, "shared_intermediate_size": 3,
		"vocab_size": 6, "max_position_embeddings": 64, "position_embedding_type": "rope", "num_local_experts": 0, "layer_types": ["attention"]}`
	keys, tensors, err := ConvertAdapter(Adapter{
		Name: "a", Config: []byte(config), Tensors: append(loras(joined, 2, 4, 6), loras(down, 2, 3, 4)...), Scales: map[string]float64{joined: 3, down: 3},
	}, gguf.F32)
	require.NoError(t, err)
	f := file(t, encoded(t, keys, tensors))
	for name, want := range map[string][]float32{
		"ffn_gate.weight.lora_a": {0, 1, 2, 3, 4, 5, 6, 7}, "ffn_up.weight.lora_a": {0, 1, 2, 3, 4, 5, 6, 7},
		"ffn_gate.weight.lora_b": {0, 1, 2, 3, 4, 5}, "ffn_up.weight.lora_b": {6, 7, 8, 9, 10, 11}, "ffn_down.weight.lora_b": {0, 1, 2, 3, 4, 5, 6, 7},
	} {
		assert.Equal(t, want, elements(t, f, "blk.0."+name), name)
	}
}

// What llama.cpp's adapters do not have is refused.
func TestConvertAdapterRefuses(t *testing.T) {
	for want, tensor := range map[string]Tensor{
		"found the lengths of rows, of DoRA, wanted lora_A and lora_B alone": {Name: "base_model.model.model.layers.0.mlp.up_proj.lora_magnitude_vector"},
		"found a parameter that is trained whole":                            {Name: "base_model.model.model.embed_tokens.weight"},
		"found an adapter of a head that is the embedding, wanted none":      loras("lm_head", 1, 4, 6)[0],
		`tensor "odd.weight": found one that llama.cpp has no name for`:      loras("odd", 1, 4, 6)[0],
		`found no scale of model.layers.0.mlp.down_proj, or no matrix`:       loras("model.layers.0.mlp.down_proj", 1, 4, 6)[0],
	} {
		_, _, err := ConvertAdapter(Adapter{Config: []byte(tiedLlama), Tensors: []Tensor{tensor}, Scales: map[string]float64{"lm_head": 1, "odd": 1}}, gguf.F32)
		assert.ErrorContains(t, err, want)
	}
	_, _, err := ConvertAdapter(Adapter{Config: []byte(tiedLlama)}, gguf.Q8_0)
	assert.ErrorContains(t, err, "found q8_0, wanted f32, f16 or bf16")

	const up, down = "model.layers.0.mlp.up_proj", "model.layers.0.mlp.down_proj"
	_, _, err = ConvertAdapter(Adapter{Config: []byte(tiedLlama), Tensors: loras(up, 1, 4, 8), Scales: map[string]float64{up: 1e-60}}, gguf.F32)
	assert.ErrorContains(t, err, "adapter.lora.alpha: found 1e-60, which is 0 in f32")
	two := append(loras(up, 1, 4, 8), loras(down, 1, 8, 4)...)
	two[3].Read = func() ([]float32, error) { return []float32{0, 3e38, 0, 0}, nil }
	_, tensors, err := ConvertAdapter(Adapter{Config: []byte(tiedLlama), Tensors: two, Scales: map[string]float64{up: 1, down: 2}}, gguf.F32)
	require.NoError(t, err)
	assert.ErrorContains(t, tensors[3].Write(&bytes.Buffer{}), "element 1: found 3e+38, which times 2 is no f32", "the one alpha is that of up_proj")
}
