package texts

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"gputrain/internal/formats"
	"gputrain/run/data"
	"gputrain/text/chat"
	"gputrain/text/chat/template"
)

// Chats says how rows that are conversations become tokens.
type Chats struct {
	// Template writes messages; nil: there is none, for the reason Lacking.
	Template *chat.Template
	Lacking  error
	// Name is what the template is called in messages.
	Name string
	// Fingerprint changes with the template.
	Fingerprint string
	Options     chat.Options
}

// how is what the tokens of conversations follow from, besides the tokenizer.
func (c Chats) how() string {
	return fmt.Sprintf("template %s learn %q last %v date %s", c.Fingerprint, c.Options.Learn, c.Options.LastOnly, c.Options.Now.UTC().Format("2006-01-02T15:04:05"))
}

// conversation is what one row says that is a conversation.
func (j *jsonl) conversation(line []byte, format string) (d document, err error) {
	if j.chats == nil {
		return d, fmt.Errorf("found a conversation (%s), wanted one with a tokenizer: data.tokenizer, or a directory in model.from that has one; data.format=fields reads documents", format)
	}
	row, err := template.Decode(line)
	if err != nil {
		return d, err
	}
	object, ok := row.(*template.Object)
	if !ok {
		return d, errors.New("found no object, wanted one")
	}
	c, err := chat.FromRow(object, format)
	if err != nil {
		return d, err
	}
	if !c.Plain() && j.lacking != nil {
		return d, j.lacking
	}
	ids, learned, err := j.chats.Encode(c)
	if err != nil {
		return d, err
	}
	for i, id := range ids {
		if int(id) >= j.ofText {
			return d, fmt.Errorf("token %d: is %d, want less than the vocabulary %d (model.vocab)", i, id, j.ofText)
		}
		token := uint32(id)
		if !learned[i] {
			token |= unlabelled
		}
		d.tokens = append(d.tokens, token)
	}
	d.form, d.masked, d.otherwise, d.unread = formOf(format), slices.Contains(learned, false), c.Otherwise, c.Unread
	if j.group.windows() && c.Variables.Len() > 0 && d.otherwise == "" {
		d.otherwise = c.Variables.Keys()[0] + ": templates have it also in " + j.group.name + "s"
	}
	return d, nil
}

// formatOf is the format of chat that a row is read in; "": it is a document in a field.
func (j *jsonl) formatOf(row map[string]json.RawMessage) string {
	format := j.format
	switch {
	case j.fields != data.Fields{} || format == formats.Fields:
		return ""
	case format == "" || format == formats.Auto:
		var keys template.Object
		for key, value := range row {
			if string(value) != "null" {
				keys.Set(key, true)
			}
		}
		format, _ = chat.Recognize(&keys) // a row that is none of them may have tokens
	}
	if format == formats.Text {
		return ""
	}
	return format
}
