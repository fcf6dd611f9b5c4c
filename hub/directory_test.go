package hub

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers/safetensors"
	. "gputrain/model"
)

const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 988097824\n"

// What people have in place of a model's directory is named: the file, what was found and what was wanted.
func TestDirectoriesThatAreNoModel(t *testing.T) {
	def := smallDefinitions(t)[0]
	hosts := Init(def, 9)
	where := map[string]string{}
	for i, h := range hosts {
		where[h.Path] = []string{"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}[i*2/len(hosts)]
	}
	whole := func(t *testing.T, dir, name string, from, to int) {
		store(t, def, name, dir, named(hosts[from:to], ""))
	}
	half := (len(hosts) + 1) / 2
	for name, c := range map[string]struct {
		make func(t *testing.T, dir string)
		says []string
	}{
		"no config": {func(t *testing.T, dir string) {
			whole(t, dir, "model.safetensors", 0, len(hosts))
			require.NoError(t, os.Remove(filepath.Join(dir, "config.json")))
		}, []string{"config.json", "no such file"}},
		"a pointer for a config":  {write("config.json", pointer), []string{"config.json", "found a Git LFS pointer, wanted a file of 988097824 bytes: git lfs pull"}},
		"a page for a config":     {write("config.json", "<!doctype html><html>sign in"), []string{"config.json", "found a web page"}},
		"a refusal for a config":  {write("config.json", `{"error":"Access to model google/gemma-3-1b-pt is restricted"}`), []string{"config.json", "a server's refusal", "gemma-3-1b-pt"}},
		"a byte-order mark":       {write("config.json", "\ufeff{}"), []string{"config.json", "begins with a byte-order mark, wanted none: save the file as UTF-8"}},
		"a model of another kind": {write("config.json", `{"model_type": "t5"}`), []string{"config.json", "t5"}},
		"a key that is no word":   {write("config.json", `{"model_type": "qwen3", "\u001b[31mk": 1}`), []string{`"\x1b[31mk": 1, want no such key`}},
		"no weights":              {func(*testing.T, string) {}, []string{"found no weights, wanted model.safetensors, or model.safetensors.index.json and the files it names: "}},
		"pickles":                 {write("pytorch_model.bin", "x"), []string{"pytorch_model.bin is a pickle", "save the model as safetensors"}},
		"pickles in pieces":       {write("pytorch_model-00001-of-00002.bin", "x"), []string{"pytorch_model-00001-of-00002.bin is a pickle"}},
		"for inference":           {write("model-Q4_K_M.gguf", "GGUF"), []string{"model-Q4_K_M.gguf is a model of its own: name the file"}},
		"an adapter":              {write("adapter_model.safetensors", "x"), []string{"adapter_model.safetensors is an adapter, and there is no adapter_config.json"}},
		"another name":            {write("consolidated.safetensors", "x"), []string{"consolidated.safetensors is not named as Hugging Face"}},
		"a pointer for weights":   {write("model.safetensors", pointer), []string{"model.safetensors", "Git LFS pointer, wanted a file of 988097824 bytes"}},
		"a refusal for weights":   {write("model.safetensors", "Access to model meta-llama/Llama-3.2-1B is restricted."), []string{"model.safetensors", "refusal", "Llama-3.2-1B"}},
		"a pointer for an index":  {write("model.safetensors.index.json", pointer), []string{"model.safetensors.index.json", "Git LFS pointer"}},
		"a shard missing": {func(t *testing.T, dir string) {
			whole(t, dir, "model-00001-of-00002.safetensors", 0, half)
			index(t, dir, where)
		}, []string{`model.safetensors.index.json: found no "model-00002-of-00002.safetensors", wanted it for 14 of 28 tensors`}},
		"a shard of another model": {func(t *testing.T, dir string) {
			whole(t, dir, "model-00001-of-00002.safetensors", 0, half)
			whole(t, dir, "model-00002-of-00002.safetensors", half+1, len(hosts))
			index(t, dir, where)
		}, []string{"tensor \"" + hosts[half].Path + "\": found it not in \"model-00002-of-00002.safetensors\", wanted it there"}},
		"bytes for floats": {func(t *testing.T, dir string) {
			bad := safetensors.Tensor{Name: "wte.weight", DType: "I8", Shape: []int{13, 8}, Data: safetensors.Int32s("", []int{26}, make([]int32, 26)).Data}
			store(t, def, "model.safetensors", dir, append(named(hosts[:len(hosts)-1], ""), bad))
		}, []string{`"wte.weight": dtype I8, want F32, BF16 or F16`}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			config, err := ConfigJSON(def, "F32")
			require.NoError(t, err)
			require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), config, 0o666))
			c.make(t, dir)
			_, _, err = opened(t, dir).Partial(nil)
			for _, says := range append(c.says, dir) {
				assert.ErrorContains(t, err, says)
			}
		})
	}
}

func write(name, content string) func(t *testing.T, dir string) {
	return func(t *testing.T, dir string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o666))
	}
}

// Published configurations are read as they are, and have as many parameters as their models.
func TestPublishedSizes(t *testing.T) {
	for want, raw := range map[int64]string{
		596_049_920: `{"architectures": ["Qwen3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 151643, "eos_token_id": 151645, "head_dim": 128,
			"hidden_act": "silu", "hidden_size": 1024, "initializer_range": 0.02, "intermediate_size": 3072, "max_position_embeddings": 40960, "max_window_layers": 28,
			"model_type": "qwen3", "num_attention_heads": 16, "num_hidden_layers": 28, "num_key_value_heads": 8, "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000,
			"sliding_window": null, "tie_word_embeddings": true, "torch_dtype": "bfloat16", "transformers_version": "4.51.0", "use_cache": true, "use_sliding_window": false, "vocab_size": 151936}`,
		999_885_952: `{"architectures": ["Gemma3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "attn_logit_softcapping": null, "bos_token_id": 2,
			"cache_implementation": "hybrid", "eos_token_id": [1, 106], "final_logit_softcapping": null, "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 1152,
			"initializer_range": 0.02, "intermediate_size": 6912, "max_position_embeddings": 32768, "model_type": "gemma3_text", "num_attention_heads": 4, "num_hidden_layers": 26,
			"num_key_value_heads": 1, "pad_token_id": 0, "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06, "rope_local_base_freq": 10000, "rope_scaling": null, "rope_theta": 1000000,
			"sliding_window": 512, "sliding_window_pattern": 6, "torch_dtype": "bfloat16", "transformers_version": "4.50.0.dev0", "use_cache": true, "vocab_size": 262144}`,
		1_235_814_400: `{"architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 128000, "eos_token_id": 128001, "head_dim": 64,
			"hidden_act": "silu", "hidden_size": 2048, "initializer_range": 0.02, "intermediate_size": 8192, "max_position_embeddings": 131072, "mlp_bias": false, "model_type": "llama",
			"num_attention_heads": 32, "num_hidden_layers": 16, "num_key_value_heads": 8, "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": {"factor": 32.0,
			"high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192, "rope_type": "llama3"}, "rope_theta": 500000.0, "tie_word_embeddings": true,
			"torch_dtype": "bfloat16", "transformers_version": "4.45.0.dev0", "use_cache": true, "vocab_size": 128256}`,
		134_515_008: `{"architectures": ["LlamaForCausalLM"], "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2, "hidden_act": "silu",
			"hidden_size": 576, "initializer_range": 0.041666666666666664, "intermediate_size": 1536, "is_llama_config": true, "max_position_embeddings": 8192, "mlp_bias": false,
			"model_type": "llama", "num_attention_heads": 9, "num_hidden_layers": 30, "num_key_value_heads": 3, "pad_token_id": 2, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
			"rope_interleaved": false, "rope_scaling": null, "rope_theta": 100000, "tie_word_embeddings": true, "torch_dtype": "bfloat16",
			"transformers.js_config": {"kv_cache_dtype": {"q4f16": "float16"}}, "transformers_version": "4.42.3", "use_cache": true, "vocab_size": 49152}`,
	} {
		def, err := ParseConfig([]byte(raw))
		require.NoError(t, err)
		assert.Equal(t, want, Parameters(def))
	}
}
