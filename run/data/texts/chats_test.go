package texts

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/hub"
	"gputrain/internal/formats"
	"gputrain/run/data"
	"gputrain/text/chat"
)

// spoken is a template as many models have it; it refuses messages of tools, and tells the date where it is asked to.
const spoken = `{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no tools here') }}{% endif %}` +
	`{{ '<|im_start|>' + m.role + '\n' }}{% if m.content == 'date?' %}{{ strftime_now('%Y') }}{% endif %}` +
	`{% if m.role == 'assistant' %}{% generation %}{{ m.content + '<|im_end|>' }}{% endgeneration %}{% else %}{{ m.content + '<|im_end|>' }}{% endif %}{{ '\n' }}{% endfor %}` +
	`{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`

// chatting is a configuration for conversations with that template and some options.
func chatting(t *testing.T, o chat.Options) Config {
	t.Helper()
	dir := tree(t, map[string]string{"chat_template.jinja": spoken})
	of, err := chat.OpenTemplate(hub.Open(dir), "")
	require.NoError(t, err)
	print, err := chat.Fingerprint(hub.Open(dir), "")
	require.NoError(t, err)
	return Config{Tokens: "tokenizer", Tokenizer: tokenizerOf(t, "qwen2"), Context: 64, Chats: Chats{Template: of, Name: "template of DIR", Fingerprint: print, Options: o}}
}

// A conversation is the tokens of its template, of which only answers are labels, whichever form its row has.
func TestConversations(t *testing.T) {
	ask, answer, more, last := "<|im_start|>user\nHi there<|im_end|>\n<|im_start|>assistant\n", "Good day<|im_end|>", "\n<|im_start|>user\nAnd?<|im_end|>\n<|im_start|>assistant\n", "Bye<|im_end|>"
	both := `[{"role": "user", "content": "Hi there"}, {"role": "assistant", "content": "Good day"}, {"role": "user", "content": "And?"}, {"role": "assistant", "content": "Bye"}]`
	for name, c := range map[string]struct {
		row     string
		options chat.Options
		format  string
		// Parts of the text in turn: what is given, and what is learned.
		parts []string
		form  string
	}{
		"messages":       {`{"messages": ` + both + `}`, chat.Options{}, "", []string{ask, answer, more, last, "\n"}, "messages"},
		"with text too":  {`{"text": "no", "messages": ` + both + `}`, chat.Options{}, "", []string{ask, answer, more, last, "\n"}, "messages"},
		"the last alone": {`{"messages": ` + both + `}`, chat.Options{LastOnly: true}, "", []string{ask + answer + more, last, "\n"}, "messages"},
		"of users":       {`{"messages": ` + both + `}`, chat.Options{Learn: []string{"user"}}, "", []string{"", "<|im_start|>user\nHi there<|im_end|>", "\n<|im_start|>assistant\n" + answer + "\n", "<|im_start|>user\nAnd?<|im_end|>", "\n<|im_start|>assistant\n" + last + "\n"}, "messages"},
		"not to be learned": {
			`{"messages": [{"role": "user", "content": "Hi there"}, {"role": "assistant", "content": "Good day", "train": false}, {"role": "user", "content": "And?"}, {"role": "assistant", "content": "Bye"}]}`,
			chat.Options{},
			"",
			[]string{ask + answer + more, last, "\n"},
			"messages",
		},
		"conversations": {`{"conversations": [{"from": "human", "value": "Hi there"}, {"from": "gpt", "value": "Good day"}]}`, chat.Options{}, "", []string{ask, answer, "\n"}, "conversations"},
		"alpaca":        {`{"instruction": "Hi there", "input": "", "output": "Good day", "messages": null}`, chat.Options{}, "", []string{ask, answer, "\n"}, "alpaca"},
		"completion":    {`{"prompt": "1+1 =", "completion": " two"}`, chat.Options{}, "", []string{"1+1 =", " two<|endoftext|>"}, "prompt_completion"},
		"as they say":   {`{"messages": 7, "instruction": "Hi there", "output": "Good day"}`, chat.Options{}, "alpaca", []string{ask, answer, "\n"}, "alpaca"},
	} {
		config := chatting(t, c.options)
		config.Format = c.format
		corpus, err := lines(t, config, c.row)
		require.NoError(t, err, name)
		var tokens, labels []int32
		for i, part := range c.parts {
			ids := encoded(t, config.Tokenizer, part)
			tokens = append(tokens, ids...)
			if i%2 == 0 {
				ids = slices.Repeat([]int32{data.Ignored}, len(ids))
			}
			labels = append(labels, ids...)
		}
		gotTokens, gotLabels := rows(t, corpus.Train, 64)
		assert.Equal(t, tokens, gotTokens[0][:len(tokens)], name)
		assert.Equal(t, labels[1:], gotLabels[0][:len(tokens)-1], name)
		assert.Equal(t, []string{c.form}, corpus.Tallies[0].Forms, name)
		assert.Contains(t, corpus.Notes[len(corpus.Notes)-1], "template of DIR", name)
	}
}

func TestBadConversations(t *testing.T) {
	good := `{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}` + "\n"
	for want, c := range map[string]struct {
		row    string
		change func(*Config)
	}{
		"line 2: chat: encode: chat/template: chat_template.jinja: line 1: the template refuses the conversation: no tools here": {`{"messages": [{"role": "tool", "content": "b"}]}`, nil},
		`line 2: chat: row: messages: message 0: role: found "asistant", wanted one of`:                                          {`{"messages": [{"role": "asistant", "content": "b"}]}`, nil},
		"line 2: chat: row: messages: found an empty conversation":                                                               {`{"messages": []}`, nil},
		`line 2: found fields ["id"], wanted ["text" "input_ids"], or the keys of a conversation (data.format)`:                  {`{"id": 3}`, nil},
		`line 1: chat: row: found no "instruction", wanted one, as the format is alpaca`:                                         {good, func(c *Config) { c.Format = "alpaca" }},
		`format: "alpacca", want one of`:                                                           {good, func(c *Config) { c.Format = "alpacca" }},
		"line 1: found a conversation (messages), wanted one with a tokenizer":                     {good, func(c *Config) { c.Tokens, c.Tokenizer = "bytes", nil }},
		"line 1: nothing here":                                                                     {good, func(c *Config) { c.Chats.Template, c.Chats.Lacking = nil, assertion("nothing here") }},
		"no document has a label that counts: found 1 documents of which nothing is to be learned": {"", func(c *Config) { c.Chats.Options.Learn = []string{"system"} }},
		"no document has a label that counts: 1 of 1 are longer than a window of 4 tokens":         {"", func(c *Config) { c.Context, c.Layout.Long = 4, data.LongKeepStart }},
		"less than the vocabulary 100 (model.vocab)":                                               {"", func(c *Config) { c.Vocab = 100 }},
	} {
		config := chatting(t, chat.Options{})
		if c.change != nil {
			c.change(&config)
		}
		_, err := lines(t, config, good+strings.TrimPrefix(c.row, good))
		assert.ErrorContains(t, err, want)
	}
}

type assertion string

func (a assertion) Error() string { return string(a) }

// Tokens of conversations are kept by all that they follow from, and the fingerprint changes with that too; where there are none it does not.
func TestConversationsAreKept(t *testing.T) {
	row := `{"messages": [{"role": "user", "content": "date?"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}]}`
	cache := t.TempDir()
	day := time.Date(2024, 7, 26, 0, 0, 0, 0, time.UTC)
	opened := func(text string, change func(*Config)) *Corpus {
		config := chatting(t, chat.Options{Now: day})
		config.Cache = cache
		if change != nil {
			change(&config)
		}
		corpus, err := lines(t, config, text)
		require.NoError(t, err)
		return corpus
	}
	kept := func(c *Corpus) bool { return strings.Contains(c.Notes[0], "as they were kept") }
	first := opened(row, nil)
	assert.False(t, kept(first))
	again := opened(row, nil)
	assert.True(t, kept(again))
	assert.Equal(t, first.Fingerprint, again.Fingerprint)
	assert.Equal(t, first.Tallies[0].Forms, again.Tallies[0].Forms)
	wantTokens, wantLabels := rows(t, first.Train, 64)
	gotTokens, gotLabels := rows(t, again.Train, 64)
	assert.Equal(t, wantTokens, gotTokens)
	assert.Equal(t, wantLabels, gotLabels)
	plain := opened(`{"text": "no chat"}`, nil).Fingerprint
	for name, change := range map[string]func(*Config){
		"roles":    func(c *Config) { c.Chats.Options.Learn = []string{"user"} },
		"last":     func(c *Config) { c.Chats.Options.LastOnly = true },
		"date":     func(c *Config) { c.Chats.Options.Now = day.AddDate(1, 0, 0) },
		"template": func(c *Config) { c.Chats.Fingerprint = "another" },
	} {
		other := opened(row, change)
		assert.False(t, kept(other), name)
		assert.NotEqual(t, first.Fingerprint, other.Fingerprint, name)
		assert.Equal(t, plain, opened(`{"text": "no chat"}`, change).Fingerprint, name)
	}
	files, err := filepath.Glob(filepath.Join(cache, "*.tokens"))
	require.NoError(t, err)
	assert.Len(t, files, 10)
}

// Half of a surrogate pair is no character, wherever a row has it; a whole pair is one, and an escaped backslash before a u
// begins neither. data.invalid replaces it but in JSON inside of a text.
func TestHalvesOfSurrogatePairs(t *testing.T) {
	const other = `{"role": "assistant", "content": "b"}`
	const both = `{"messages": [{"role": "user", "content": "a"}, ` + other + `]`
	const call = `{"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "tool_calls": [{"function": {"name": "f", `
	for row, nested := range map[string]bool{
		`{"messages": [{"role": "user", "content": "aX"}, ` + other + `]}`:                                                                false,
		`{"conversations": [{"from": "human", "value": "aX"}, {"from": "gpt", "value": "b"}]}`:                                            false,
		`{"instruction": "a", "output": "bX"}`:                                                                                            false,
		`{"prompt": "aX", "completion": "b"}`:                                                                                             false,
		`{"prompt": "a", "chosen": "bX", "rejected": "c"}`:                                                                                false,
		`{"prompt": [{"role": "user", "content": "a"}], "chosen": [` + other + `], "rejected": [{"role": "assistant", "content": "Xc"}]}`: false,
		both + `, "tools": [{"type": "function", "function": {"name": "fX"}}]}`:                                                           false,
		both + `, "chat_template_kwargs": {"xX": 1}}`:                                                                                     false,
		`{"text": "aX"}`: false,
		both + `, "tools": "[{\"type\": \"function\", \"function\": {\"name\": \"f\X\"}}]"}`: true,
		call + `"arguments": "{\"k\": \"\X\"}"}}]}]}`:                                        true,
	} {
		open := func(escapes, invalid string) error {
			config := chatting(t, chat.Options{})
			config.Invalid = invalid
			if strings.Contains(row, "chosen") {
				config.Format = formats.Pairs
			}
			_, err := lines(t, config, strings.ReplaceAll(row, "X", escapes))
			return err
		}
		bad := map[string]string{`\ud83d`: `\ud83d`, `\uDE00x`: `\uDE00`, `\ud83d\u0041`: `\ud83d`, `\ude00\ud83d`: `\ude00`, `\ud83d\\ude00`: `\ud83d`}
		good := []string{`\ud83d\ude00`, `\\ud83d`, `\ufffd`, `\\\\ud83d`, `\u0041\n`}
		if nested { // each backslash stands for itself there
			bad, good = map[string]string{`\ud83d`: `\ud83d`}, []string{`\ud83d\\ude00`, `\ufffd`}
		}
		for escapes, named := range bad {
			want := "half of a surrogate pair (" + named + "), which is no character"
			if !nested {
				want += ": data.invalid=replace puts U+FFFD in its place"
				assert.NoError(t, open(escapes, invalidReplace), row)
			}
			assert.ErrorContains(t, open(escapes, ""), want, row)
		}
		for _, escapes := range good {
			assert.NoError(t, open(escapes, ""), "%s in %s", escapes, row)
		}
	}
}
