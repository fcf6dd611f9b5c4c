package tokenizer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// withPart is a tokenizer.json of testdata with another part.
func withPart(t testing.TB, base, name, part string) []byte {
	return altered(t, base, func(whole, _ map[string]json.RawMessage) { whole[name] = json.RawMessage(part) })
}

// withModel is one with another field of the model.
func withModel(t testing.TB, name, value string) []byte {
	return altered(t, "gpt2", func(_, model map[string]json.RawMessage) { model[name] = json.RawMessage(value) })
}

func TestRefusedFiles(t *testing.T) {
	gpt2, err := os.ReadFile("testdata/gpt2/tokenizer.json")
	require.NoError(t, err)
	small := func(vocab, merges string) []byte {
		return []byte(`{"model": {"type": "BPE", "vocab": ` + vocab + `, "merges": ` + merges + `}}`)
	}
	for want, raw := range map[string][]byte{
		"byte 4000 of 4000: tokenizer.json: unexpected end":                      gpt2[:4000],
		"tokenizer.json: found null, wanted an object":                           []byte("null"),
		"model: found nothing, wanted one":                                       []byte("{}"),
		`version: found "2.0", wanted one of 1.0`:                                withPart(t, "gpt2", "version", `"2.0"`),
		`field found "decodr"`:                                                   withPart(t, "gpt2", "decodr", `{}`),
		`normalizer: type: found "NFX", wanted one of Lowercase, NFC`:            withPart(t, "gpt2", "normalizer", `{"type":"NFX"}`),
		`normalizer: field found "form"`:                                         withPart(t, "gpt2", "normalizer", `{"type":"NFC","form":1}`),
		`normalizer: pattern: `:                                                  withPart(t, "gpt2", "normalizer", `{"type":"Replace","content":"x"}`),
		`normalizer.pattern: pattern "(": `:                                      withPart(t, "gpt2", "normalizer", `{"type":"Replace","pattern":{"Regex":"("},"content":"x"}`),
		`pre_tokenizer.pretokenizers[0]: type: found "Whitespace", wanted one`:   withPart(t, "gpt2", "pre_tokenizer", `{"type":"Sequence","pretokenizers":[{"type":"Whitespace"}]}`),
		`pre_tokenizer: behavior: found "Isolate"`:                               withPart(t, "gpt2", "pre_tokenizer", `{"type":"Split","pattern":{"String":" "},"behavior":"Isolate"}`),
		`pre_tokenizer: replacement: found "ab", wanted one character`:           withPart(t, "gpt2", "pre_tokenizer", `{"type":"Metaspace","replacement":"ab"}`),
		`pre_tokenizer: add_prefix_space: found false`:                           withPart(t, "gpt2", "pre_tokenizer", `{"type":"Metaspace","replacement":"_","add_prefix_space":false,"prepend_scheme":"always"}`),
		`post_processor: type: found "RobertaProcessing", wanted one of ByteLev`: withPart(t, "gpt2", "post_processor", `{"type":"RobertaProcessing"}`),
		`post_processor: single[0]: found "x", wanted one of special_tokens`:     withPart(t, "gpt2", "post_processor", `{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}},{"Sequence":{"id":"A"}}]}`),
		`post_processor: found id 7777, wanted 0 to 599`:                         withPart(t, "gpt2", "post_processor", `{"type":"TemplateProcessing","single":[{"SpecialToken":{"id":"x"}},{"Sequence":{"id":"A"}}],"special_tokens":{"x":{"ids":[7777]}}}`),
		`decoder: type: found "WordPiece", wanted one of ByteFallback`:           withPart(t, "gpt2", "decoder", `{"type":"WordPiece"}`),
		`added_tokens[0]: content: found nothing`:                                withPart(t, "gpt2", "added_tokens", `[{"id":600}]`),
		`added_tokens: "x1": found id 700, wanted 600`:                           withPart(t, "gpt2", "added_tokens", `[{"id":700,"content":"x1"}]`),
		`model: type: found "Unigram", wanted one of BPE`:                        withModel(t, "type", `"Unigram"`),
		`model: dropout: found 0.1, wanted null`:                                 withModel(t, "dropout", `0.1`),
		`model: end_of_word_suffix: found "x", wanted null`:                      withModel(t, "end_of_word_suffix", `"x"`),
		`model: unk_token: found "nil", wanted a token of the vocabulary`:        withModel(t, "unk_token", `"nil"`),
		`model: merges: [0]: found "a b c", wanted two tokens`:                   small(`{"a":0}`, `["a b c"]`),
		`model: merges: [0]: found "b", wanted tokens of the vocabulary`:         small(`{"a":0}`, `["a b"]`),
		`model: merges: [0]: found "ab", wanted tokens of the vocabulary`:        small(`{"a":0,"b":1}`, `[["a","b"]]`),
		`model: merges: [0]: found 3 tokens, wanted 2`:                           small(`{"a":0}`, `[["a","b","c"]]`),
		`model: merges: found nothing, wanted a list`:                            small(`{"a":0}`, `null`),
		`model: vocab: found id 1 of "a" and of "b"`:                             small(`{"a":1,"b":1}`, `[]`),
		`model: vocab: token "a": found id -1, wanted 0 to`:                      small(`{"a":-1}`, `[]`),
		`model: vocab: token "a": found id 900000000, wanted`:                    small(`{"a":900000000}`, `[]`),
	} {
		_, err := parseJSON(raw, &settings{})
		assert.ErrorContains(t, err, want)
	}
}

func TestRefusedModels(t *testing.T) {
	raw, err := os.ReadFile("testdata/spm_bpe/tokenizer.model")
	require.NoError(t, err)
	field := func(number, wire byte, value ...byte) []byte { return append([]byte{number<<3 | wire}, value...) }
	inner := func(number byte, raw []byte) []byte { return append([]byte{number<<3 | 2, byte(len(raw))}, raw...) }
	for want, raw := range map[string][]byte{
		"found the end, or bytes that are none": raw[:len(raw)/2],
		"found no pieces":                       nil,
		"model_type: found unigram, wanted bpe": append(bytes.Clone(raw), inner(2, field(3, 0, 1))...),
		`normalizer_spec: found the rules`:      append(bytes.Clone(raw), inner(3, field(2, 2, 1, 'x'))...),
		"found type 7, wanted normal":           append(bytes.Clone(raw), inner(1, append(field(1, 2, 1, 'Q'), field(3, 0, 7)...))...),
		`found "Q" twice, wanted it once`:       append(bytes.Clone(raw), append(inner(1, field(1, 2, 1, 'Q')), inner(1, field(1, 2, 1, 'Q'))...)...),
	} {
		_, err := parseModel(raw, &settings{})
		assert.ErrorContains(t, err, want)
	}
}

func TestRefusedTexts(t *testing.T) {
	tok, err := openAt("testdata/llama3")
	require.NoError(t, err)
	_, err = tok.Encode("ab\xffc", Options{})
	assert.EqualError(t, err, "tokenizer: encode: byte 2: found 0xFF, wanted UTF-8")
	far := strings.Repeat("word ", 100) + "\xc3("
	err = tok.EncodeReader(context.Background(), strings.NewReader(far), Options{block: 16}, func([]int32) error { return nil })
	assert.EqualError(t, err, "tokenizer: encode: byte 500: found 0xC3, wanted UTF-8")
	stop := errors.New("stop")
	err = tok.EncodeReader(context.Background(), strings.NewReader(far), Options{block: 16}, func([]int32) error { return stop })
	assert.ErrorIs(t, err, stop)
	err = tok.EncodeReader(context.Background(), io.MultiReader(strings.NewReader("a b"), iotest.ErrReader(stop)), Options{}, func([]int32) error { return nil })
	assert.ErrorIs(t, err, stop)
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(stop)
	err = tok.EncodeReader(ctx, strings.NewReader(far), Options{block: 16}, func([]int32) error { return nil })
	assert.ErrorIs(t, err, stop)
	for _, id := range []int32{-1, 649} {
		_, err = tok.Decode([]int32{1, id}, false)
		assert.ErrorContains(t, err, "wanted 0 to 648")
	}
	_, err = Pattern("gpt3")
	assert.ErrorContains(t, err, `did you mean "gpt2"?`)
	for want, c := range map[string]TrainConfig{
		"found 255 tokens, wanted 256":             {VocabSize: 255},
		"found an empty one":                       {VocabSize: 300, Special: []string{""}},
		`found "a" twice`:                          {VocabSize: 300, Special: []string{"a", "a"}},
		"least frequency: found -1":                {VocabSize: 300, MinFrequency: -1},
		`tokenizer: train: pattern "(":`:           {VocabSize: 300, Pattern: "("},
		"text 1: byte 3: found 0xFF, wanted UTF-8": {VocabSize: 300},
	} {
		_, err := Train(context.Background(), []io.Reader{strings.NewReader("ab\n\xff")}, c)
		assert.ErrorContains(t, err, want)
	}
}

// Settings beside a model say which of its pieces texts make, and add tokens behind them.
func TestPiecesThatTextsMake(t *testing.T) {
	raw, err := os.ReadFile("testdata/spm_bpe/tokenizer.model")
	require.NoError(t, err)
	plain, err := parseModel(raw, &settings{})
	require.NoError(t, err)
	hidden, err := plain.Encode("a</s> b", Options{})
	require.NoError(t, err)
	end, _ := plain.ID("</s>")
	assert.NotContains(t, hidden, end)
	with := func(text string) (*Tokenizer, error) {
		return opened(t, map[string]string{"tokenizer.model": string(raw), configFile: `{"added_tokens_decoder": ` + text + `}`})
	}
	n := plain.VocabSize()
	shown, err := with(fmt.Sprintf(`{"%d": {"content": "</s>", "special": true}, "%d": {"content": "<|x|>", "rstrip": true, "special": true}}`, end, n))
	require.NoError(t, err)
	ids, err := shown.Encode("a</s> b<|x|> c", Options{})
	require.NoError(t, err)
	assert.Contains(t, ids, end)
	assert.Contains(t, ids, int32(n))
	assert.Equal(t, n+1, shown.VocabSize())
	taken, err := shown.Encode("b<|x|>c", Options{})
	require.NoError(t, err)
	spaced, err := shown.Encode("b<|x|>  c", Options{})
	require.NoError(t, err)
	assert.Equal(t, taken, spaced, "it takes the spaces behind it")
	for says, text := range map[string]string{
		`found id 1 for "<|x|>", wanted that of its piece`: `{"1": {"content": "<|x|>"}}`, `found "x" for "<|x|>", wanted the id of a token`: `{"x": {"content": "<|x|>"}}`,
	} {
		_, err := with(text)
		assert.ErrorContains(t, err, says)
	}
}

// A vocabulary may have holes, as o200k has; an id in one decodes to nothing that anybody meant.
func TestHoles(t *testing.T) {
	tok, err := parseJSON([]byte(`{"model": {"type": "BPE", "vocab": {"a": 0, "b": 5}, "merges": []}}`), &settings{})
	require.NoError(t, err)
	assert.Equal(t, 6, tok.VocabSize())
	assert.Equal(t, 4, tok.Unused())
	_, err = tok.Decode([]int32{3}, false)
	assert.ErrorContains(t, err, "found id 3, which no token of the vocabulary has")
}

// What lies beside a tokenizer says how texts end; all of it goes along, byte for byte.
func TestFilesBeside(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/llama3")))
	beside := func(name, text string) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	beside("tokenizer_config.json", `{"eos_token": {"content": "<|end_of_text|>"}, "chat_template": "x"}`)
	beside("generation_config.json", `{"eos_token_id": [648, 645, 99999]}`)
	beside("config.json", `{"eos_token_id": 646}`)
	tok, err := openAt(dir)
	require.NoError(t, err)
	assert.Equal(t, []int32{648, 645, 646}, tok.EndTokens())
	assert.Equal(t, []string{filepath.Join(dir, "tokenizer.json"), filepath.Join(dir, "tokenizer_config.json")}, tok.Files())
	assert.Equal(t, []int32{644, 645, 646, 647, 648}, tok.Special())
	assert.Len(t, tok.Fingerprint(), 64)
	alone, err := openAt(filepath.Join("testdata", "llama3", "tokenizer.json"))
	require.NoError(t, err)
	assert.Equal(t, tok.Fingerprint(), alone.Fingerprint())
	other, err := openAt("testdata/gpt2")
	require.NoError(t, err)
	assert.NotEqual(t, tok.Fingerprint(), other.Fingerprint())
	for name, want := range map[string]string{
		`{"eos_token": 3}`: "tokenizer_config.json: eos_token: found 3", `{`: `tokenizer_config.json": unexpected end`,
	} {
		beside("tokenizer_config.json", name)
		_, err := openAt(dir)
		assert.ErrorContains(t, err, want)
	}
	_, err = openAt(t.TempDir())
	assert.ErrorContains(t, err, "found neither, wanted tokenizer.json or tokenizer.model")
}
