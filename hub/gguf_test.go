package hub

import (
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/graph"
	"gputrain/hub/gguf"
	"gputrain/hub/gguf/llamacpp"
	. "gputrain/model"
)

// byteLevel is a tokenizer of eleven tokens.
const byteLevel = `{"added_tokens": [{"id": 2, "content": "<e>", "special": true}], "pre_tokenizer": {"type": "ByteLevel"},
	"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 3}, "merges": [["a", "b"]]}}`

// writeGGUF writes a model as llama.cpp has it, and gives its parameters.
func writeGGUF(t *testing.T, config []byte, as gguf.Type) (path string, _ Definition, _ map[string][]float32) {
	t.Helper()
	def, err := ParseConfig(config)
	require.NoError(t, err)
	params := map[string][]float32{}
	for i, h := range Init(def, 3) {
		for j := range h.Data {
			h.Data[j] = h.Data[j]/2 + float32(math.Mod(float64(i*7+j), 29))/64 // gains differ too, so that their order shows
		}
		params[h.Path] = h.Data
	}
	read := func(path string) ([]float32, error) { return params[path], nil }
	m := llamacpp.Model{Name: "test", Config: config, Read: func(name string) ([]byte, error) {
		if name == "tokenizer.json" {
			return []byte(byteLevel), nil
		}
		return nil, fs.ErrNotExist
	}}
	named, err := Tensors(def, "F32", read)
	require.NoError(t, err)
	for i, p := range def.Params() {
		m.Tensors = append(m.Tensors, llamacpp.Tensor{Name: named[i].Name, Shape: p.Shape, Read: func() ([]float32, error) { return read(p.Path) }})
	}
	keys, tensors, err := llamacpp.Convert(m, as)
	require.NoError(t, err)
	return rewritten(t, keys, tensors), def, params
}

// A GGUF file is the directory that it was made of: the same network, the same numbers, in whatever pieces they are
// read.
func TestGGUFIsItsDirectory(t *testing.T) {
	decoder := `"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32, "num_hidden_layers": 2, "intermediate_size": 96, "vocab_size": 13, "max_position_embeddings": 64`
	for name, config := range map[string]string{
		"llama":     `"model_type": "llama", "rms_norm_eps": 1e-5, "rope_theta": 50000, "attention_bias": true, "tie_word_embeddings": false`,
		"llama 3.2": `"model_type": "llama", "tie_word_embeddings": true, "rope_theta": 500000, "rope_scaling": {"rope_type": "llama3", "factor": 32, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 8192}`,
		"linear":    `"model_type": "llama", "tie_word_embeddings": false, "rope_scaling": {"rope_type": "linear", "factor": 4}`,
		"qwen2":     `"model_type": "qwen2", "tie_word_embeddings": false, "rope_theta": 1000000`,
		"qwen3":     `"model_type": "qwen3", "tie_word_embeddings": true`,
		"qwen3_moe": `"model_type": "qwen3_moe", "tie_word_embeddings": false, "num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 40, "norm_topk_prob": true`,
		"qwen3_5_moe_text": `"model_type": "qwen3_5_moe_text", "tie_word_embeddings": false, "num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 40,
			"shared_expert_intermediate_size": 24, "layer_types": ["linear_attention", "full_attention"], "partial_rotary_factor": 0.5, "linear_num_value_heads": 4,
			"linear_num_key_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8`,
		"smollm3":     `"model_type": "smollm3", "tie_word_embeddings": true`,
		"olmo2":       `"model_type": "olmo2", "tie_word_embeddings": false`,
		"gemma2":      `"model_type": "gemma2", "query_pre_attn_scalar": 32, "sliding_window": 16`,
		"gemma3_text": `"model_type": "gemma3_text", "query_pre_attn_scalar": 32, "sliding_window": 16, "rope_local_base_freq": 5000`,
		"gemma4_text": `"model_type": "gemma4_text", "num_hidden_layers": 5, "layer_types": ["sliding_attention", "sliding_attention", "full_attention", "sliding_attention", "full_attention"],
			"num_kv_shared_layers": 2, "use_double_wide_mlp": true, "global_head_dim": 64, "hidden_size_per_layer_input": 16, "sliding_window": 16, "final_logit_softcapping": 30`,
		"gemma4 of keys": `"model_type": "gemma4_text", "num_key_value_heads": 2, "num_global_key_value_heads": 1, "attention_k_eq_v": true, "layer_types": ["sliding_attention", "full_attention"],
			"global_head_dim": 64, "hidden_size_per_layer_input": 0, "sliding_window": 16`,
		"phi3":        `"model_type": "phi3", "tie_word_embeddings": false, "original_max_position_embeddings": 64`,
		"longrope":    `"model_type": "phi3", "tie_word_embeddings": true, "partial_rotary_factor": 0.5, "original_max_position_embeddings": 32, "rope_scaling": {"type": "longrope", "short_factor": [1, 1.1, 1.4, 4], "long_factor": [1, 2, 4, 24.5]}`,
		"yarn":        `"model_type": "qwen2", "tie_word_embeddings": true, "rope_scaling": {"type": "yarn", "factor": 4, "original_max_position_embeddings": 64}`,
		"yarn by 0.9": `"model_type": "qwen3", "tie_word_embeddings": true, "rope_scaling": {"type": "yarn", "factor": 2, "original_max_position_embeddings": 32, "attention_factor": 0.9}`,
		"granite":     `"model_type": "granite", "tie_word_embeddings": true, "attention_bias": true, "embedding_multiplier": 12, "attention_multiplier": 0.11, "residual_multiplier": 0.22, "logits_scaling": 5`,
		"olmo3":       `"model_type": "olmo3", "tie_word_embeddings": false, "sliding_window": 16, "rope_scaling": {"rope_type": "yarn", "factor": 8, "original_max_position_embeddings": 8, "attention_factor": 1.2079441541679836}`,
		"olmo3 apart": `"model_type": "olmo3", "tie_word_embeddings": false, "layer_types": ["sliding_attention", "sliding_attention"], "rope_parameters": {"full_attention": {"rope_type": "default", "rope_theta": 7000}, "sliding_attention": {"rope_type": "default", "rope_theta": 7000}}`,
		"ministral3":  `"model_type": "ministral3", "tie_word_embeddings": true, "rope_parameters": {"rope_type": "yarn", "type": "yarn", "factor": 4, "original_max_position_embeddings": 16, "beta_fast": 4, "beta_slow": 0.5, "mscale": 1, "mscale_all_dim": 1, "llama_4_scaling_beta": 0.1, "rope_theta": 1e6}`,
		"gpt2":        `"model_type": "gpt2", "n_embd": 64, "n_head": 4, "n_layer": 2, "vocab_size": 13, "n_positions": 64`,
	} {
		t.Run(name, func(t *testing.T) {
			switch {
			case strings.Contains(config, "qwen2") || strings.Contains(config, "olmo") || strings.Contains(config, "phi3"): // their heads are as wide as the model
				config += ", " + strings.Replace(decoder, "32", "16", 1)
			case strings.Contains(config, "num_hidden_layers"):
				config += ", " + strings.Replace(decoder, `"num_hidden_layers": 2, `, "", 1)
			case name != "gpt2":
				config += ", " + decoder
			}
			path, wanted, params := writeGGUF(t, []byte("{"+config+"}"), gguf.F32)
			def, stored, err := opened(t, path).Partial(nil)
			require.NoError(t, err)
			assert.True(t, Same(wanted, def), "the same network")
			hosts, drawn := stored.Params(0)
			assert.Empty(t, drawn)
			for _, h := range hosts {
				want := params[h.Path]
				whole := make([]float32, h.Elements())
				require.NoError(t, h.Copy(whole, 0))
				if !assert.InDeltaSlice(t, want, whole, 6e-8, "%s", h.Path) { // of 1 + w - 1, which Gemma's gains are
					continue
				}
				if len(whole) < 6 {
					continue
				}
				part := make([]float32, min(41, len(whole)-5))
				require.NoError(t, h.Copy(part, 5))
				assert.Equal(t, whole[5:5+len(part)], part, "%s: a part", h.Path)
			}
			checkTrainedFor(t, config, gguf.Q8_0)
			checkTrainedFor(t, config, gguf.Q4_0)
			checkTrainedFor(t, strings.ReplaceAll(config, `"intermediate_size": 96`, `"intermediate_size": 90`), gguf.Q4_0) // in f16
		})
	}
}

// checkTrainedFor: a network that is trained for a type reads each matrix that its file has in few bits as the file has it, bit for bit, and all else as it is.
func checkTrainedFor(t *testing.T, config string, kind gguf.Type) {
	path, def, params := writeGGUF(t, []byte("{"+config+"}"), kind)
	def, err := WithQuantization(def, Quantization{Mode: kind.String()})
	if strings.Contains(config, "_moe") {
		assert.ErrorContains(t, err, "found experts, wanted a network without")
		return
	}
	require.NoError(t, err)
	f, err := gguf.Open(path)
	require.NoError(t, err)
	blocks := 0
	for _, info := range f.Tensors() {
		if info.Type == kind || info.Type == gguf.F16 {
			blocks++
		}
	}
	require.NoError(t, f.Close())
	_, quantized := QuantizationOf(def)
	assert.Equal(t, blocks, quantized, "%s: matrices", kind)

	built, err := def.Build(1, 4, Options{Logits: true})
	require.NoError(t, err)
	feeds := map[string]*graph.Array{}
	for _, p := range def.Params() {
		feeds[p.Path] = &graph.Array{Shape: p.Shape}
		for _, v := range params[p.Path] {
			feeds[p.Path].Data = append(feeds[p.Path].Data, float64(v))
		}
	}
	var paths []string
	var read []*graph.Value
	for _, n := range built.Graph.Nodes() {
		if _, ok := n.Op.(graph.Quantize); ok {
			paths, read = append(paths, n.Inputs[0].Node().Op.(graph.Param).Path), append(read, n.Outputs[0])
		}
	}
	values, err := graph.Eval(built.Graph, feeds, read...)
	require.NoError(t, err)
	_, stored, err := opened(t, path).Partial(nil)
	require.NoError(t, err)
	for i, path := range paths {
		held, err := stored.Read(path)
		require.NoError(t, err)
		require.False(t, slices.ContainsFunc(held, func(v float32) bool { return v-v != 0 }))
		for j, v := range values[i].Data {
			if float64(held[j]) != v {
				t.Fatalf("%s: %s: element %d: the network reads %g, the file has %g", kind, path, j, v, held[j])
			}
		}
	}
}

// The text part of a Gemma 3 that sees images is read without its eyes; no other family has any.
func TestGGUFOfImages(t *testing.T) {
	for kind, says := range map[string]string{"gemma3_text": "", "gemma2": `tensor "v.blk.0.attn_q.weight": found one that has no place`} {
		path, _, _ := writeGGUF(t, []byte(`{"model_type": "`+kind+`", "hidden_size": 64, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 32, "num_hidden_layers": 1, "intermediate_size": 96,
			"vocab_size": 13, "max_position_embeddings": 64, "query_pre_attn_scalar": 32, "sliding_window": 16}`), gguf.F32)
		f, err := gguf.Open(path)
		require.NoError(t, err)
		eye := gguf.Tensor{Name: "v.blk.0.attn_q.weight", Type: gguf.F32, Shape: []int{1}, Write: func(w io.Writer) error { _, err := w.Write(make([]byte, 4)); return err }}
		_, _, err = opened(t, rewritten(t, f.Keys(), append([]gguf.Tensor{eye}, tensorsOf(t, f)...))).Partial(nil)
		require.NoError(t, f.Close())
		if says != "" {
			require.ErrorContains(t, err, says)
			continue
		}
		require.NoError(t, err)
	}
}

// Quantized matrices are widened to what their blocks stand for, rows in the order of the directory.
func TestGGUFBlocks(t *testing.T) {
	path, _, params := writeGGUF(t, []byte(`{"model_type": "llama", "hidden_size": 64, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 96, "vocab_size": 13,
		"max_position_embeddings": 64, "tie_word_embeddings": false}`), gguf.Q8_0)
	_, stored, err := opened(t, path).Partial(nil)
	require.NoError(t, err)
	assert.Equal(t, "F32", stored.DType())
	q, err := stored.Read("model.layers.0.self_attn.q_proj.weight")
	require.NoError(t, err)
	want := params["model.layers.0.self_attn.q_proj.weight"]
	for i := range 64 * 64 / 32 { // a block has 127 steps to its largest magnitude, of a size that is an f16
		most := 0.0
		for _, v := range want[32*i : 32*i+32] {
			most = max(most, math.Abs(float64(v)))
		}
		assert.InDeltaSlice(t, want[32*i:32*i+32], q[32*i:32*i+32], most/127*(0.5+127.0/2048), "block %d", i)
	}
}

// What a file says of its model is checked against what is in it.
func TestGGUFRefused(t *testing.T) {
	whole, _, _ := writeGGUF(t, []byte(`{"model_type": "qwen3", "hidden_size": 64, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 32, "num_hidden_layers": 2, "intermediate_size": 96, "vocab_size": 13,
		"max_position_embeddings": 64, "tie_word_embeddings": true}`), gguf.F32)
	f, err := gguf.Open(whole)
	require.NoError(t, err)
	defer f.Close()
	for what, c := range map[string]struct {
		key   string
		value any // nil: the key is left out
		drop  string
		name  string // of the dropped tensor instead
	}{
		`key general.architecture: found "mamba", wanted one of gemma2`:            {key: "general.architecture", value: "mamba"},
		`found "adapter", wanted a model: these are low-rank adapters`:             {key: "general.type", value: "adapter"},
		`found "mmproj", wanted a model: this is the part of a model that sees`:    {key: "general.type", value: "mmproj"},
		`found "imatrix", wanted a model: these are statistics`:                    {key: "general.type", value: "imatrix"},
		`key qwen3.block_count: found <nil>, wanted one number from 1`:             {key: "qwen3.block_count"},
		`key qwen3.attention.head_count_kv: found [1 2], wanted one number from 1`: {key: "qwen3.attention.head_count_kv", value: []int32{1, 2}},
		`key qwen3.rope.scaling.type: found "mystery", wanted none, linear`:        {key: "qwen3.rope.scaling.type", value: "mystery"},
		`"model.layers.1.mlp.up_proj.weight" is missing`:                           {drop: "blk.1.ffn_up.weight"},
		`tensor "blk.1.ffn_odd.weight": found one that has no place in a qwen3`:    {drop: "blk.1.ffn_up.weight", name: "blk.1.ffn_odd.weight"},
		`tensor token_embd.weight: found none, wanted a matrix`:                    {drop: "token_embd.weight"},
		`"model.layers.0.self_attn.q_proj.weight": shape [64 64], want [128 64]`:   {key: "qwen3.attention.key_length", value: uint32(64)},
		`"model.layers.1.input_layernorm.weight" is no parameter`:                  {key: "qwen3.block_count", value: uint32(1)},
		`key qwen3.context_length: found 4294967295, wanted one number from 1`:     {key: "qwen3.context_length", value: uint32(math.MaxUint32)},
	} {
		var keys []gguf.Key
		for _, k := range f.Keys() {
			if k.Name != c.key {
				keys = append(keys, k)
			}
		}
		if c.value != nil {
			keys = append(keys, gguf.Key{Name: c.key, Value: c.value})
		}
		var tensors []gguf.Tensor
		for _, tensor := range tensorsOf(t, f) {
			if tensor.Name == c.drop {
				if tensor.Name = c.name; c.name == "" {
					continue
				}
			}
			tensors = append(tensors, tensor)
		}
		_, _, err = opened(t, rewritten(t, keys, tensors)).Partial(nil)
		assert.ErrorContains(t, err, what)
		assert.ErrorContains(t, err, "m.gguf", what)
	}
}

// rewritten is the path of a file of other keys and tensors.
func rewritten(t *testing.T, keys []gguf.Key, tensors []gguf.Tensor) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "m.gguf")
	to, err := os.Create(path)
	require.NoError(t, err)
	require.NoError(t, gguf.Write(to, keys, tensors))
	require.NoError(t, to.Close())
	return path
}

// tensorsOf are the tensors of a file, to be written again.
func tensorsOf(t *testing.T, f *gguf.File) (tensors []gguf.Tensor) {
	for _, info := range f.Tensors() {
		tensors = append(tensors, gguf.Tensor{Name: info.Name, Type: info.Type, Shape: info.Shape, Write: func(w io.Writer) error {
			from, err := f.Bytes(info.Name)
			require.NoError(t, err)
			_, err = io.Copy(w, from)
			return err
		}})
	}
	return tensors
}
