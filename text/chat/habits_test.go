package chat

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Templates that read parts of a content, the older form of a call, or the role function themselves get them as they are; for others they become text, a call
// of tools, and the role tool. The row then says that its tokens are others than before.
func TestHabits(t *testing.T) {
	const (
		parts = `{% for m in messages %}{{ m.role }}:{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}<{% if p.type == 'text' %}{{ p.text }}{% endif %}>{% endfor %}{% endif %};{% endfor %}`
		// ofUsers reads those of users alone, and wants an answer behind each question.
		ofUsers = `{% if messages[-1].role != 'assistant' %}{{ raise_exception('no answer') }}{% endif %}{% for m in messages %}{{ m.role }}:` +
			`{% if m.role == 'user' and m.content is not string %}{% for p in m.content %}<{{ p.text }}>{% endfor %}{% else %}{{ m.content }}{% endif %};{% endfor %}`
		trim  = `{% for m in messages %}{{ m.role + ':' + m.content | trim + ';' }}{% endfor %}`
		plain = `{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}`
		calls = `{% for m in messages %}{% if m.tool_calls %}{{ m.tool_calls[0].function.name + '=' + m.tool_calls[0].function.arguments.x }}{% elif m.role in ['user', 'tool'] %}{{ m.role + ':' + m.content }}{% endif %};{% endfor %}`
		older = `{% for m in messages %}{{ m.role }}:{% if m.function_call is defined %}{{ m.function_call.name }}{% endif %}{{ m.content or '' }};{% endfor %}`

		whole = `{% for m in messages %}{{ m.role }}:{% if m.content is mapping and 'parts' in m.content %}{{ m.content.parts | join('+') }}{% else %}{{ m.content }}{% endif %};{% endfor %}`

		asked  = `{"messages": [{"role": "user", "content": [{"type": "text", "text": "he"}, {"type": "text", "text": "llo"}]}, {"role": "assistant", "content": [{"type": "text", "text": "yo"}]}]}`
		typed  = `{"messages": [{"role": "user", "content": ["he", {"text": "llo", "image": null}]}, {"role": "assistant", "content": "yo"}]}`
		called = `{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{\"x\": \"1\"}"}}, {"role": "function", "name": "f", "content": "r"}]}`
	)
	for _, c := range []struct{ template, row, want, otherwise string }{
		{parts, asked, "user:<he><llo>;assistant:<yo>;", ""},
		{parts, typed, "user:hello;assistant:yo;", "message 0: content: its parts are one text"},
		{ofUsers, asked, "user:<he><llo>;assistant:yo;", "message 1: content: its parts are one text"},
		{trim, asked, "user:hello;assistant:yo;", "message 0: content: its parts are one text"},
		{plain, asked, "user:hello;assistant:yo;", "message 0: content: its parts are one text"},
		{plain, `{"messages": [{"role": "user", "content": []}]}`, "user:;", "message 0: content: its parts are one text"},
		{whole, `{"messages": [{"role": "user", "content": {"parts": ["a", "b"]}}, {"role": "assistant", "content": "yo"}]}`, "user:a+b;assistant:yo;", ""},
		{plain, `{"messages": [{"role": "tool", "content": {"x": 1}}]}`, "tool:{'x': 1};", ""},
		{calls, called, "user:q;f=1;tool:r;", "message 1: function_call: it is one of tool_calls"},
		{
			calls, `{"conversations": [{"from": "human", "value": "q"}, {"from": "function_call", "value": "{\"name\": \"f\", \"arguments\": {\"x\": \"1\"}}"}, {"from": "observation", "value": "r"}]}`,
			"user:q;f=1;tool:r;", "message 1: function_call: it is one of tool_calls",
		},
		{older, called, "user:q;assistant:f;function:r;", ""},
	} {
		e := encoder(t, c.template, Options{Learn: []string{}})
		made, err := FromRow(row(t, c.row), "")
		require.NoError(t, err, c.row)
		ids, _, err := e.Encode(made)
		require.NoError(t, err, c.row)
		text, err := e.tokenizer.Decode(ids, false)
		require.NoError(t, err)
		assert.Equal(t, c.want, text)
		assert.Equal(t, c.otherwise, made.Otherwise, c.want)
	}
	e := encoder(t, plain, Options{Learn: []string{}})
	lost, err := FromRow(row(t, called), "")
	require.NoError(t, err)
	_, _, err = e.Encode(lost)
	require.ErrorContains(t, err, "message 1 of assistant: tool_calls: found calls and no content, wanted a template that writes calls")
	for content, says := range map[string]string{
		`{"parts": ["a"]}`: "message 0 of user: content: found an object, wanted a text or a list of parts, as the template reads no objects",
		`[{"type": "image_url", "image_url": {"url": "x"}}]`:               `message 0 of user: content: part 0: found type "image_url", wanted text`,
		`[{"type": "text", "text": "a"}, {"type": "audio", "audio": "x"}]`: `content: part 1: found type "audio", wanted text`,
		`[{"text": "a", "image": "x"}]`:                                    "part 0: found image, wanted text",
		`[{"type": "text", "text": 1}]`:                                    "part 0: text: found a number, wanted a text",
		`[1]`:                                                              "part 0: found a number, wanted a text, or an object",
		`[{"type": "thinking", "thinking": "t"}]`:                          "part 0: found thinking, wanted text, as the template reads no such part",
	} {
		made, err := FromRow(row(t, `{"messages": [{"role": "user", "content": `+content+`}]}`), "")
		require.NoError(t, err)
		_, _, err = e.Encode(made)
		assert.ErrorContains(t, err, says, content)
	}
}

// Keys of messages, and variables, that the text of a template does not mention are told: nothing reads them.
func TestKeysThatATemplateDoesNotMention(t *testing.T) {
	e := encoder(t, `{% if enable_thinking %}!{% endif %}{% for m in messages %}{{ m.reasoning_content }}{{ m.content }}{% endfor %}`, Options{})
	made, err := FromRow(row(t, `{"messages": [{"role": "user", "content": "q", "name": "n", "reasoning_content": "r"}], "enable_thinking": true, "tools": [{"name": "f"}], "id": 1}`), "")
	require.NoError(t, err)
	_, _, err = e.Encode(made)
	require.NoError(t, err)
	assert.Equal(t, []string{"id", "messages.name", "tools"}, made.Unread)
}
