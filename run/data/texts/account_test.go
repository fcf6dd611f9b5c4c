package texts

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/run/data"
	"gputrain/text/chat"
)

// A row that has other tokens than earlier programs made of it gives its corpus another fingerprint, beside the earlier one: that of the same row where these
// took no notice, as the fingerprint is of the file and not of the tokens. It is told by file, row and reason, also from the cache and in a mixture.
func TestRowsReadOtherwise(t *testing.T) {
	cache := t.TempDir()
	for _, c := range []struct{ name, row, why string }{
		{"the same", `{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}], "id": 1}`, ""},
		{"weight 1", `{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "weight": 1}]}`, ""},
		{"weight 0", `{"messages": [{"role": "assistant", "content": "a", "weight": 0}, {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}`, "weight: messages of weight 0 are not learned"},
		{"system", `{"system": "s", "messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}`, "system: it is the system's message"},
		{"labels that change nothing", `{"input_ids": [1, 2, 3], "labels": [-100, 2, 3], "attention_mask": [1, 1, 1]}`, ""},
		{"labels", `{"input_ids": [1, 2, 3], "labels": [-100, -100, 3]}`, followed},
		{"padding", `{"input_ids": [1, 2, 3], "attention_mask": [1, 1, 0]}`, followed},
		{"text", `{"text": "a b"}`, ""},
		{"text with its end", `{"text": "a b<|endoftext|>"}`, "what stands around a text is there already"},
		{"prompt with its end", `{"prompt": "a", "completion": "b<|endoftext|>"}`, ""}, // it stood there once
	} {
		config := chatting(t, chat.Options{})
		config.Vocab = 1000
		path := filepath.Join(tree(t, map[string]string{"a.jsonl": `{"text": "c d"}` + "\n" + c.row}), "a.jsonl")
		config.JSONL = []string{path}
		first := open(t, config)
		assert.Equal(t, c.why != "", first.Earlier != data.Earlier{}, c.name)
		if c.why == "" {
			continue
		}
		assert.Equal(t, `jsonl "`+path+`": line 2: `+c.why, first.Earlier.Why)
		assert.NotEqual(t, first.Fingerprint, first.Earlier.Fingerprint)
		if c.name != "labels" {
			continue
		}
		config.Cache = cache
		for range 2 {
			again := open(t, config)
			assert.Equal(t, first.Fingerprint, again.Fingerprint, c.name)
			assert.Equal(t, first.Earlier, again.Earlier, c.name)
		}
		mixed := config
		mixed.JSONL, mixed.Mixture = nil, []Part{{JSONL: config.JSONL, Weight: 1}, {JSONL: config.JSONL, Weight: 2}}
		both := open(t, mixed)
		assert.Equal(t, first.Earlier.Why, both.Earlier.Why)
		assert.NotEqual(t, both.Fingerprint, both.Earlier.Fingerprint)
	}
}

// Before a text and behind it stands what the tokenizer has for that, once, whether the row has it or not.
func TestAroundTextsOnce(t *testing.T) {
	const x = data.Ignored
	for _, c := range []struct {
		row    string
		fields data.Fields
		end    *int
		tokens []int32
		labels []int32
	}{
		{`{"text": "a"}`, data.Fields{}, nil, []int32{1, 352, 2}, []int32{352, 2, x}},
		{`{"text": "<s>a"}`, data.Fields{}, nil, []int32{1, 352, 2}, []int32{352, 2, x}},
		{`{"text": "<s>a</s>"}`, data.Fields{}, nil, []int32{1, 352, 2}, []int32{352, 2, x}},
		{`{"text": "a</s>"}`, data.Fields{}, nil, []int32{1, 352, 2}, []int32{352, 2, x}},
		{`{"text": ""}`, data.Fields{}, nil, []int32{1, 2}, []int32{2, x}},
		{`{"q": "<s>a", "a": "b</s>"}`, data.Fields{Text: "a", Prompt: "q"}, nil, []int32{1, 352, 374, 2}, []int32{x, 374, 2, x}},
		{`{"q": "a</s>", "a": ""}`, data.Fields{Text: "a", Prompt: "q"}, nil, []int32{1, 352, 2, 2}, []int32{x, x, x, x}},
		{`{"text": "a<unk>"}`, data.Fields{}, new(int), []int32{1, 352, 0}, []int32{352, 0, x}}, // data.eos 0
		{`{"prompt": "<s>a", "completion": "b<unk>"}`, data.Fields{}, new(int), []int32{1, 352, 374, 0}, []int32{x, 374, 0, x}},
	} {
		config := Config{Tokens: "tokenizer", Tokenizer: tokenizerOf(t, "llama2"), Fields: c.fields, Layout: data.Layout{End: c.end}, Context: len(c.tokens)}
		corpus, err := lines(t, config, `{"text": "c", "q": "d", "a": "e"}`+"\n"+c.row)
		require.NoError(t, err, c.row)
		shown, err := corpus.Show(2, 64)
		require.NoError(t, err)
		assert.Equal(t, c.tokens, shown[1].Tokens, c.row)
		for i, learned := range shown[1].Learned[1:] {
			assert.Equal(t, c.labels[i] != x, learned, c.row)
		}
	}
}

// Keys that nothing reads are told, a few of them, as a terminal may have them.
func TestUnreadKeys(t *testing.T) {
	var all strings.Builder
	for _, key := range "hijklmnop" {
		all.WriteString(`{"text": "ab", "` + string(key) + `": 1, "null": null}` + "\n")
	}
	corpus, err := lines(t, Config{Context: 4}, all.String()+`{"text": "ab", "a\u001b]0;`+strings.Repeat("x", 100)+`": 1}`)
	require.NoError(t, err)
	assert.Regexp(t, `, not read: h, i, j, k, l, m, n, o and 2 more$`, corpus.Tallies[0].String())
	corpus, err = lines(t, Config{Context: 4}, `{"text": "ab", "a\u001b": 1, "`+strings.Repeat("x", 100)+`": 1}`)
	require.NoError(t, err)
	assert.Regexp(t, `, not read: "a\\x1b", x{40}\.\.\.$`, corpus.Tallies[0].String())
}
