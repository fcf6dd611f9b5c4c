package llamacpp

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/hub/gguf"
)

// pieces is a tokenizer.json of SentencePiece's kind: <unk>, <s>, all bytes, and ▁ a b ab ▁ab, which merges make in this order.
func pieces(t *testing.T, change func(file map[string]any)) string {
	t.Helper()
	vocab := map[string]int{"<unk>": 0, "<s>": 1}
	for b := range 256 {
		vocab[fmt.Sprintf("<0x%02X>", b)] = len(vocab)
	}
	for _, s := range []string{"▁", "a", "b", "ab", "▁ab"} {
		vocab[s] = len(vocab)
	}
	file := map[string]any{
		"added_tokens": []any{map[string]any{"id": 0, "content": "<unk>", "special": true}, map[string]any{"id": 1, "content": "<s>", "special": true}},
		"normalizer": map[string]any{"type": "Sequence", "normalizers": []any{
			map[string]any{"type": "Prepend", "prepend": "▁"}, map[string]any{"type": "Replace", "pattern": map[string]any{"String": " "}, "content": "▁"},
		}},
		"model": map[string]any{"type": "BPE", "byte_fallback": true, "unk_token": "<unk>", "vocab": vocab, "merges": []any{"a b", "▁ ab"}},
	}
	if change != nil {
		change(file)
	}
	raw, err := json.Marshal(file)
	require.NoError(t, err)
	return string(raw)
}

func vocabularyOf(t *testing.T, text string) (map[string]any, string, error) {
	t.Helper()
	said := ""
	m := Model{Read: files(map[string]string{"tokenizer.json": text}), Tell: func(what string) { said += what }}
	keys, err := vocabulary(m, &config{map[string]any{"eos_token_id": 1.}}, 265)
	found := map[string]any{}
	for _, k := range keys {
		found[k.Name] = k.Value
	}
	return found, said, err
}

// Scores fall as merges come later; a tokenizer.model made of them gives the same keys.
func TestPieces(t *testing.T) {
	keys, said, err := vocabularyOf(t, pieces(t, nil))
	require.NoError(t, err)
	assert.Empty(t, said)
	tokens, kinds, scores := keys["tokenizer.ggml.tokens"].([]string), keys["tokenizer.ggml.token_type"].([]int32), keys["tokenizer.ggml.scores"].([]float32)
	assert.Equal(t, []string{"▁", "a", "b", "ab", "▁ab", "[PAD263]", "[PAD264]"}, tokens[258:])
	assert.Equal(t, []int32{unknownToken, controlToken, byteToken}, kinds[:3])
	assert.Equal(t, []int32{normalToken, unusedToken}, kinds[262:264])
	assert.Equal(t, []float32{0, -1}, scores[261:263])
	assert.Less(t, scores[258], float32(-1), "no merge makes it")
	assert.Equal(t, []any{"llama", "default", true}, []any{keys["tokenizer.ggml.model"], keys["tokenizer.ggml.pre"], keys["tokenizer.ggml.add_space_prefix"]})

	m := small(llama, map[string][]int{"model.embed_tokens.weight": {265, 4}})
	m.Config = []byte(`{"model_type": "llama", "hidden_size": 4, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 8, "vocab_size": 265, "max_position_embeddings": 64}`)
	m.Read = files(map[string]string{"tokenizer.json": pieces(t, nil)})
	f := written(t, m, gguf.F32)
	d := &Directory{file: f, kind: "llama", family: families["llama"], stated: facts{f, "llama."}}
	raw, err := d.Read("tokenizer.model")
	require.NoError(t, err)
	_, _, err = sentencePieces(append(slices.Clone(raw), 3<<3|2, 3, 2<<3|2, 1, 'x'), 265)
	assert.ErrorContains(t, err, "normalizer_spec: found the rules", "llama.cpp has none")
	again, _, err := sentencePieces(raw, 265)
	require.NoError(t, err)
	for _, k := range again {
		if k.Name != "tokenizer.ggml.remove_extra_whitespaces" {
			assert.Equal(t, keys[k.Name], k.Value, k.Name)
		}
	}
}

// What merging by scores cannot do is refused, and what it does otherwise is told.
func TestPiecesRefuse(t *testing.T) {
	model := func(file map[string]any) map[string]any { return file["model"].(map[string]any) }
	for want, change := range map[string]func(file map[string]any){
		"found 255 of the tokens <0x00> to <0xFF>, wanted all 256": func(f map[string]any) {
			vocab := maps.Clone(model(f)["vocab"].(map[string]int))
			delete(vocab, "<0x41>")
			model(f)["vocab"] = vocab
		},
		"normalizer: found Lowercase, wanted Prepend and Replace": func(f map[string]any) { f["normalizer"] = map[string]any{"type": "Lowercase"} },
		"normalizer: found none that replaces spaces":             func(f map[string]any) { f["normalizer"] = nil },
		"pre_tokenizer: found Metaspace, wanted none":             func(f map[string]any) { f["pre_tokenizer"] = map[string]any{"type": "Metaspace", "replacement": "▁"} },
		`found "▁a b", whose whole another merge makes earlier`: func(f map[string]any) {
			vocab := maps.Clone(model(f)["vocab"].(map[string]int))
			vocab["▁a"] = 263
			model(f)["vocab"], model(f)["merges"] = vocab, []any{"▁ ab", "▁ a", "▁a b"}
		},
	} {
		_, _, err := vocabularyOf(t, pieces(t, change))
		assert.ErrorContains(t, err, want)
	}
	_, said, err := vocabularyOf(t, pieces(t, func(f map[string]any) { model(f)["merges"] = []any{"▁ ab"} }))
	require.NoError(t, err)
	assert.Contains(t, said, "1 pairs of tokens make another token without a merge that says so")
}

// llama.cpp reads Phi 3's rule off a model's name, and cannot load one of such a name without its tokens.
func TestNamed(t *testing.T) {
	for _, c := range []struct {
		name   string
		strips bool
		want   string
	}{{"my-Phi3-run", false, "my-phi_3-run"}, {"phi-3", false, "phi_3"}, {"it", true, "phi-3 it"}, {"Phi-3 mini", true, "Phi-3 mini"}, {"phi-4", false, "phi-4"}} {
		assert.Equal(t, c.want, phiName(c.name, c.strips))
	}
	added := func(rstrip ...string) *tokenizerFile {
		f := &tokenizerFile{}
		for i, s := range append([]string{"</s>", "<|end|>"}, phi3Plain...) {
			f.Added = append(f.Added, addedToken{ID: i, Content: s, Right: slices.Contains(rstrip, s)})
		}
		return f
	}
	told := 0
	tell := func(what string) {
		assert.Contains(t, what, "tokens such as <")
		told++
	}
	assert.True(t, added("</s>", "<|end|>").stripsRight(tell))
	assert.False(t, added().stripsRight(tell))
	assert.Zero(t, told)
	for _, f := range []*tokenizerFile{added("</s>"), added("</s>", "<|end|>", "<s>"), {Added: []addedToken{{Content: "</s>", Left: true}}}} {
		assert.False(t, f.stripsRight(tell))
	}
	assert.Equal(t, 3, told)
}

// Tokens of tokenizer_config.json take the places that no piece has. A piece stays what its model says.
func TestAddedBehindPieces(t *testing.T) {
	m := Model{Read: files(map[string]string{"tokenizer_config.json": `{"added_tokens_decoder": {
		"0": {"content": "z", "special": true}, "1": {"content": "</s>", "special": false},
		"2": {"content": "<|end|>", "special": true}, "3": {"content": "<|more|>", "special": false}}}`})}
	tokens, kinds := []string{"a", "</s>", "[PAD2]", "[PAD3]", "[PAD4]"}, []int32{normalToken, controlToken, unusedToken, unusedToken, unusedToken}
	_, err := addedBehind(m, tokens, kinds)
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "</s>", "<|end|>", "<|more|>", "[PAD4]"}, tokens)
	assert.Equal(t, []int32{normalToken, controlToken, controlToken, userToken, unusedToken}, kinds)
	_, err = addedBehind(m, tokens[:3], kinds[:3])
	assert.EqualError(t, err, `found "3" for "<|more|>", wanted an id below the 3 of the model`)
}
