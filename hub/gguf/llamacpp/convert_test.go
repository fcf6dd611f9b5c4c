package llamacpp

import (
	"bytes"
	"encoding/json"
	"fmt"
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

	"gputrain/hub/gguf"
)

// tokenizer is a byte-level tokenizer of four tokens, one merge, and a special token.
const tokenizer = `{"added_tokens": [{"id": 3, "content": "<|im_end|>", "special": true}, {"id": 4, "content": "<x>", "special": false}],
	"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
	"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]}}`

func files(f map[string]string) func(string) ([]byte, error) {
	return func(name string) ([]byte, error) {
		if text, ok := f[name]; ok {
			return []byte(text), nil
		}
		return nil, fs.ErrNotExist
	}
}

// small is a model of one layer whose tensors count up.
func small(config string, shapes map[string][]int) Model {
	m := Model{Name: "small", Config: []byte(config), Read: files(map[string]string{"tokenizer.json": tokenizer, "tokenizer_config.json": `{"eos_token": "<|im_end|>", "chat_template": "T"}`})}
	for name, shape := range shapes {
		n := 1
		for _, d := range shape {
			n *= d
		}
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(i)
		}
		m.Tensors = append(m.Tensors, Tensor{Name: name, Shape: shape, Read: func() ([]float32, error) { return x, nil }})
	}
	slices.SortFunc(m.Tensors, func(a, b Tensor) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) })
	return m
}

const llama = `{"model_type": "llama", "hidden_size": 4, "num_attention_heads": 2, "num_key_value_heads": 1, "num_hidden_layers": 1, "intermediate_size": 8,
	"vocab_size": 6, "max_position_embeddings": 64, "head_dim": 4, "rope_theta": 100,
	"rope_scaling": {"rope_type": "llama3", "factor": 4, "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 32}}`

// written converts a model and reads the file.
func written(t *testing.T, m Model, as gguf.Type) *gguf.File {
	t.Helper()
	keys, tensors, err := Convert(m, as)
	require.NoError(t, err)
	return file(t, encoded(t, keys, tensors))
}

// encoded are the bytes of a file.
func encoded(t testing.TB, keys []gguf.Key, tensors []gguf.Tensor) []byte {
	t.Helper()
	var b bytes.Buffer
	require.NoError(t, gguf.Write(&b, keys, tensors))
	return b.Bytes()
}

// file is an open file of these bytes.
func file(t testing.TB, raw []byte) *gguf.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.gguf")
	require.NoError(t, os.WriteFile(path, raw, 0o666))
	f, err := gguf.Open(path)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return f
}

func elements(t *testing.T, f *gguf.File, name string) []float32 {
	t.Helper()
	info, ok := f.Info(name)
	require.True(t, ok, name)
	x := make([]float32, info.Elements())
	require.NoError(t, f.Floats(name, x, 0))
	return x
}

func TestConvertLlama(t *testing.T) {
	f := written(t, small(llama, map[string][]int{
		"model.embed_tokens.weight": {6, 4}, "model.layers.0.self_attn.q_proj.weight": {8, 4}, "model.layers.0.self_attn.k_proj.weight": {4, 4}, "model.layers.0.input_layernorm.weight": {4},
	}), gguf.F16)
	for name, want := range map[string]any{
		"general.architecture": "llama", "general.file_type": uint32(1), "llama.attention.head_count_kv": uint32(1), "llama.rope.freq_base": float32(100),
		"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": []string{"a", "b", "ab", "<|im_end|>", "<x>", "[PAD5]"},
		"tokenizer.ggml.token_type": []int32{1, 1, 1, 3, 4, 5}, "tokenizer.ggml.merges": []string{"a b"}, "tokenizer.ggml.eos_token_id": uint32(3),
		"tokenizer.ggml.eot_token_id": uint32(3), "tokenizer.ggml.add_bos_token": false, "tokenizer.chat_template": "T",
	} {
		found, ok := f.Value(name)
		assert.True(t, ok, name)
		assert.Equal(t, want, found, name)
	}
	// Two heads of width 4: rows 0 1 2 3 of a head become 0 2 1 3.
	q := elements(t, f, "blk.0.attn_q.weight")
	for to, from := range []int{0, 2, 1, 3, 4, 6, 5, 7} {
		assert.Equal(t, float32(4*from), q[4*to], "row %d", to)
	}
	assert.Equal(t, float32(8), elements(t, f, "blk.0.attn_k.weight")[4], "one head of keys")
	norm, _ := f.Info("blk.0.attn_norm.weight")
	assert.Equal(t, gguf.F32, norm.Type)
	// Frequencies turn once in 2 pi and in 20 pi tokens: 32/4 > 6.28, and 62.8 > 32.
	assert.Equal(t, []float32{1, 4}, elements(t, f, "rope_freqs.weight"))
}

func TestConvertGemmaAndGPT2(t *testing.T) {
	f := written(t, small(`{"model_type": "gemma2", "hidden_size": 4, "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 256, "num_hidden_layers": 2, "intermediate_size": 8,
		"vocab_size": 6, "max_position_embeddings": 64}`, map[string][]int{"model.norm.weight": {4}, "model.layers.0.post_attention_layernorm.weight": {4}}), gguf.F32)
	assert.Equal(t, []float32{1, 2, 3, 4}, elements(t, f, "output_norm.weight"), "1 is added")
	assert.Equal(t, []float32{1, 2, 3, 4}, elements(t, f, "blk.0.post_attention_norm.weight"))
	window, _ := f.Value("gemma2.attention.sliding_window")
	assert.Equal(t, uint32(4096), window)
	f = written(t, small(`{"model_type": "gpt2", "n_embd": 2, "n_head": 1, "n_layer": 1, "vocab_size": 6, "n_positions": 8}`,
		map[string][]int{"h.0.mlp.c_fc.weight": {2, 3}, "wpe.weight": {8, 2}}), gguf.F16)
	up, _ := f.Info("blk.0.ffn_up.weight")
	assert.Equal(t, []int{3, 2}, up.Shape)
	assert.Equal(t, []float32{0, 3, 1, 4, 2, 5}, elements(t, f, "blk.0.ffn_up.weight"))
}

// TestConvertTied: a tied head is left out where llama.cpp does without, and a copy elsewhere.
func TestConvertTied(t *testing.T) {
	for kind, want := range map[string]bool{"qwen3": false, "olmo2": true} {
		f := written(t, small(`{"model_type": "`+kind+`", "hidden_size": 4, "num_attention_heads": 1, "num_hidden_layers": 1, "intermediate_size": 8, "vocab_size": 6, "max_position_embeddings": 64,
			"tie_word_embeddings": true}`, map[string][]int{"model.embed_tokens.weight": {6, 4}}), gguf.F32)
		_, found := f.Info("output.weight")
		assert.Equal(t, want, found, kind)
		if found {
			assert.Equal(t, elements(t, f, "token_embd.weight"), elements(t, f, "output.weight"))
		}
	}
}

// TestConvertTypes: rows that are no whole blocks are stored as f16, and what a type cannot hold is refused.
func TestConvertTypes(t *testing.T) {
	m := small(llama, map[string][]int{"model.embed_tokens.weight": {6, 64}, "lm_head.weight": {6, 4}})
	f := written(t, m, gguf.Q8_0)
	table, _ := f.Info("token_embd.weight")
	head, _ := f.Info("output.weight")
	assert.Equal(t, []gguf.Type{gguf.Q8_0, gguf.F16}, []gguf.Type{table.Type, head.Type})
	_, _, err := Convert(m, gguf.Q4_K)
	assert.ErrorContains(t, err, "llama-quantize MODEL-f16.gguf MODEL.gguf Q4_K")
	inf, nan := float32(math.Inf(-1)), float32(math.NaN())
	for _, c := range []struct {
		as    gguf.Type
		x     [2]float32 // of 64 elements, the others 0
		count int        // that have no such type
	}{
		{gguf.F32, [2]float32{math.MaxFloat32, nan}, 0},
		{gguf.BF16, [2]float32{0x1.fefffep127, inf}, 0}, // 0x1.fep127 is the largest, and half a step above it rounds up
		{gguf.BF16, [2]float32{0x1.ffp127, -3.4e38}, 2},
		{gguf.F16, [2]float32{65519, nan}, 0},
		{gguf.F16, [2]float32{-65520, 1e9}, 2},
		{gguf.Q8_0, [2]float32{65519 * 127, 1}, 0}, // the scale is f16
		{gguf.Q8_0, [2]float32{65520 * 127, 1}, 1},
		{gguf.Q8_0, [2]float32{nan, inf}, 2},
		{gguf.Q4_0, [2]float32{65519 * -8, 1}, 0},
		{gguf.Q4_0, [2]float32{65520 * 8, nan}, 2},
	} {
		m.Tensors[1].Read = func() ([]float32, error) { return append(make([]float32, 62), c.x[:]...), nil }
		_, tensors, err := Convert(m, c.as)
		require.NoError(t, err)
		err = tensors[1].Write(io.Discard)
		if c.count == 0 {
			assert.NoError(t, err, "%s %v", c.as, c.x)
			continue
		}
		assert.ErrorContains(t, err, fmt.Sprintf("found %d of 64 numbers that %s does not hold, first element 62, %g: write f32", c.count, c.as, c.x[0]))
	}
}

// TestConvertRefuses: what llama.cpp would compute otherwise.
func TestConvertRefuses(t *testing.T) {
	with := func(changes string) string {
		var fields, other map[string]any
		require.NoError(t, json.Unmarshal([]byte(llama), &fields))
		require.NoError(t, json.Unmarshal([]byte(changes), &other))
		for k, v := range other {
			fields[k] = v
		}
		raw, err := json.Marshal(fields)
		require.NoError(t, err)
		return string(raw)
	}
	for changes, want := range map[string]string{
		`{"model_type": "mixtral"}`:                                                                                                             `model_type: found "mixtral", wanted one of gemma2`,
		`{"model_type": "mistral", "sliding_window": 8}`:                                                                                        "sliding_window: found 8 in layer 0, below the context of 64",
		`{"rope_scaling": {"rope_type": "dynamic", "factor": 2}}`:                                                                               `rope_scaling: found "dynamic"`,
		`{"model_type": "smollm3", "no_rope_layers": [0], "rope_scaling": null}`:                                                                "no_rope_layers: found layer 0 with positions: false, wanted true",
		`{"model_type": "gemma2", "query_pre_attn_scalar": 7, "rope_scaling": null}`:                                                            "query_pre_attn_scalar: found 7, wanted 4",
		`{"model_type": "gemma3_text", "query_pre_attn_scalar": 4, "sliding_window": 8, "sliding_window_pattern": 1}`:                           "layer 0: found a window: false, wanted true",
		`{"model_type": "gemma2", "query_pre_attn_scalar": 4, "rope_scaling": null, "layer_types": ["full_attention"]}`:                         "layer 0: found a window: false, wanted true",
		`{"model_type": "gemma3_text", "query_pre_attn_scalar": 4, "rope_scaling": null, "num_hidden_layers": 3, "_sliding_window_pattern": 3}`: "layer 2: found a window: false, wanted true",
		`{"model_type": "qwen2", "rope_scaling": null, "head_dim": 2, "use_sliding_window": true, "sliding_window": 8, "max_window_layers": 0}`: "sliding_window: found 8 in layer 0, below the context of 64, wanted none: llama.cpp computes qwen2 without windows",
		`{"model_type": "smollm3", "rope_scaling": null, "num_hidden_layers": 4, "use_sliding_window": true, "sliding_window": 8}`:              "sliding_window: found 8 in layer 3",
		`{"model_type": "phi3", "rope_scaling": null, "head_dim": 2, "sliding_window": 8}`:                                                      "sliding_window: found 8 in layer 0",
		`{"model_type": "mistral", "max_position_embeddings": 8192}`:                                                                            "sliding_window: found 4096 in layer 0, below the context of 8192",
		`{"model_type": "qwen2", "rope_scaling": null}`:                                                                                         "head_dim: found 2 heads of 4 in a width of 4, wanted heads that are together as wide as the model",
		`{"model_type": "olmo2", "rope_scaling": null, "head_dim": 3}`:                                                                          "head_dim: found 2 heads of 3 in a width of 4",
		`{"model_type": "phi3", "rope_scaling": null, "sliding_window": 8, "head_dim": 1}`:                                                      "llama.cpp cannot load another phi3",
		`{"partial_rotary_factor": 0.5}`:                                                                                                        "partial_rotary_factor: found 0.5, wanted 1",
		`{"hidden_act": "gelu"}`:                                                                                                                `hidden_act: found "gelu", wanted silu`,
		`{"model_type": "gpt2", "activation_function": "gelu"}`:                                                                                 `activation_function: found "gelu", wanted gelu_new`,
		`{"model_type": "qwen3", "attention_bias": true}`:                                                                                       "attention_bias: found true, wanted false",
		`{"model_type": "gemma2", "query_pre_attn_scalar": 4, "attn_logit_softcapping": null}`:                                                  "attn_logit_softcapping: found none, wanted one",
		`{"model_type": "qwen3"}`:    "rope_scaling: found llama3 in a qwen3",
		`{"vocab_size": 3}`:          `token "<|im_end|>": found id 3, wanted one below the 3 of the model`,
		`{"num_hidden_layers": 513}`: "num_hidden_layers: found 513, wanted 512 at most",
	} {
		_, _, err := Convert(small(with(changes), nil), gguf.F32)
		assert.ErrorContains(t, err, want)
		if !strings.HasPrefix(want, "token ") { // Check sees no tokenizer
			assert.ErrorContains(t, Check([]byte(with(changes))), want)
		}
	}
	assert.NoError(t, Check([]byte(llama)))
	m := small(llama, map[string][]int{"model.layers.0.odd.weight": {1}})
	_, _, err := Convert(m, gguf.F32)
	assert.ErrorContains(t, err, `tensor "model.layers.0.odd.weight": found one that llama.cpp has no name for in a llama`)
	for text, want := range map[string]string{
		`{"model": {"type": "Unigram"}}`:                                                                                                                                                   "found the type Unigram, wanted BPE",
		`{"model": {"type": "BPE"}, "pre_tokenizer": {"type": "Whitespace"}}`:                                                                                                              "found no ByteLevel at the end",
		`{"model": {"type": "BPE", "merges": [7]}, "pre_tokenizer": {"type": "ByteLevel"}}`:                                                                                                "merges: 0: found 7, wanted a pair of texts",
		`{"model": {"type": "BPE"}, "pre_tokenizer": {"type": "ByteLevel"}, "normalizer": {"type": "Lowercase"}}`:                                                                          "normalizer: found Lowercase, wanted none or NFC",
		`{"model": {"type": "BPE", "ignore_merges": true}, "pre_tokenizer": {"type": "ByteLevel"}}`:                                                                                        "with ignore_merges true",
		`{"model": {"type": "BPE"}, "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "x"}}}`:                                                                                        "found no ByteLevel at the end",
		`{"model": {"type": "BPE"}, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": "x"}, "behavior": "Removed"}, {"type": "ByteLevel"}]}}`: "found behavior Removed",
		`{`: "tokenizer.json: ",
	} {
		m := small(llama, nil)
		m.Read = files(map[string]string{"tokenizer.json": text})
		_, _, err := Convert(m, gguf.F32)
		assert.ErrorContains(t, err, want)
	}
	m.Read = files(nil)
	_, _, err = Convert(m, gguf.F32)
	assert.ErrorContains(t, err, "found neither tokenizer.json nor tokenizer.model")
}

// TestConvertWindows: windows that llama.cpp has too, and settings of windows that no layer uses.
func TestConvertWindows(t *testing.T) {
	for kind, more := range map[string]string{
		"gemma2":      `"num_hidden_layers": 2, "layer_types": ["sliding_attention", "full_attention"]`,
		"gemma3_text": `"num_hidden_layers": 7, "sliding_window": 8`,
		"qwen2":       `"use_sliding_window": true, "sliding_window": 8, "max_window_layers": 1`,
		"qwen3":       `"use_sliding_window": true, "sliding_window": 8, "layer_types": ["full_attention"]`,
		"mistral":     `"sliding_window": 64`,
		"smollm3":     `"sliding_window": 8, "use_sliding_window": false`,
	} {
		c := `{"model_type": "` + kind + `", "hidden_size": 4, "num_attention_heads": 1, "head_dim": 4, "query_pre_attn_scalar": 4, "num_hidden_layers": 1, "vocab_size": 6, "max_position_embeddings": 64, ` + more + `}`
		_, _, err := Convert(small(c, nil), gguf.F32)
		assert.NoError(t, err, kind)
	}
}

// TestConvertImages: a tokenizer may have tokens for images beyond the rows of a model that sees none.
func TestConvertImages(t *testing.T) {
	m := small(llama, nil)
	m.Read = files(map[string]string{"tokenizer.json": strings.Replace(tokenizer, `"added_tokens": [`, `"added_tokens": [{"id": 6, "content": "<image>", "special": true}, `, 1)})
	_, _, err := Convert(m, gguf.F32)
	require.NoError(t, err)
	m.Read = files(map[string]string{"tokenizer.json": strings.Replace(tokenizer, `"added_tokens": [`, `"added_tokens": [{"id": 6, "content": "<other>", "special": true}, `, 1)})
	_, _, err = Convert(m, gguf.F32)
	assert.ErrorContains(t, err, `token "<other>": found id 6, wanted one below the 6 of the model`)
}

// TestConvertSecondEnd: a token that ends an answer, of a tokenizer whose names say nothing.
func TestConvertSecondEnd(t *testing.T) {
	m := small(llama, nil)
	m.Read = files(map[string]string{"tokenizer.json": strings.ReplaceAll(tokenizer, "im_end", "stop"), "generation_config.json": `{"eos_token_id": [1, 4]}`, "tokenizer_config.json": `{"eos_token": "b"}`})
	keys, _, err := Convert(m, gguf.F32)
	require.NoError(t, err)
	assert.Contains(t, keys, gguf.Key{Name: "tokenizer.ggml.eos_token_id", Value: uint32(1)})
	assert.Contains(t, keys, gguf.Key{Name: "tokenizer.ggml.eot_token_id", Value: uint32(4)})
}

// TestConvertEnds: the tokens that end a text and an answer, of a directory with no more than a tokenizer.json; and what is said where none does.
func TestConvertEnds(t *testing.T) {
	for _, c := range []struct {
		token    string
		ends     []int // that whoever converts knows
		eos, eot any
	}{
		{token: "<|im_end|>", eos: uint32(3), eot: uint32(3)},
		{token: "<|endoftext|>", eos: uint32(3)},
		{token: "</s>", eos: uint32(3)},
		{token: "<stop>"},
		{token: "<stop>", ends: []int{3}, eos: uint32(3), eot: uint32(3)},
		{token: "<|endoftext|>", ends: []int{4, 3}, eos: uint32(3), eot: uint32(4)},
		{token: "<|endoftext|>", ends: []int{77}, eos: uint32(3)},
	} {
		said := ""
		m := small(llama, nil)
		m.Read, m.Ends, m.Tell = files(map[string]string{"tokenizer.json": strings.ReplaceAll(tokenizer, "<|im_end|>", c.token)}), c.ends, func(what string) { said += what }
		f := written(t, m, gguf.F32)
		for key, want := range map[string]any{"eos": c.eos, "eot": c.eot} {
			found, _ := f.Value("tokenizer.ggml." + key + "_token_id")
			assert.Equal(t, want, found, "%s of %s, %v", key, c.token, c.ends)
		}
		assert.Equal(t, c.eos == nil, strings.Contains(said, "no token that ends a text"), "%s: %s", c.token, said)
	}
}

// TestConvertTemplates: of several templates, the one for everything and the others by name.
func TestConvertTemplates(t *testing.T) {
	m := small(llama, nil)
	m.Read = files(map[string]string{"tokenizer.json": tokenizer, "tokenizer_config.json": `{"chat_template": [{"name": "tool_use", "template": "U"}, {"name": "default", "template": "D"}]}`})
	f := written(t, m, gguf.F32)
	for key, want := range map[string]any{"tokenizer.chat_template": "D", "tokenizer.chat_template.tool_use": "U", "tokenizer.chat_templates": []string{"tool_use"}} {
		found, _ := f.Value(key)
		assert.Equal(t, want, found, key)
	}
}

// TestPre: the names of splits as published tokenizers have them.
func TestPre(t *testing.T) {
	quote := func(s string) string { raw, _ := json.Marshal(s); return string(raw) }
	split := `{"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": %s}, "behavior": "Isolated"}, {"type": "ByteLevel", "use_regex": false}]}`
	for want, pre := range map[string]string{
		"gpt-2":  `{"type": "ByteLevel"}`,
		"dbrx":   fmt.Sprintf(split, quote(llamaSplit)),
		"qwen2":  fmt.Sprintf(split, quote(qwenSplit)),
		"qwen35": fmt.Sprintf(split, quote(marksSplit)),
		"smollm": `{"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": true}, {"type": "ByteLevel", "use_regex": true}]}`,
	} {
		f := &tokenizerFile{}
		require.NoError(t, json.Unmarshal([]byte(`{"pre_tokenizer": `+pre+`}`), f))
		found, err := f.pre()
		require.NoError(t, err)
		assert.Equal(t, want, found)
	}
}
