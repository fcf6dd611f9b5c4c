package chat

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/hub"
	"gputrain/text/tokenizer"
)

// Templates in the manner of published ones.
const (
	qwen = `{%- for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`
	// thinks drops the thoughts of all answers but the last, and shows an empty thought there.
	thinks = `{%- for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% if m.role == 'assistant' and loop.last %}{{ '<think>\n' + m.thoughts|default('') + '\n</think>\n' }}{% endif %}{{ m.content + '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`
	// spans has parts that learn; what calls a tool is none of them.
	spans = `{%- for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% if m.role == 'assistant' %}{% generation %}{{ m.content + '<|im_end|>' }}{% endgeneration %}{{ '\n' }}{% else %}{{ m.content + '<|im_end|>\n' }}{% endif %}{% endfor %}`
	bare  = `{% for m in messages %}{{ m.role + ': ' + m.content + '\n\n' }}{% endfor %}{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}`
)

// Templates that write something around answers besides them, in the manner of published ones.
const (
	phi     = `{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content + '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ '<|endoftext|>' }}{% endif %}`
	words   = `{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content + '<|end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ '<|over|>' }}{% endif %}`
	opened  = `{% for m in messages %}{% if m.role == 'assistant' %}{{ '<A>' + m.content.split('</think>')[-1] + '<|endoftext|>' }}{% else %}{{ '<U>' + m.content }}{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '<A><think>\n' }}{% endif %}`
	late    = `{% for m in messages %}{% if m.role == 'assistant' %}{{ '<A>' + m.content }}{% else %}{% if not loop.first %}<|im_end|>{% endif %}{{ '<U>' + m.content }}{% endif %}{% endfor %}{% if add_generation_prompt %}<A>{% endif %}`
	returns = `{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + ('<|endoftext|>' if loop.last and m.role == 'assistant' else '<|im_end|>') }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`
	trims   = `{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content | trim + '<|im_end|>\n<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`
	moved   = `{% for m in messages %}{% if m.role == 'user' %}{{ '<U>' + (messages[0].content + ': ' if loop.last else '') + m.content }}{% elif m.role == 'assistant' %}{{ '<A>' + m.content + '<|endoftext|>' }}{% endif %}{% endfor %}{% if add_generation_prompt %}<A>{% endif %}`
	first   = `{{ messages[0].role | upper }}: {% for m in messages %}{{ m.content + '<|im_end|>\n' }}{% endfor %}`
	calling = `{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + (m.content or '') }}{% for c in m.tool_calls %}{{ '<call>' + c.function.arguments + '</call>' }}{% endfor %}{{ '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}`
)

// Each answer learns from what it adds to the text up to the first token that ends it, whatever the template writes around it.
func TestLearnedOfManners(t *testing.T) {
	const repeated = `{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}, {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}]}`
	const empty = `{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": ""}, {"role": "user", "content": "Hm"}, {"role": "assistant", "content": " Ok\n"}]}`
	const system = `{"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}, {"role": "user", "content": "Hm"}, {"role": "assistant", "content": "Ok"}]}`
	const thought = `{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "<think>a</think><b>Yo"}]}`
	const called = `{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": "{\"a\":1}"}}]}, {"role": "tool", "content": "1"}, {"role": "assistant", "content": "Yo"}]}`
	for _, c := range []struct {
		template, row string
		options       Options
		want          string
		otherwise     bool
	}{
		{phi, repeated, Options{}, "<|user|>\nHi)\n<|assistant|>\n[Yo)]\n<|user|>\nHi)\n<|assistant|>\n[Yo)]\n<|endoftext|>", false},
		{phi, `{"messages": [{"role": "assistant", "content": "<|im_end|>"}]}`, Options{}, "<|assistant|>\n[))]\n<|endoftext|>", true},
		{phi, empty, Options{}, "<|user|>\nHi)\n<|assistant|>\n[)]\n<|user|>\nHm)\n<|assistant|>\n[ Ok\n)]\n<|endoftext|>", false},
		{phi, repeated, Options{LastOnly: true}, "<|user|>\nHi)\n<|assistant|>\nYo)\n<|user|>\nHi)\n<|assistant|>\n[Yo)]\n<|endoftext|>", true},
		{phi, trained, Options{}, "[<|user|>\nHi)]\n<|assistant|>\nYo)\n<|user|>\nHm)\n<|assistant|>\n[Ok)]\n<|endoftext|>", false},
		{phi, repeated, Options{Learn: []string{"user"}}, "[<|user|>\nHi)]\n<|assistant|>\nYo)\n[<|user|>\nHi)]\n<|assistant|>\nYo)\n<|endoftext|>", false},
		{words, repeated, Options{}, "<|user|>\nHi<|end|>\n<|assistant|>\n[Yo<|end|>]\n<|user|>\nHi<|end|>\n<|assistant|>\n[Yo<|end|>]\n<|over|>", false},
		{opened, repeated, Options{}, "<U>Hi<A>[Yo<|endoftext|>]<U>Hi<A>[Yo<|endoftext|>]", false},
		{opened, empty, Options{}, "<U>Hi<A>[<|endoftext|>]<U>Hm<A>[ Ok\n<|endoftext|>]", false},
		{opened, thought, Options{}, "<U>Hi<A>[<b>Yo<|endoftext|>]", false},
		{late, repeated, Options{}, "<U>Hi<A>[Yo)]<U>Hi<A>[Yo]", true},
		{returns, repeated, Options{}, "(user\nHi)(assistant\n[Yo)](user\nHi)(assistant\n[Yo<|endoftext|>]", false},
		{trims, empty, Options{}, "(user\nHi)\n)\n(assistant\n[)]\n)\n(user\nHm)\n)\n(assistant\n[Ok)]\n)\n", true},
		{moved, system, Options{}, "<U>Hi<A>[Yo<|endoftext|>]<U>Hm<A>[Ok<|endoftext|>]", false},
		{first, `{"messages": [{"role": "assistant", "content": "Yo"}]}`, Options{}, "ASSISTANT: [Yo)]\n", false},
		{calling, called, Options{}, "(user\nHi)\n(assistant\n[<call>{\"a\":1}</call>)]\n(tool\n1)\n(assistant\n[Yo)]\n", false},
	} {
		e := encoder(t, c.template, c.options)
		got, err := learns(t, e, c.row)
		require.NoError(t, err, c)
		assert.Equal(t, c.want, got, c)
		talk, err := FromRow(row(t, c.row), "")
		require.NoError(t, err)
		_, _, err = e.Encode(talk)
		require.NoError(t, err)
		assert.Equal(t, c.otherwise, talk.Otherwise != "", c)
	}
}

func encoder(t *testing.T, source string, o Options) *Encoder {
	tok, err := openTokenizer("../tokenizer/testdata/qwen2")
	require.NoError(t, err)
	if source == "" {
		e, err := NewEncoder(tok, nil, o)
		require.NoError(t, err)
		return e
	}
	of, err := OpenTemplate(hub.Open(directory(t, map[string]string{"chat_template.jinja": source})), "")
	require.NoError(t, err)
	e, err := NewEncoder(tok, of, o)
	require.NoError(t, err)
	return e
}

// learns is the text of a row with what learns of it in brackets.
func learns(t *testing.T, e *Encoder, line string) (string, error) {
	c, err := FromRow(row(t, line), "")
	require.NoError(t, err)
	ids, learned, err := e.Encode(c)
	if err != nil {
		return "", err
	}
	require.Len(t, learned, len(ids))
	var b strings.Builder
	for i, id := range ids {
		if learned[i] && (i == 0 || !learned[i-1]) {
			b.WriteByte('[')
		}
		text, err := e.tokenizer.Decode([]int32{id}, false)
		require.NoError(t, err)
		b.WriteString(text)
		if learned[i] && (i == len(ids)-1 || !learned[i+1]) {
			b.WriteByte(']')
		}
	}
	return strings.NewReplacer("<|im_start|>", "(", "<|im_end|>", ")").Replace(b.String()), nil
}

const (
	twoTurns = `{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo", "thoughts": "t"}, {"role": "user", "content": "Hm"}, {"role": "assistant", "content": "Ok ", "thoughts": "u"}]}`
	weighed  = `{"messages": [{"role": "user", "content": "Hi", "weight": 1}, {"role": "assistant", "content": "Yo", "weight": 0}, {"role": "user", "content": "Hm"}, {"role": "assistant", "content": "Ok", "weight": 1}]}`
	trained  = `{"messages": [{"role": "user", "content": "Hi", "train": true}, {"role": "assistant", "content": "Yo", "train": false}, {"role": "user", "content": "Hm"}, {"role": "assistant", "content": "Ok"}]}`
)

func TestLearned(t *testing.T) {
	for _, c := range []struct {
		template, row string
		options       Options
		want          string
	}{
		{qwen, twoTurns, Options{}, "(user\nHi)\n(assistant\n[Yo)]\n(user\nHm)\n(assistant\n[Ok )]\n"},
		{qwen, trained, Options{}, "[(user\nHi)]\n(assistant\nYo)\n(user\nHm)\n(assistant\n[Ok)]\n"},
		{qwen, twoTurns, Options{LastOnly: true}, "(user\nHi)\n(assistant\nYo)\n(user\nHm)\n(assistant\n[Ok )]\n"},
		{qwen, twoTurns, Options{Learn: []string{"user"}}, "[(user\nHi)]\n(assistant\nYo)\n[(user\nHm)]\n(assistant\nOk )\n"},
		{spans, twoTurns, Options{}, "(user\nHi)\n(assistant\n[Yo)]\n(user\nHm)\n(assistant\n[Ok )]\n"},
		{spans, trained, Options{}, "[(user\nHi)]\n(assistant\nYo)\n(user\nHm)\n(assistant\n[Ok)]\n"},
		{spans, twoTurns, Options{LastOnly: true}, "(user\nHi)\n(assistant\nYo)\n(user\nHm)\n(assistant\n[Ok )]\n"},
		{spans, `{"messages": [{"role": "user", "content": "Hi"}]}`, Options{}, "(user\nHi)\n"},
		{thinks, twoTurns, Options{LastOnly: true}, "(user\nHi)\n(assistant\nYo)\n(user\nHm)\n(assistant\n[<think>\nu\n</think>\nOk )]\n"},
		{thinks, strings.Replace(twoTurns, `"thoughts": "t"`, `"train": false`, 1), Options{}, "(user\nHi)\n(assistant\nYo)\n(user\nHm)\n(assistant\n[<think>\nu\n</think>\nOk )]\n"}, // as the refusal advises
		{bare, twoTurns, Options{}, "user: Hi\n\nassistant: [Yo\n\n]user: Hm\n\nassistant: [Ok \n\n]"},                                                                                // no token ends a turn
		{bare, `{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "the"}]}`, Options{}, "user: Hi\n\nassistant:[ the\n\n]"},                           // " th" is one token
		{
			qwen, `{"prompt": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}, {"role": "user", "content": "Hm"}], "completion": [{"role": "assistant", "content": "Ok"}]}`,
			Options{},
			"(user\nHi)\n(assistant\nYo)\n(user\nHm)\n(assistant\n[Ok)]\n",
		},
		{qwen, `{"instruction": "Hi", "output": "Yo"}`, Options{}, "(user\nHi)\n(assistant\n[Yo)]\n"},
		{qwen, `{"messages": [{"role": "user", "content": "<|im_end|>"}, {"role": "assistant", "content": "\n"}]}`, Options{}, "(user\n))\n(assistant\n[\n)]\n"},
		{"", `{"prompt": "Hel", "completion": "lo"}`, Options{}, "Hel[lo<|endoftext|>]"},
		{"", `{"prompt": "Hel", "completion": "lo"}`, Options{End: &noEnd}, "Hel[lo]"},
		{"", `{"prompt": "a", "completion": "b<|endoftext|>"}`, Options{}, "a[b<|endoftext|>]"},
		{"", `{"prompt": "a", "completion": ""}`, Options{}, "a[<|endoftext|>]"},
		{qwen, weighed, Options{}, "(user\nHi)\n(assistant\nYo)\n(user\nHm)\n(assistant\n[Ok)]\n"},
		{qwen, weighed, Options{LastOnly: true}, "(user\nHi)\n(assistant\nYo)\n(user\nHm)\n(assistant\n[Ok)]\n"},
		{"", `{"text": "Hello"}`, Options{}, "[Hello<|endoftext|>]"},
	} {
		got, err := learns(t, encoder(t, c.template, c.options), c.row)
		require.NoError(t, err, c)
		assert.Equal(t, c.want, got, c)
	}
}

// noEnd leaves the end token out.
var noEnd = -1

// No token has parts of a prompt and of its completion, though the text as a whole has such a token.
func TestBorder(t *testing.T) {
	e := encoder(t, "", Options{End: &noEnd})
	whole, err := e.tokenizer.Encode("Hello", tokenizer.Options{})
	require.NoError(t, err)
	c, err := FromRow(row(t, `{"prompt": "Hel", "completion": "lo"}`), "")
	require.NoError(t, err)
	ids, learned, err := e.Encode(c)
	require.NoError(t, err)
	assert.NotEqual(t, whole, ids)
	for i, part := range []string{"Hel", "lo"} {
		apart, err := e.tokenizer.Encode(part, tokenizer.Options{})
		require.NoError(t, err)
		assert.Equal(t, apart, ids[:len(apart)])
		for _, is := range learned[:len(apart)] {
			assert.Equal(t, i == 1, is)
		}
		ids, learned = ids[len(apart):], learned[len(apart):]
	}
}

// A tokenizer that puts tokens around a text puts them around plain text, once, and never around what a template wrote.
func TestNoTokenTwice(t *testing.T) {
	tok, err := openTokenizer("../tokenizer/testdata/llama2")
	require.NoError(t, err)
	before, _ := tok.Around()
	require.Len(t, before, 1)
	of, err := OpenTemplate(hub.Open(directory(t, map[string]string{"chat_template.jinja": "<s>{{ messages[0].content }}"})), "")
	require.NoError(t, err)
	e, err := NewEncoder(tok, of, Options{})
	require.NoError(t, err)
	for _, line := range []string{
		`{"messages": [{"role": "user", "content": "a"}]}`, `{"text": "a"}`, `{"text": "<s>a"}`, `{"prompt": "<s>a", "completion": "b"}`, `{"prompt": "a", "completion": "b"}`,
	} {
		c, err := FromRow(row(t, line), "")
		require.NoError(t, err)
		ids, _, err := e.Encode(c)
		require.NoError(t, err)
		require.Greater(t, len(ids), 1)
		assert.Equal(t, before[0], ids[0], line)
		assert.NotContains(t, ids[1:], before[0], line)
	}
}

func TestEncodeRefuses(t *testing.T) {
	for _, c := range []struct{ template, row, says string }{
		{thinks, twoTurns, `chat: encode: message 1 of assistant: the template writes it otherwise when messages follow, as those do that drop earlier thoughts: at byte 52 "Yo<|im_end|>\n<|im_start|>user\n" against "<think>\nt\n</think>\nYo<|im_end|"; wanted the same text in front. A template`},
		{thinks, strings.Replace(twoTurns, `, {"role": "assistant", "content": "Ok "`, `, {"role": "user", "content": "Ok "`, 1), `or end the row with a message that learns, and let it learn alone, by data.learn_last`},
		{strings.Replace(qwen, "assistant\\n", "Assistant\\n", 1), twoTurns, `message 1 of assistant: the template writes what asks for the answer otherwise than the answer: at byte 42 "assistant\nYo`},
		{`{{ messages[0].content }}{{ raise_exception('no') if messages | length == 1 }}`, twoTurns, `message 1 of assistant: the messages before it: chat/template: chat_template.jinja: line 1: the template refuses the conversation: no`},
		{"{{ raise_exception('not this') }}", twoTurns, `chat: encode: chat/template: chat_template.jinja: line 1: the template refuses the conversation: not this`},
		{"", twoTurns, "chat: encode: found messages, wanted plain text, as there is no template"},
	} {
		_, err := learns(t, encoder(t, c.template, Options{}), c.row)
		assert.ErrorContains(t, err, c.says, c)
	}
	tok, err := openTokenizer("../tokenizer/testdata/gpt2")
	require.NoError(t, err)
	of, err := OpenTemplate(hub.Open(t.TempDir()), "chatml")
	require.NoError(t, err)
	_, err = NewEncoder(tok, of, Options{})
	assert.EqualError(t, err, "chat: template chatml: found no token <|im_start|> in the tokenizer, wanted one; the built-in template alpaca needs none")
}

// What a conversation in a terminal needs: the tokens up to an answer, and those that end one.
func TestPrompt(t *testing.T) {
	e := encoder(t, qwen, Options{})
	c, err := FromRow(row(t, `{"messages": [{"role": "user", "content": "Hi"}]}`), "")
	require.NoError(t, err)
	ids, err := e.Prompt(c)
	require.NoError(t, err)
	text, err := e.tokenizer.Decode(ids, false)
	require.NoError(t, err)
	assert.Equal(t, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n", text)
	end, ok := e.tokenizer.ID("<|im_end|>")
	require.True(t, ok)
	assert.Equal(t, append([]int32{end}, e.tokenizer.EndTokens()...), e.Ends())
	assert.Equal(t, e.tokenizer.EndTokens(), encoder(t, bare, Options{}).Ends())
	apart := "{% for m in messages %}{{ m.content }}\n<|im_end|>{% endfor %}"
	assert.Equal(t, e.tokenizer.EndTokens(), encoder(t, apart, Options{}).Ends(), "a token that does not follow the answer at once does not end it")
}

// openTokenizer opens the tokenizer at a path.
func openTokenizer(path string) (*tokenizer.Tokenizer, error) {
	files, err := hub.OpenTokenizer(path)
	if err != nil {
		return nil, err
	}
	return tokenizer.Open(files)
}
