package llamacpp

import (
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/hub/gguf"
	"gputrain/internal/sentencepiece"
	"gputrain/tests/frugal"
)

// made is a file with some keys beside those of a small Llama.
func made(t testing.TB, more ...gguf.Key) []byte {
	t.Helper()
	m := small(llama, map[string][]int{"model.embed_tokens.weight": {6, 4}, "model.layers.0.self_attn.q_proj.weight": {8, 4}, "model.layers.0.input_layernorm.weight": {4}})
	keys, tensors, err := Convert(m, gguf.F16)
	require.NoError(t, err)
	named := map[string]any{}
	for _, k := range more {
		named[k.Name] = k.Value
	}
	var all []gguf.Key
	for _, k := range keys {
		v, ok := named[k.Name]
		if delete(named, k.Name); !ok {
			v = k.Value
		}
		if v != nil {
			all = append(all, gguf.Key{Name: k.Name, Value: v})
		}
	}
	for _, k := range more {
		if v, left := named[k.Name]; left && v != nil {
			all = append(all, k)
		}
	}
	return encoded(t, all, tensors)
}

func open(t testing.TB, raw []byte) (*Directory, error) {
	t.Helper()
	return New(file(t, raw))
}

// The files beside a model say what the keys do.
func TestDirectoryFiles(t *testing.T) {
	d, err := open(t, made(t, gguf.Key{Name: "tokenizer.ggml.pre", Value: "llama-bpe"}, gguf.Key{Name: "tokenizer.ggml.bos_token_id", Value: uint32(4)},
		gguf.Key{Name: "tokenizer.ggml.add_bos_token"}, gguf.Key{Name: "tokenizer.ggml.eot_token_id", Value: uint32(1)}, gguf.Key{Name: "tokenizer.chat_template.tool_use", Value: "U"}))
	require.NoError(t, err)
	read := func(name string) map[string]any {
		raw, err := d.Read(name)
		require.NoError(t, err)
		var fields map[string]any
		require.NoError(t, json.Unmarshal(raw, &fields))
		return fields
	}
	config := read("config.json")
	assert.Equal(t, map[string]any{"rope_type": "llama3", "factor": 4., "low_freq_factor": 1., "high_freq_factor": 4., "original_max_position_embeddings": 32.}, config["rope_scaling"])
	assert.Equal(t, []any{"float16", "llama", 4., 1., 3.}, []any{config["torch_dtype"], config["model_type"], config["hidden_size"], config["num_key_value_heads"], config["eos_token_id"]})
	assert.Equal(t, []any{3., 1.}, read("generation_config.json")["eos_token_id"])
	tokenizer := read("tokenizer.json")
	assert.Equal(t, true, tokenizer["model"].(map[string]any)["ignore_merges"])
	assert.Equal(t, "<x>", tokenizer["post_processor"].(map[string]any)["single"].([]any)[0].(map[string]any)["SpecialToken"].(map[string]any)["id"], "a Llama 3 begins texts, unless a file says otherwise")
	assert.NotContains(t, tokenizer["model"].(map[string]any)["vocab"], "[PAD5]")
	said := read("tokenizer_config.json")
	assert.Equal(t, []any{true, "<x>", "<|im_end|>"}, []any{said["add_bos_token"], said["bos_token"], said["eos_token"]})
	assert.Len(t, said["chat_template"], 2)
	for _, name := range []string{"tokenizer.model", "model.safetensors", "base.json"} {
		_, err := d.Read(name)
		assert.ErrorIs(t, err, fs.ErrNotExist, name)
	}
}

// Ollama's own keys: several tokens that end a text, and the rotations and windows of Gemma 3.
func TestDirectoryOfOllama(t *testing.T) {
	key := func(name string, value any) gguf.Key { return gguf.Key{Name: name, Value: value} }
	read := func(name string, keys ...gguf.Key) map[string]any {
		raw := made(t, keys...)
		if keys[0].Value == "gemma3" {
			raw = encoded(t, keys, []gguf.Tensor{{Name: "token_embd.weight", Type: gguf.F32, Shape: []int{1, 4}, Write: func(w io.Writer) error {
				_, err := w.Write(make([]byte, 16))
				return err
			}}})
		}
		d, err := open(t, raw)
		require.NoError(t, err)
		raw, err = d.Read(name)
		require.NoError(t, err)
		var fields map[string]any
		require.NoError(t, json.Unmarshal(raw, &fields))
		return fields
	}
	eos := []gguf.Key{key("tokenizer.ggml.eos_token_ids", []int32{2, 3}), key("tokenizer.ggml.eom_token_id", uint32(0)), key("tokenizer.ggml.eot_token_id", uint32(1))}
	assert.Equal(t, []any{3., 2., 1., 0.}, read("generation_config.json", eos...)["eos_token_id"])
	eos = append(eos, key("tokenizer.ggml.eos_token_id", nil))
	assert.Equal(t, []any{2., 3., 1., 0.}, read("generation_config.json", eos...)["eos_token_id"], "none of llama.cpp's beside it")
	assert.Equal(t, 2., read("config.json", eos...)["eos_token_id"])

	gemma := []gguf.Key{key("general.architecture", "gemma3")}
	for _, k := range []string{"context_length", "embedding_length", "block_count", "feed_forward_length", "attention.head_count", "attention.head_count_kv", "attention.key_length"} {
		gemma = append(gemma, key("gemma3."+k, uint32(4)))
	}
	config := read("config.json", gemma...)
	assert.Equal(t, []any{1e6, 10000., 6.}, []any{config["rope_theta"], config["rope_local_base_freq"], config["sliding_window_pattern"]})
	config = read("config.json", append(gemma, key("gemma3.rope.global.freq_base", float32(5)), key("gemma3.rope.local.freq_base", float32(7)),
		key("gemma3.attention.sliding_window_pattern", []bool{true, false}))...)
	assert.Equal(t, []any{5., 7., []any{"sliding_attention", "full_attention"}}, []any{config["rope_theta"], config["rope_local_base_freq"], config["layer_types"]})
	config = read("config.json", append(gemma, key("gemma3.rope.freq_base", float32(8)), key("gemma3.rope.global.freq_base", float32(5)), key("gemma3.rope.freq_base_swa", float32(9)),
		key("gemma3.rope.local.freq_base", float32(7)), key("gemma3.attention.sliding_window_pattern", uint32(3)))...)
	assert.Equal(t, []any{8., 9., 3.}, []any{config["rope_theta"], config["rope_local_base_freq"], config["sliding_window_pattern"]}, "llama.cpp's keys come first")
}

// A Gemma puts no space before a text, where a file does not say it; other models of SentencePiece's kind do.
func TestDirectorySpacePrefix(t *testing.T) {
	for arch, want := range map[string]bool{"gemma2": false, "llama": true} {
		d, err := open(t, made(t, gguf.Key{Name: "tokenizer.ggml.model", Value: "llama"}, gguf.Key{Name: "tokenizer.ggml.scores", Value: make([]float32, 6)}))
		require.NoError(t, err)
		d.family = families[arch]
		raw, err := d.Read("tokenizer.model")
		require.NoError(t, err)
		m, err := sentencepiece.Parse(raw)
		require.NoError(t, err)
		assert.Equal(t, want, m.DummyPrefix, arch)
	}
}

// A transpose is read in pieces of any size; each element of the file is read once.
func TestTransposed(t *testing.T) {
	const rows, width = 5, 7
	for size := 1; size <= rows*width; size++ {
		asked := make([]int, rows*width)
		read := transposed(rows, width, func(dst []float32, first int) error {
			for i := range dst {
				dst[i] = float32(first + i)
				asked[first+i]++
			}
			return nil
		})
		var all []float32
		for first := 0; first < rows*width; first += size {
			part := make([]float32, min(size, rows*width-first))
			require.NoError(t, read(part, first))
			all = append(all, part...)
		}
		for i, v := range all {
			require.InDelta(t, i%rows*width+i/rows, v, 0, "pieces of %d: element %d", size, i)
		}
		for i, n := range asked {
			require.Equal(t, 1, n, "pieces of %d: element %d of the file", size, i)
		}
	}
}

// A tokenizer that is not understood is an error of the tokenizer's file, with what was found.
func TestDirectoryRefusesTokenizers(t *testing.T) {
	key := func(name string, value any) gguf.Key { return gguf.Key{Name: "tokenizer.ggml." + name, Value: value} }
	for want, keys := range map[string][]gguf.Key{
		`key tokenizer.ggml.pre: found "mystery", wanted one of gpt-2`:                        {key("pre", "mystery")},
		`key tokenizer.ggml.model: found "bert", wanted gpt2 or llama`:                        {key("model", "bert")},
		`key tokenizer.ggml.merges: found none`:                                               {key("merges", nil)},
		`key tokenizer.ggml.tokens: found 7, wanted at most 6, the rows of token_embd.weight`: {key("tokens", make([]string, 7))},
		`key tokenizer.ggml.token_type: found 1, wanted one for each of 6`:                    {key("token_type", []int32{1})},
	} {
		d, err := open(t, made(t, keys...))
		require.NoError(t, err)
		_, err = d.Read("tokenizer.json")
		assert.ErrorContains(t, err, want)
	}
	d, err := open(t, made(t, key("model", "llama")))
	require.NoError(t, err)
	_, err = d.Read("tokenizer.model")
	assert.ErrorContains(t, err, "key tokenizer.ggml.scores: found 0, wanted one for each of 6 tokens")
}

// Whatever a file says, it is read or refused, in memory that its length bounds.
func FuzzDirectory(f *testing.F) {
	scores := gguf.Key{Name: "tokenizer.ggml.scores", Value: make([]float32, 6)}
	for _, raw := range [][]byte{
		made(f), made(f, gguf.Key{Name: "tokenizer.ggml.model", Value: "llama"}, scores), made(f, gguf.Key{Name: "general.architecture", Value: "phi3"}),
		made(f, gguf.Key{Name: "llama.rope.scaling.type", Value: "yarn"}),
	} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		path := filepath.Join(t.TempDir(), "m.gguf")
		require.NoError(t, os.WriteFile(path, raw, 0o666))
		frugal.Parse(t, len(raw), func() {
			f, err := gguf.Open(path)
			if err != nil {
				return
			}
			defer f.Close()
			d, err := New(f)
			if err != nil {
				return
			}
			for _, name := range []string{"config.json", "generation_config.json", "tokenizer.json", "tokenizer.model", "tokenizer_config.json"} {
				_, _ = d.Read(name)
			}
			for _, p := range d.Tensors() {
				_ = p.Read(make([]float32, 3), 0)
			}
		})
	})
}
