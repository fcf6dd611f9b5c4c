package chat

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/formats"
	"gputrain/text/chat/template"
)

func row(t *testing.T, s string) *template.Object {
	value, err := template.Decode([]byte(s))
	require.NoError(t, err, s)
	return value.(*template.Object)
}

// shown is a value as a template prints it in JSON.
func shown(t *testing.T, value any) string {
	printer, err := template.Parse("printer", "{{ value | tojson }}")
	require.NoError(t, err)
	o := &template.Object{}
	o.Set("value", value)
	made, err := printer.Render(o, template.Options{})
	require.NoError(t, err)
	return made.Text
}

// assertMessages compares what a row became, in JSON.
func assertMessages(t *testing.T, made *Conversation, messages, variables, train string) {
	t.Helper()
	list := make([]any, len(made.Messages))
	for i, m := range made.Messages {
		list[i] = m
	}
	assert.Equal(t, messages, shown(t, list))
	assert.Equal(t, variables, shown(t, &made.Variables))
	learned, err := json.Marshal(made.Train)
	require.NoError(t, err)
	assert.Equal(t, train, string(learned))
}

// Rows of every form become the same conversations.
func TestRows(t *testing.T) {
	const hi = `[{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}]`
	for _, c := range []struct{ row, format, messages, variables, train string }{
		{`{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}], "text": "x", "prompt": "y"}`, formats.Messages, hi, `{}`, `[null,null]`},
		{`{"messages": "[{\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": \"assistant\", \"content\": \"Yo\"}]"}`, formats.Messages, hi, `{}`, `[null,null]`},
		{`{"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Yo"}], "id": 7}`, formats.Conversations, hi, `{}`, `[null,null]`},
		{`{"conversations": [{"role": "human", "content": "Hi"}, {"role": "model", "content": "Yo"}]}`, formats.Conversations, hi, `{}`, `[null,null]`},
		{
			`{"system": "S", "conversations": [{"from": "user", "value": "Hi", "train": true}, {"from": "bot", "value": "Yo", "train": false}]}`, formats.Conversations,
			`[{"role": "system", "content": "S"}, {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}]`, `{}`, `[null,true,false]`,
		},
		{
			`{"prompt": [{"role": "assistant", "content": "Yo"}], "completion": [{"role": "assistant", "content": "Yo"}]}`, formats.Completion,
			`[{"role": "assistant", "content": "Yo"}, {"role": "assistant", "content": "Yo"}]`, `{}`, `[false,null]`,
		},
		{`{"instruction": "Hi", "input": "", "output": "Yo"}`, formats.Alpaca, hi, `{}`, `[null,null]`},
		{
			`{"instruction": "Add", "input": "1 2", "output": "3", "system": "S"}`, formats.Alpaca,
			`[{"role": "system", "content": "S"}, {"role": "user", "content": "Add\n\n1 2"}, {"role": "assistant", "content": "3"}]`, `{}`, `[null,null,null]`,
		},
		{ // tools and arguments in JSON, columns with null, what goes to the template and what does not
			`{"messages": [{"role": "assistant", "content": null, "name": null, "tool_calls": [{"id": null, "function": {"name": "f", "arguments": "{\"b\": 1, \"a\": null}"}}]}],
			  "tools": "[{\"name\": \"f\"}]", "enable_thinking": false, "date_string": "1 Jan", "id": 3, "chat_template_kwargs": {"x": [1]}}`, formats.Messages,
			`[{"role": "assistant", "content": null, "tool_calls": [{"function": {"name": "f", "arguments": {"b": 1, "a": null}}}]}]`,
			`{"tools": [{"name": "f"}], "enable_thinking": false, "date_string": "1 Jan", "x": [1]}`, `[null]`,
		},
		{
			`{"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}], "tool_calls": []}, {"role": "tool", "content": {"x": 1}}], "tools": []}`, formats.Messages,
			`[{"role": "user", "content": [{"type": "text", "text": "a"}]}, {"role": "tool", "content": {"x": 1}}]`, `{"tools": []}`, `[null,null]`,
		},
	} {
		made, err := FromRow(row(t, c.row), "")
		require.NoError(t, err, c.row)
		assert.Equal(t, c.format, made.Format)
		assertMessages(t, made, c.messages, c.variables, c.train)
	}
	for line, want := range map[string]Conversation{
		`{"prompt": "a ", "completion": "b"}`:        {Format: formats.Completion, Prompt: "a ", Text: "b"},
		`{"text": "a", "prompt": null, "output": 1}`: {Format: formats.Text, Text: "a", Unread: []string{"output"}},
	} {
		made, err := FromRow(row(t, line), "")
		require.NoError(t, err)
		assert.True(t, made.Plain())
		assert.Equal(t, &want, made)
	}
	made, err := FromRow(row(t, `{"messages": [], "text": "a"}`), formats.Text)
	require.NoError(t, err)
	assert.Equal(t, "a", made.Text)
}

func TestRowsThatAreRefused(t *testing.T) {
	for line, says := range map[string]string{
		`{}`:                           "chat: row: found no keys, wanted messages; or conversations; or prompt and completion; or instruction and output; or text",
		`{"question": 1, "answer": 2}`: "found the keys question, answer, wanted messages",
		`{"messages": []}`:             "chat: row: messages: found an empty conversation, wanted messages",
		`{"messages": {}}`:             "messages: found an object, wanted a list of messages",
		`{"messages": "[1"}`:           "messages: ends in the middle of a value",
		`{"messages": ["a"]}`:          "message 0: found a text, wanted an object with role and content",
		`{"messages": [{"role": "user", "content": "a"}, {"content": 1}]}`:                          "message 1: found no role, wanted one of assistant, bot",
		`{"messages": [{"role": "user"}]}`:                                                          "message 0: of user: found no content, wanted a text",
		`{"messages": [{"role": "user", "content": 5}]}`:                                            "message 0: of user: content: found a number, wanted a text or a list of parts",
		`{"messages": [{"role": "asistant", "content": "a"}]}`:                                      `message 0: role: found "asistant", wanted one of assistant, bot, chatgpt, developer, function, function_call, gpt, human, ipython, model, observation, system, tool, user, did you mean "assistant"?`,
		`{"conversations": [{"from": "function_call", "value": "f(x)"}]}`:                           "message 0: of function_call: content: invalid character",
		`{"conversations": [{"from": "function_call", "value": "[1]"}]}`:                            "message 0: of function_call: content: found a list, wanted a call in JSON",
		`{"messages": [{"role": "user", "content": "a", "train": 1}]}`:                              "message 0: train: found a number, wanted true or false",
		`{"messages": [{"role": "assistant", "tool_calls": {}}]}`:                                   "message 0: tool_calls: found an object, wanted a list",
		`{"messages": [{"role": "assistant", "tool_calls": [{"function": {"arguments": "{1"}}]}]}`:  "tool_calls: call 0: function: arguments: invalid character",
		`{"messages": [{"role": "user", "content": "a"}], "tools": 5}`:                              "tools: found a number, wanted a list, or a text with one in JSON",
		`{"messages": [{"role": "user", "content": "a"}], "chat_template_kwargs": {"messages": 1}}`: `chat_template_kwargs: found "messages", which the row itself decides`,
		`{"prompt": "a", "completion": [1]}`:                                                        "prompt, completion: found a text and a list, wanted two texts or two lists of messages",
		`{"prompt": 1, "completion": 2}`:                                                            "prompt: found a number, wanted a text",
		`{"instruction": "a", "output": 1}`:                                                         "output: found a number, wanted a text",
		`{"text": [1]}`:                                                                             "text: found a list, wanted a text",
	} {
		_, err := FromRow(row(t, line), "")
		assert.ErrorContains(t, err, says, line)
	}
	_, err := FromRow(row(t, `{"text": "a"}`), "mesages")
	assert.EqualError(t, err, `chat: format: found "mesages", wanted one of messages, conversations, prompt_completion, alpaca, text, did you mean "messages"?`)
	_, err = FromRow(row(t, `{"text": "a"}`), formats.Alpaca)
	assert.EqualError(t, err, `chat: row: found no "instruction", wanted one, as the format is alpaca`)
}
