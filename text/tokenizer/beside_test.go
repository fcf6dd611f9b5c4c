package tokenizer

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tiny has ids 0 to 4 in its model, and an added token behind them.
const tiny = `{"added_tokens": [{"id": 5, "content": "<e>", "special": true, "normalized": false}],
"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, " ": 2, "<s>": 3, "x": 4}, "merges": []}}`

// around is tiny with <s> before a text.
const around = `{"post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}], "special_tokens": {"<s>": {"ids": [3]}}},` +
	`"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, " ": 2, "<s>": 3, "x": 4}, "merges": []}}`

// opened opens a directory of these files.
func opened(t *testing.T, files map[string]string) (*Tokenizer, error) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	return openAt(dir)
}

// Tokens that files beside a tokenizer.json alone have are added as transformers 5 does it (TokenizersBackend.__init__ and from_pretrained,
// AddedVocabulary of tokenizers): by the rules, worked out by hand.
func TestTokensBesideTheTokenizer(t *testing.T) {
	for name, c := range map[string]struct {
		files   map[string]string
		text    string
		ids     []int32
		special []int32
		ends    []int32
		same    bool // the fingerprint is that of tokenizer.json
	}{
		"nothing beside": {nil, "a<m>b<s>", []int32{0, 1}, []int32{5}, nil, true},
		"listed with ids": {
			map[string]string{configFile: `{"added_tokens_decoder": {"7": {"content": "<n>", "special": true}, "6": {"content": "<m>"}, "5": {"content": "<e>", "special": true}}}`},
			"a<m>b<n><e>",
			[]int32{0, 6, 1, 7, 5},
			[]int32{5, 7},
			nil, false,
		},
		"a listed token takes spaces, others count on": {
			map[string]string{configFile: `{"added_tokens_decoder": {"6": {"content": "<m>", "special": true, "lstrip": true, "rstrip": true}}, "mask_token": "<k>", "bos_token": "<b>"}`},
			"a <m> b<b><k>",
			[]int32{0, 6, 1, 7, 8},
			[]int32{5, 6, 7, 8},
			nil, false,
		},
		"a listed token that tokenizer.json has is looked for in its way": {
			map[string]string{configFile: `{"added_tokens_decoder": {"5": {"content": "<e>", "special": true, "rstrip": true}}}`},
			"a<e>  b",
			[]int32{0, 5, 1},
			[]int32{5},
			nil, false,
		},
		"one that it has, as it has it": {
			map[string]string{configFile: `{"added_tokens_decoder": {"5": {"content": "<e>", "special": true, "normalized": false}}, "eos_token": "<e>", "pad_token": null}`},
			"a<e> b",
			[]int32{0, 5, 2, 1},
			[]int32{5},
			[]int32{5},
			true,
		},
		"roles in their order, then others, then the list": {
			map[string]string{configFile: `{"additional_special_tokens": ["<m>", "<e>"], "image_token": "<i>", "add_bos_token": true, "pad_token": "<p>", "eos_token": {"content": "<z>"}}`},
			"<z><p><i><m>",
			[]int32{6, 7, 8, 9},
			[]int32{5, 6, 7, 8, 9},
			[]int32{6},
			false,
		},
		"extra_special_tokens go before additional_special_tokens": {
			map[string]string{configFile: `{"additional_special_tokens": ["<m>"], "extra_special_tokens": ["<n>"]}`}, "<m><n>", []int32{6}, []int32{5, 6}, nil, false,
		},
		"extra_special_tokens by name": {
			map[string]string{configFile: `{"extra_special_tokens": {"y": "<n>", "b": "<m>"}}`}, "<m><n>", []int32{7, 6}, []int32{5, 6, 7}, nil, false,
		},
		"a name of the vocabulary keeps its id, and is cut out of the text": {
			map[string]string{configFile: `{"bos_token": "<s>"}`}, "a<s>b", []int32{0, 3, 1}, []int32{3, 5}, nil, false,
		},
		"the older files": {
			map[string]string{namesFile: `{"eos_token": {"content": "<z>", "rstrip": true}, "additional_special_tokens": ["<m>"]}`, addedFile: `{"<q>": 7, "<m>": 6}`, configFile: `{"eos_token": "<e>"}`},
			"<z>  <m><q>",
			[]int32{8, 6, 7},
			[]int32{5, 6, 8},
			[]int32{8},
			false,
		},
		"the older files do not count beside added_tokens_decoder": {
			map[string]string{namesFile: `{"eos_token": "<z>"}`, addedFile: `{"<q>": 6}`, configFile: `{"added_tokens_decoder": {}}`}, "a<z><q>b", []int32{0, 1}, []int32{5}, nil, true,
		},
		"the end of texts alone": {map[string]string{namesFile: `{"eos_token": "<e>"}`}, "a<e>", []int32{0, 5}, []int32{5}, []int32{5}, false},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"tokenizer.json": tiny}
			for file, text := range c.files {
				files[file] = text
			}
			tok, err := opened(t, files)
			require.NoError(t, err)
			alone, err := opened(t, map[string]string{"tokenizer.json": tiny})
			require.NoError(t, err)
			ids, err := tok.Encode(c.text, Options{})
			require.NoError(t, err)
			assert.Equal(t, c.ids, ids)
			assert.Equal(t, c.special, tok.Special())
			assert.Equal(t, c.ends, tok.EndTokens())
			assert.Equal(t, c.same, tok.Fingerprint() == alone.Fingerprint())
			assert.Equal(t, c.same, tok.Since(alone.Fingerprint()) == "")

			file, err := tok.Read("tokenizer.json") // says all by itself
			require.NoError(t, err)
			itself, err := opened(t, map[string]string{"tokenizer.json": string(file)})
			require.NoError(t, err)
			again, err := itself.Encode(c.text, Options{})
			require.NoError(t, err)
			assert.Equal(t, c.ids, again)
			assert.Equal(t, c.special, itself.Special())
		})
	}
	for config, says := range map[string]string{
		`{"added_tokens_decoder": {"9": {"content": "<m>"}}}`: `tokenizer_config.json: added_tokens_decoder: found id 9 for "<m>", which tokenizer.json lacks, wanted 6, the next one`,
		`{"added_tokens_decoder": {"6": {}}}`:                 `added_tokens_decoder: found {}, wanted a text or an object with a content`,
		`{"additional_special_tokens": "<m>"}`:                `additional_special_tokens: found "<m>", wanted a list`,
		`[]`:                                                  `tokenizer_config.json`,
	} {
		_, err := opened(t, map[string]string{"tokenizer.json": tiny, configFile: config})
		assert.ErrorContains(t, err, says)
	}
}

// Whether a token is looked for in the normalized text is decided by who has it first, as in tokenizers: the listed one changes the rest.
func TestListedTokensAreLookedForInTheSameText(t *testing.T) {
	const listed = `{"added_tokens_decoder": {"2": {"content": "<E>", "special": true, "normalized": %v, "rstrip": true}}}`
	for _, c := range []struct {
		normalized, listed bool
		ids                []int32 // of text
	}{{false, true, []int32{2, 0}}, {true, false, []int32{2, 2, 0}}, {false, false, []int32{2, 0}}, {true, true, []int32{2, 2, 0}}} {
		tok, err := opened(t, map[string]string{
			"tokenizer.json": fmt.Sprintf(`{"normalizer": {"type": "Lowercase"}, "added_tokens": [{"id": 2, "content": "<E>", "special": true, "normalized": %v}],
				"model": {"type": "BPE", "vocab": {"a": 0, " ": 1}, "merges": []}}`, c.normalized),
			configFile: fmt.Sprintf(listed, c.listed),
		})
		require.NoError(t, err)
		ids, err := tok.Encode("<e><E> a", Options{})
		require.NoError(t, err)
		assert.Equal(t, c.ids, ids, "%v", c)
	}
	prints := map[string]bool{}
	for _, how := range []string{`"special": true`, `"lstrip": true, "special": true`, `"rstrip": true, "special": true`} {
		tok, err := opened(t, map[string]string{"tokenizer.json": tiny, configFile: `{"added_tokens_decoder": {"6": {"content": "<m>", ` + how + `}}}`})
		require.NoError(t, err)
		prints[tok.Fingerprint()] = true
	}
	assert.Len(t, prints, 3, "each gives some texts other tokens")
}

// Beside a tokenizer.json its post-processor alone says what stands around a text: from_pretrained of transformers 5 drops add_bos_token and
// add_eos_token of tokenizer_config.json there. A SentencePiece model has no post-processor, so they count.
func TestWhatStandsAroundATextIsSaidOnce(t *testing.T) {
	model, err := os.ReadFile("testdata/spm_bpe/tokenizer.model")
	require.NoError(t, err)
	const flags = `"bos_token": "<s>", "eos_token": "</s>", "add_eos_token"`
	for name, c := range map[string]struct {
		files          map[string]string
		before, behind []int32
	}{
		"neither":               {map[string]string{"tokenizer.json": tiny}, nil, nil},
		"the flags alone":       {map[string]string{"tokenizer.json": tiny, configFile: `{"bos_token": "<s>", "eos_token": "<e>", "add_bos_token": true, "add_eos_token": true}`}, nil, nil},
		"the processor":         {map[string]string{"tokenizer.json": around}, []int32{3}, nil},
		"flags against it":      {map[string]string{"tokenizer.json": around, configFile: `{"bos_token": "<s>", "add_bos_token": false, "add_eos_token": true}`}, []int32{3}, nil},
		"a model":               {map[string]string{"tokenizer.model": string(model)}, []int32{1}, nil},
		"a model without <s>":   {map[string]string{"tokenizer.model": string(model), configFile: `{"add_bos_token": false}`}, nil, nil},
		"a model with both":     {map[string]string{"tokenizer.model": string(model), configFile: `{` + flags + `: true}`}, []int32{1}, []int32{2}},
		"a model, as it begins": {map[string]string{"tokenizer.model": string(model), configFile: `{` + flags + `: false}`}, []int32{1}, nil},
	} {
		tok, err := opened(t, c.files)
		require.NoError(t, err, name)
		before, behind := tok.Around()
		assert.Equal(t, c.before, before, name)
		assert.Equal(t, c.behind, behind, name)
	}
}

// Tokens that follow the pieces of a SentencePiece model are added too; its control pieces stay out of texts unless a file lists them with their ids.
func TestTokensBesideAModel(t *testing.T) {
	model, err := os.ReadFile("testdata/spm_bpe/tokenizer.model")
	require.NoError(t, err)
	alone, err := opened(t, map[string]string{"tokenizer.model": string(model)})
	require.NoError(t, err)
	n := int32(alone.VocabSize())
	tok, err := opened(t, map[string]string{
		"tokenizer.model": string(model), namesFile: `{"eos_token": "<|e|>", "bos_token": "<s>"}`, addedFile: fmt.Sprintf(`{"<|x|>": %d}`, n),
	})
	require.NoError(t, err)
	ids, err := tok.Encode("<|x|><|e|><s>", Options{})
	require.NoError(t, err)
	assert.Equal(t, []int32{n, n + 1}, ids[1:3], "behind the space that stands before a text")
	assert.NotContains(t, ids, int32(1))
	assert.Equal(t, []int32{n + 1}, tok.EndTokens())
	assert.NotEqual(t, alone.Fingerprint(), tok.Fingerprint())
	config, err := tok.Read(configFile)
	require.NoError(t, err)
	itself, err := opened(t, map[string]string{"tokenizer.model": string(model), configFile: string(config)})
	require.NoError(t, err)
	again, err := itself.Encode("<|x|><|e|><s>", Options{})
	require.NoError(t, err)
	assert.Equal(t, ids, again)
	_, err = alone.Read(configFile)
	assert.ErrorIs(t, err, fs.ErrNotExist)
}
