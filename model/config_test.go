package model

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/tests/frugal"
)

// hubGPT2 is the config.json of "gpt2" on the hub, in its essentials.
const hubGPT2 = `{"activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1, "bos_token_id": 50256,
 "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024,
 "n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024, "resid_pdrop": 0.1, "summary_activation": null, "summary_use_proj": true,
 "task_specific_params": {"text-generation": {"do_sample": true, "max_length": 50}}, "vocab_size": 50257}`

// tinyLlama is that of TinyLlama 1.1B.
const tinyLlama = `{"architectures": ["LlamaForCausalLM"], "attention_bias": false, "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu",
 "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 5632, "max_position_embeddings": 2048, "model_type": "llama",
 "num_attention_heads": 32, "num_hidden_layers": 22, "num_key_value_heads": 4, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
 "rope_scaling": null, "rope_theta": 10000.0, "tie_word_embeddings": false, "torch_dtype": "float32", "use_cache": true, "vocab_size": 32000}`

func TestConfigsOfTheHub(t *testing.T) {
	def, err := ParseConfig([]byte(hubGPT2))
	require.NoError(t, err)
	assert.Equal(t, int64(124439808), Parameters(def))
	assert.Equal(t, GPT2Config{
		Layers: 12, Heads: 12, Width: 768, Vocab: 50257, Context: 1024, Intermediate: 3072, Activation: "gelu_tanh",
		Eps: 1e-5, InitStd: 0.02, EmbeddingDropout: 0.1, ResidualDropout: 0.1, AttentionDropout: 0.1,
	}, def.(gpt2).c)
	def, err = ParseConfig([]byte(tinyLlama))
	require.NoError(t, err)
	assert.Equal(t, int64(1100048384), Parameters(def), "as published")
	m := def.(decoder)
	m.settings, m.read = nil, false
	assert.Equal(t, decoder{
		kind: "llama", lastNorm: "norm", attends: llamaAttention, layerSizes: layerSizes{32, 4, 64, 5632}, width: 2048, vocab: 32000, context: 2048, eps: 1e-5, initStd: 0.02,
		attentionNorms: norms{before: "input_layernorm"}, mlpNorms: norms{before: "post_attention_layernorm"}, mlp: llamaMLP, activation: "silu",
		layers: slices.Repeat([]decoderLayer{{rotation: &rotation{theta: 10000, width: 64, rule: "default", amplify: 1}}}, 22),
	}, m)
}

func TestConfigRoundTrip(t *testing.T) {
	for _, def := range smallDefinitions(t) {
		raw, err := ConfigJSON(def, "BF16")
		require.NoError(t, err)
		assert.Contains(t, string(raw), `"torch_dtype": "bfloat16"`)
		back, err := ParseConfig(raw)
		require.NoError(t, err)
		again, err := ConfigJSON(back, "BF16")
		require.NoError(t, err)
		assert.Equal(t, string(raw), string(again))
		assert.Equal(t, def.Params(), back.Params())
	}
	fresh, err := ConfigJSON(byteGPT(t), "F32")
	require.NoError(t, err)
	assert.Contains(t, string(fresh), `"eos_token_id": null`, "the default 50256 would not be a token")
	_, err = ConfigJSON(byteGPT(t), "F64")
	require.ErrorContains(t, err, `dtype "F64"`)
}

func TestHostileConfigs(t *testing.T) {
	change := func(base string, fields map[string]any) string {
		var m map[string]any
		require.NoError(t, json.Unmarshal([]byte(base), &m))
		maps.Copy(m, fields)
		for key, v := range m {
			if v == "absent" {
				delete(m, key)
			}
		}
		raw, err := json.Marshal(m)
		require.NoError(t, err)
		return string(raw)
	}
	type edit = map[string]any
	for want, raw := range map[string]string{
		fmt.Sprintf(`model_type: "mamba", want one of %q`, registered()): change(hubGPT2, edit{"model_type": "mamba"}),
		`model_type: found none, wanted one of ["gemma2"`:                change(hubGPT2, edit{"model_type": "absent"}),
		`unexpected EOF`:                                                hubGPT2[:len(hubGPT2)-1],
		"null, want an object":                                          "null",
		"found a list, wanted an object":                                "[]",
		"something follows":                                             tinyLlama + "{}",
		"more than 1048576 bytes":                                       strings.Repeat(" ", 1<<20) + hubGPT2,
		"n_embd: missing, want a whole number":                          change(hubGPT2, edit{"n_embd": "absent"}),
		`n_embd: "768", want a whole number`:                            change(hubGPT2, edit{"n_embd": "768"}),
		"n_head: -12, want a whole number":                              change(hubGPT2, edit{"n_head": -12}),
		"n_layer: 1e+300, want":                                         change(hubGPT2, edit{"n_layer": 1e300}),
		"n_layer: 12.5, want":                                           change(hubGPT2, edit{"n_layer": 12.5}),
		"vocab_size: 99999999999, want":                                 change(hubGPT2, edit{"vocab_size": 99999999999}),
		"layers: 1000000, want at most 10000":                           change(hubGPT2, edit{"n_layer": 1000000}),
		"multiple of heads 7":                                           change(hubGPT2, edit{"n_head": 7}),
		`activation_function: "relu", want`:                             change(hubGPT2, edit{"activation_function": "relu"}),
		`activation_function: 3, want a string`:                         change(hubGPT2, edit{"activation_function": 3}),
		"scale_attn_weights: false, want true":                          change(hubGPT2, edit{"scale_attn_weights": false}),
		"scale_attn_by_inverse_layer_idx: true, want":                   change(hubGPT2, edit{"scale_attn_by_inverse_layer_idx": true}),
		"add_cross_attention: true, want false":                         change(hubGPT2, edit{"add_cross_attention": true}),
		`tie_word_embeddings: "yes", want true or false`:                change(hubGPT2, edit{"tie_word_embeddings": "yes"}),
		`pruned_heads: {"1":[0]}, want null`:                            change(hubGPT2, edit{"pruned_heads": edit{"1": []int{0}}}),
		"layer_norm_epsilon: 0, want a number above 0":                  change(hubGPT2, edit{"layer_norm_epsilon": 0}),
		"resid_pdrop: -0.1, want a number from 0":                       change(hubGPT2, edit{"resid_pdrop": -0.1}),
		"residual dropout: 1.5, want a probability":                     change(hubGPT2, edit{"resid_pdrop": 1.5}),
		`rope_scaling: low_freq_factor: missing, want`:                  change(tinyLlama, edit{"rope_scaling": edit{"rope_type": "llama3", "factor": 8}}),
		`rope_scaling: original_max_position_embeddings: missing, want`: change(tinyLlama, edit{"rope_scaling": edit{"type": "yarn", "factor": 8}}),
		`rope_parameters: factor: missing, want a number above 0`:       change(tinyLlama, edit{"rope_parameters": edit{"rope_type": "linear"}}),
		`rope_parameters: factor: 2, want no such key beside`:           change(tinyLlama, edit{"rope_parameters": edit{"factor": 2}}),
		`rope_type: missing, want one of ["default"`:                    change(tinyLlama, edit{"rope_scaling": edit{"type": "dynamic", "factor": 2}}),
		`type: "linear", want yarn, as rope_type has it`:                change(tinyLlama, edit{"rope_scaling": edit{"type": "linear", "rope_type": "yarn"}}),
		`rope_scaling: short_factor: missing, want 32 numbers above 0`:  change(tinyLlama, edit{"rope_scaling": edit{"type": "longrope"}}),
		`qk_layernorm: true, want no such key`:                          change(tinyLlama, edit{"qk_layernorm": true}),
		`did you mean "rope_scaling"?`:                                  change(tinyLlama, edit{"rope_scalling": edit{"type": "linear"}}),
		`layer_types: ["full_attention"], want a list of 22 words`:      change(tinyLlama, edit{"model_type": "mistral", "layer_types": []string{"full_attention"}}),
		`sliding_window: missing, want the keys`:                        change(tinyLlama, edit{"model_type": "qwen2", "layer_types": slices.Repeat([]string{"sliding_attention"}, 22)}),
		`linear_attention`:                                              change(tinyLlama, edit{"model_type": "qwen3", "layer_types": slices.Repeat([]string{"linear_attention"}, 22)}),
		`num_local_experts: 4, want 0: mixtures of experts`:             change(tinyLlama, edit{"model_type": "granitemoehybrid", "num_local_experts": 4}),
		`layer_types: missing, want attention for each layer`:           change(tinyLlama, edit{"model_type": "granitemoehybrid", "num_local_experts": 0}),
		`attention_multiplier: 0, want a number above 0`:                change(tinyLlama, edit{"model_type": "granite", "attention_multiplier": 0}),
		`no_rope_layers: [1], want 22 numbers`:                          change(tinyLlama, edit{"model_type": "smollm3", "no_rope_layers": []int{1}}),
		`text_config: missing, want an object`:                          change(tinyLlama, edit{"model_type": "gemma3"}),
		`"qwen2_moe", want one of`:                                      change(tinyLlama, edit{"model_type": "qwen2_moe"}),
		`mixtures of experts are not supported`:                         change(tinyLlama, edit{"model_type": "qwen2_moe"}),
		`num_experts_per_tok: 5, want at most the 4 experts`:            change(tinyLlama, edit{"model_type": "qwen3_moe", "num_experts": 4, "num_experts_per_tok": 5, "moe_intermediate_size": 8}),
		`num_local_experts: 8, want 4, as another key says`:             change(tinyLlama, edit{"model_type": "qwen3_moe", "num_experts": 4, "num_local_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 8}),
		`router_aux_loss_coef: -1, want a number from 0`:                change(tinyLlama, edit{"model_type": "gpt_oss", "num_local_experts": 4, "router_aux_loss_coef": -1}),
		`did you mean "qwen2"?`:                                         change(tinyLlama, edit{"model_type": "qwen2_"}),
		`max_window_layers: 1.5, want a whole number`:                   change(tinyLlama, edit{"model_type": "qwen2", "max_window_layers": 1.5}),
		`hidden_act: "gelu", want silu`:                                 change(tinyLlama, edit{"hidden_act": "gelu"}),
		"sliding_window: 4096, want null":                               change(tinyLlama, edit{"sliding_window": 4096}),
		`quantization_config: found weights quantized by some method`:   change(tinyLlama, edit{"quantization_config": edit{"bits": 4}}),
		`quantized by bitsandbytes in fp4, wanted whole ones, or nf4`:   change(tinyLlama, edit{"quantization_config": edit{"quant_method": "bitsandbytes", "load_in_4bit": true}}),
		`quantized by bitsandbytes in 8 bits`:                           change(tinyLlama, edit{"quantization_config": edit{"quant_method": "bitsandbytes", "load_in_8bit": true}}),
		`bitsandbytes (load_in_4bit: "yes", want true or false)`:        change(tinyLlama, edit{"quantization_config": edit{"quant_method": "bitsandbytes", "load_in_4bit": "yes"}}),
		`quantized by gptq, wanted whole ones`:                          change(hubGPT2, edit{"quantization_config": edit{"quant_method": "gptq"}}),
		`quantized by fp8, wanted`:                                      change(tinyLlama, edit{"model_type": "gemma3", "text_config": edit{}, "quantization_config": edit{"quant_method": "fp8"}}),
		`mixtures of experts (num_local_experts) are not supported`:     change(tinyLlama, edit{"model_type": "granitex", "num_local_experts": 8}),
		`images (vision_config) are not supported`:                      change(tinyLlama, edit{"model_type": "molmo", "vision_config": edit{"depth": 2}}),
		`linear attention (layer_types) are not supported`:              change(tinyLlama, edit{"model_type": "kimi", "layer_types": []string{"full_attention", "linear_attention"}}),
		`encoders (is_encoder_decoder) are not supported`:               change(tinyLlama, edit{"model_type": "prophetnet", "is_encoder_decoder": true}),
		`num_experts: 8, want no such key`:                              change(tinyLlama, edit{"num_experts": 8}),
		`n_expert: 8, want no such key`:                                 change(hubGPT2, edit{"n_expert": 8}),
		"of which pairs turn 33":                                        change(tinyLlama, edit{"partial_rotary_factor": 0.52}),
		"rope_theta: 0, want a number above 0":                          change(tinyLlama, edit{"rope_theta": 0}),
		"intermediate_size: missing":                                    change(tinyLlama, edit{"intermediate_size": "absent"}),
		"want a multiple of kv heads 5":                                 change(tinyLlama, edit{"num_key_value_heads": 5}),
		"head dim: 63":                                                  change(tinyLlama, edit{"head_dim": 63}),
		"sizes: missing":                                                `{"model_type": "mlp"}`,
		"sizes: [1]":                                                    `{"model_type": "mlp", "sizes": [1]}`,
	} {
		_, err := ParseConfig([]byte(raw))
		require.ErrorContains(t, err, want)
	}
	def, err := ParseConfig([]byte(change(tinyLlama, edit{"rope_theta": "absent", "rope_parameters": edit{"rope_type": "default", "rope_theta": 5e5}})))
	require.NoError(t, err)
	assert.Equal(t, 5e5, def.(decoder).layers[0].rotation.theta)
	_, err = ParseConfig([]byte(change(hubGPT2, edit{"n_head": 0, "n_layer": 0})))
	require.ErrorContains(t, err, "n_head")
	require.ErrorContains(t, err, "n_layer", "all that is wrong is told at once")
}

func FuzzParseConfig(f *testing.F) {
	f.Add([]byte(hubGPT2))
	f.Add([]byte(tinyLlama))
	f.Add([]byte(`{"model_type": "mlp", "sizes": [2, 3]}`))
	f.Add([]byte(`{"model_type": "mlp", "sizes": [2, 3], "fake_quantization": {"mode": "affine", "bits": 3, "group": 32, "match": ["weight"]}}`))
	files, err := filepath.Glob("testdata/models/*/config.json")
	require.NoError(f, err)
	require.NotEmpty(f, files)
	for _, name := range files {
		raw, err := os.ReadFile(name)
		require.NoError(f, err)
		f.Add(raw)
	}
	f.Add([]byte(`{"model_type": "gemma3", "text_config": {"num_hidden_layers": 2, "hidden_size": 8, "intermediate_size": 8, "vocab_size": 9,
		"rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8, "rope_theta": 1e6}, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}}}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		frugal.Parse(t, len(raw), func() {
			def, err := ParseConfig(raw)
			if err != nil {
				return
			}
			require.Positive(t, Parameters(def))
			written, err := ConfigJSON(def, "F32")
			require.NoError(t, err)
			back, err := ParseConfig(written)
			require.NoError(t, err)
			require.Equal(t, def.Params(), back.Params())
		})
	})
}

// A file's keys are all that is written, also those that this package does not use, but for those of what changed.
func TestConfigOfAFileComesBack(t *testing.T) {
	files := []string{
		hubGPT2, tinyLlama,
		strings.Replace(hubGPT2, `"n_ctx"`, `"dtype": "float16", "n_ctx"`, 1),
		strings.Replace(hubGPT2, `"n_ctx": 1024`, `"n_inner": 3072, "torch_dtype": "float32"`, 1),
		strings.Replace(tinyLlama, `"rope_theta": 10000.0, `, `"rope_parameters": {"rope_theta": 5e5, "rope_type": "default"}, `, 1),
	}
	for _, name := range goldenNames {
		raw, err := os.ReadFile(filepath.Join(goldens, name, "config.json"))
		require.NoError(t, err)
		files = append(files, string(raw))
	}
	for _, raw := range files {
		def, err := ParseConfig([]byte(raw))
		require.NoError(t, err)
		keys := func(def Definition) (fields map[string]any) {
			written, err := ConfigJSON(def, "F32")
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(written, &fields))
			return fields
		}
		var before map[string]any
		require.NoError(t, json.Unmarshal([]byte(raw), &before))
		dtype := "torch_dtype"
		if before["dtype"] != nil { // it keeps the name that it had
			dtype = "dtype"
		}
		before[dtype] = "float32"
		assert.Equal(t, before, keys(def))
		if def.Kind() != "gpt2" {
			continue
		}
		dropping, err := WithDropout(def, 0.2)
		require.NoError(t, err)
		before["attn_pdrop"], before["embd_pdrop"], before["resid_pdrop"] = 0.0, 0.2, 0.2
		assert.Equal(t, before, keys(dropping))
		assert.False(t, Same(def, dropping))
	}
}

// Two files of one network are of the same; one number that differs makes another.
func TestSame(t *testing.T) {
	read := func(edit string) Definition {
		def, err := ParseConfig([]byte(strings.Replace(tinyLlama, `"rope_scaling": null`, edit, 1)))
		require.NoError(t, err)
		return def
	}
	one := read(`"rope_scaling": null`)
	assert.True(t, Same(one, read(`"head_dim": 64, "mlp_bias": false, "attention_dropout": 0.0`)))
	for _, other := range []string{`"rope_scaling": {"type": "linear", "factor": 2}`, `"mlp_bias": true`, `"partial_rotary_factor": 0.5`, `"attention_dropout": 0.1`} {
		assert.False(t, Same(one, read(other)), other)
	}
	quantized, err := WithQuantization(one, Quantization{Mode: "nf4"})
	require.NoError(t, err)
	assert.False(t, Same(one, quantized))
}
