package tokenizer

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/hub/gguf"
	"gputrain/hub/gguf/llamacpp"
)

// asGGUF opens the GGUF file that a model with a tokenizer becomes.
func asGGUF(t *testing.T, tok *Tokenizer, rows int) (*Tokenizer, error) {
	t.Helper()
	config := fmt.Sprintf(`{"model_type": "llama", "hidden_size": 4, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 8, "vocab_size": %d, "max_position_embeddings": 64}`, rows)
	m := llamacpp.Model{Config: []byte(config), Read: tok.Read}
	for name, shape := range map[string][]int{"model.embed_tokens.weight": {rows, 4}, "model.layers.0.mlp.gate_proj.weight": {8, 4}} {
		m.Tensors = append(m.Tensors, llamacpp.Tensor{Name: name, Shape: shape, Read: func() ([]float32, error) { return make([]float32, shape[0]*shape[1]), nil }})
	}
	keys, tensors, err := llamacpp.Convert(m, gguf.F32)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	require.NoError(t, gguf.Write(&b, keys, tensors))
	path := filepath.Join(t.TempDir(), "model.gguf")
	require.NoError(t, os.WriteFile(path, b.Bytes(), 0o644))
	return openAt(path)
}

// A directory and the GGUF file that is made of it have the same tokens, put the same around a text and end texts by the same.
func TestDirectoryAndItsGGUFFile(t *testing.T) {
	gpt2, err := os.ReadFile("testdata/gpt2/tokenizer.json")
	require.NoError(t, err)
	model, err := os.ReadFile("testdata/spm_bpe/tokenizer.model")
	require.NoError(t, err)
	template := func(before, behind string) string {
		return string(withPart(t, "gpt2", "post_processor", `{"type": "Sequence", "processors": [{"type": "ByteLevel"}, {"type": "TemplateProcessing", "single": [`+before+
			`{"Sequence": {"id": "A", "type_id": 0}}`+behind+`], "special_tokens": {"<|endoftext|>": {"ids": [0]}, "x": {"ids": [7]}}}]}`))
	}
	const end, x = `{"SpecialToken": {"id": "<|endoftext|>"}}`, `{"SpecialToken": {"id": "x"}}`
	flags := `{"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "add_bos_token": true, "add_eos_token": true}`
	const ends = "generation_config.json"
	for name, files := range map[string]map[string]string{
		"no processor":            {"tokenizer.json": string(gpt2)},
		"flags alone":             {"tokenizer.json": string(gpt2), configFile: flags},
		"before":                  {"tokenizer.json": template(end+",", "")},
		"behind":                  {"tokenizer.json": template("", ","+end), configFile: `{"add_eos_token": false}`},
		"another than the names":  {"tokenizer.json": template(x+",", ","+x), configFile: flags},
		"tokens of the config":    {"tokenizer.json": string(gpt2), configFile: `{"added_tokens_decoder": {"600": {"content": "<|im_start|>", "special": true}, "601": {"content": "<|im_end|>"}}, "eos_token": "<|im_end|>"}`},
		"tokens of an older file": {"tokenizer.json": string(gpt2), namesFile: `{"eos_token": "<|im_end|>", "additional_special_tokens": ["<|im_start|>"]}`},
		"three ends":              {"tokenizer.json": string(gpt2), configFile: `{"eos_token": "<|endoftext|>"}`, ends: `{"eos_token_id": [0, 5, 6]}`},
		"five ends":               {"tokenizer.json": string(gpt2), configFile: `{"eos_token": "<|endoftext|>"}`, ends: `{"eos_token_id": [0, 5, 6, 7, 8]}`},
		"a model":                 {"tokenizer.model": string(model)},
		"a model without <s>":     {"tokenizer.model": string(model), configFile: `{"add_bos_token": false, "add_eos_token": true}`},
		"a model and more tokens": {"tokenizer.model": string(model), configFile: `{"additional_special_tokens": ["<|im_start|>"], "eos_token": "</s>"}`},
	} {
		t.Run(name, func(t *testing.T) {
			tok, err := opened(t, files)
			require.NoError(t, err)
			file, err := asGGUF(t, tok, 640)
			require.NoError(t, err)
			const text = "<|im_start|>the sea<|im_end|> sea<|endoftext|>"
			for _, special := range []bool{false, true} {
				wanted, err := tok.Encode(text, Options{Special: special})
				require.NoError(t, err)
				ids, err := file.Encode(text, Options{Special: special})
				require.NoError(t, err)
				assert.Equal(t, wanted, ids)
			}
			wanted, found := tok.EndTokens(), file.EndTokens()
			_, behind := tok.Around()
			for _, id := range behind { // llama.cpp's end of a text
				if !slices.Contains(wanted, id) {
					wanted = append(wanted, id)
				}
			}
			assert.ElementsMatch(t, wanted, found)
		})
	}
	tok, err := opened(t, map[string]string{"tokenizer.json": template(end+","+x+",", "")})
	require.NoError(t, err)
	_, err = asGGUF(t, tok, 640)
	assert.ErrorContains(t, err, "tokenizer.json: post_processor: found tokens [0 7] before a text, wanted one at most: llama.cpp puts no more there")
}
