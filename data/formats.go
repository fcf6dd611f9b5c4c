package data

import (
	"encoding/json"
	"slices"

	"gputrain/chat"
	"gputrain/chat/template"
)

// Values of Config.Format.
const (
	FormatAuto   = "auto"
	FormatFields = "fields"
)

// Formats are the values of Config.Format: told by the keys of each row, documents in the fields of [Fields], and those of package chat.
var Formats = slices.Concat([]string{FormatAuto, FormatFields}, chat.Formats)

// OfChats tells whether a format is one of package chat, whose rows name no fields.
func OfChats(format string) bool { return slices.Contains(chat.Formats, format) }

// formatOf is the format of chat that a row is read in; "": it is a document in a field.
func (j *jsonl) formatOf(row map[string]json.RawMessage) string {
	format := j.format
	switch {
	case j.fields != Fields{} || format == FormatFields:
		return ""
	case format == "" || format == FormatAuto:
		var keys template.Object
		for key, value := range row {
			if string(value) != "null" {
				keys.Set(key, true)
			}
		}
		format, _ = chat.Recognize(&keys) // a row that is none of them may have tokens
	}
	if format == chat.Text {
		return ""
	}
	return format
}
