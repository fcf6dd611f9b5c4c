package chat

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Keys beside messages, and in them, that change what is seen or learned: each is followed, and the row says where earlier programs took no notice.
func TestKeys(t *testing.T) {
	const (
		hi     = `{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}`
		system = `{"role": "system", "content": "S"}, `
		tools  = `{"tools": [{"type": "function", "function": {"name": "f"}}]}`
	)
	for _, c := range []struct{ row, messages, variables, train, unread, otherwise string }{
		{`{"system": "S", "messages": [` + hi + `]}`, system + hi, `{}`, `[null,null,null]`, `null`, "system: it is the system's message"},
		{`{"system": "", "messages": [` + hi + `], "images": [], "label": null, "weight": 1}`, hi, `{}`, `[null,null]`, `["images","weight"]`, ""},
		{`{"system": "S", "messages": [` + system + hi + `]}`, system + hi, `{}`, `[null,null,null]`, `null`, ""},
		{`{"system": "S", "conversations": [` + hi + `]}`, system + hi, `{}`, `[null,null,null]`, `null`, ""},
		{`{"system": "S", "conversations": [` + system + hi + `]}`, system + hi, `{}`, `[null,null,null]`, `null`, "system: it is the system's message"},
		{
			`{"system_prompt": "S", "prompt": [{"role": "user", "content": "Hi", "weight": 1}], "completion": [{"role": "assistant", "content": "Yo", "weight": 0.0}], "id": 3}`,
			system + hi, `{}`, `[null,false,false]`, `["id"]`, "system_prompt: it is the system's message",
		},
		{
			`{"system": "S", "instruction": "Q", "output": "A", "history": [["Hi", "Yo"]]}`, system + hi + `, {"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}`,
			`{}`, `[null,null,null,null,null]`, `null`, "history: its turns stand in front",
		},
		{`{"instruction": "Hi", "output": "Yo", "history": [["", ""]]}`, hi, `{}`, `[null,null]`, `null`, ""},
		{`{"messages": [` + hi + `], "functions": [{"name": "f"}]}`, hi, tools, `[null,null]`, `null`, "functions: they are tools"},
		{`{"messages": [{"role": "user", "content": "Hi", "weight": 0}, {"role": "assistant", "content": "Yo", "loss": false, "train": null}]}`, hi, `{}`, `[false,false]`, `null`, ""},
		{`{"messages": [{"role": "user", "content": "Hi", "weight": 1}, {"role": "assistant", "content": "Yo", "train": true, "loss_weight": 1}]}`, hi, `{}`, `[null,true]`, `null`, ""},
	} {
		made, err := FromRow(row(t, c.row), "")
		require.NoError(t, err, c.row)
		assertMessages(t, made, "["+c.messages+"]", c.variables, c.train)
		unread, err := json.Marshal(made.Unread)
		require.NoError(t, err)
		assert.Equal(t, c.unread, string(unread), c.row)
		assert.Equal(t, c.otherwise, made.Otherwise, c.row)
	}
}

func TestKeysThatAreRefused(t *testing.T) {
	hi := func(more string) string {
		return `{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"}]` + more + `}`
	}
	message := func(more string) string {
		return `{"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo"` + more + `}]}`
	}
	for line, says := range map[string]string{
		`{"prompt": "a", "completion": "b", "system": "S"}`:                 `chat: row: system: found "S": no template writes it beside texts; wanted prompt and completion as lists of messages`,
		`{"prompt": "a", "completion": "b", "tools": [{"name": "f"}]}`:      "tools: found a list: no template writes it beside texts",
		`{"prompt": "a", "completion": "b", "label": false}`:                "label: found false: it tells completions that are good from those that are bad (KTO)",
		`{"prompt": "a", "completion": "b", "history": [["a", "b"]]}`:       "history: found a list: earlier turns are read beside instruction and output",
		`{"instruction": "a", "output": "b", "history": ["a"]}`:             "history: turn 0: found a text, wanted a list of two texts",
		`{"text": "a", "rejected": "b"}`:                                    `rejected: found "b": it is a row of preferences`,
		hi(`, "kto_tag": true`):                                             "kto_tag: found true",
		hi(`, "system": "S", "system_prompt": "T"`):                         "system, system_prompt: found two texts, wanted one",
		hi(`, "system": 3`):                                                 "system: found a number, wanted a text",
		hi(`, "images": [{"bytes": null}, {"bytes": "x"}]`):                 "images: found a list: models see text alone here",
		hi(`, "weight": 0.5`):                                               "weight: found 0.5: rows count alike; wanted 1",
		hi(`, "train": false`):                                              "train: found false: wanted rows that are to be learned alone",
		hi(`, "mask": [1, 0]`):                                              `mask: found a list: wanted "train" or "weight" of messages`,
		hi(`, "functions": [{"name": "f"}], "tools": [{"name": "f"}]`):      "functions: found tools too, wanted one of them",
		`{"system": "S", "messages": [{"role": "system", "content": "T"}]}`: "system: found one besides the system's message that the others begin with",
		message(`, "weight": 0.3`):                                          "message 1: weight: found 0.3, wanted 0 or 1",
		message(`, "weight": 0, "train": true`):                             "message 1: train, weight: found true and 0, wanted one answer",
		message(`, "train_detail": [{"begin_offset": 0}]`):                  `message 1: train_detail: found a list: wanted "train" of the whole message`,
		message(`, "audio": {"id": "x"}`):                                   "message 1: audio: found an object: models see text alone here",
	} {
		_, err := FromRow(row(t, line), "")
		assert.ErrorContains(t, err, says, line)
	}
	_, err := FromRow(row(t, hi(`, "chosen": [1], "rejected": [2]`)), "messages")
	assert.NoError(t, err, "the format is asked for")
}

// Rows of tokens have masks beside them, which package run/data/texts follows; those of several texts are refused.
func TestDocument(t *testing.T) {
	for _, c := range []struct {
		row            string
		tokens, asked  bool
		unread, refuse string
	}{
		{`{"input_ids": [1, 2], "labels": [1, 2], "attention_mask": [1, 1], "position_ids": [0, 1], "seq_lengths": [2], "source": "x"}`, true, false, "position_ids seq_lengths source", ""},
		{`{"text": "a", "labels": ["x"], "label": true, "input_ids": [1], "train": null}`, false, false, "labels label input_ids", ""},
		{`{"text": "a", "image": {"bytes": "x"}}`, false, true, "image", ""},
		{`{"text": "a", "image": {"bytes": "x"}}`, false, false, "", "chat: row: image: found an object: models see text alone here"},
		{`{"text": "a", "mask": [1]}`, false, false, "", "mask: found a list: wanted it beside tokens"},
		{`{"input_ids": [1, 2], "position_ids": [0, 0]}`, true, true, "", "position_ids: found a list: the row has several texts"},
		{`{"input_ids": [1, 2], "seq_lengths": [1, 1]}`, true, false, "", "seq_lengths: found a list: the row has several texts"},
	} {
		o := row(t, c.row)
		unread, err := Document(o.Keys()[1:], func(key string) (any, error) { v, _ := o.Get(key); return v, nil }, c.tokens, c.asked)
		if c.refuse != "" {
			assert.ErrorContains(t, err, c.refuse, c.row)
			continue
		}
		require.NoError(t, err, c.row)
		assert.Equal(t, strings.Fields(c.unread), unread, c.row)
	}
}

// The page has every key that there is a rule of.
func TestKeysAreOnThePage(t *testing.T) {
	page, err := os.ReadFile("../../docs/chats.md")
	require.NoError(t, err)
	for key := range byKey {
		assert.True(t, strings.Contains(string(page), "`"+key+"`"), key)
	}
}
