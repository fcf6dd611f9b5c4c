package texts

import (
	"encoding/json"

	"gputrain/internal/formats"
	"gputrain/run/data"
	"gputrain/text/chat"
	"gputrain/text/chat/template"
)

// formatOf is the format of chat that a row is read in; "": it is a document in a field.
func (j *jsonl) formatOf(row map[string]json.RawMessage) string {
	format := j.format
	switch {
	case j.fields != data.Fields{} || format == data.FormatFields:
		return ""
	case format == "" || format == data.FormatAuto:
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
