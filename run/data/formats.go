package data

import (
	"cmp"
	"fmt"
	"slices"

	"gputrain/internal/formats"
)

// Names of the formats of rows that name their fields, or are told by their keys.
const (
	FormatAuto   = "auto"
	FormatFields = "fields"
)

// FormatPairs is the format of rows with two completions of one prompt, of which the first is preferred: "prompt", "chosen" and "rejected". Each of
// them is text, a list of messages or a list of tokens. A row becomes two windows, one behind the other in every batch of an even number: the prompt
// with the chosen completion, and with the rejected one. Labels are those of the completions.
const FormatPairs = "pairs"

// Formats are what the rows of a file may be: told by the keys of each row, documents in the fields of [Fields], and those of conversations.
var Formats = slices.Concat([]string{FormatAuto, FormatFields}, formats.All)

// OfChats tells whether a format is one of conversations, whose rows name no fields.
func OfChats(format string) bool { return slices.Contains(formats.All, format) }

// Fields names what the rows of a file have: of a document, what stands before it, of the same form, and what is to be predicted, a list as long as that
// of the tokens. The tags are those of package run/runfile.
type Fields struct {
	Text   string `yaml:"field" doc:"jsonl: field with the document, text or a list of tokens; empty: text, or input_ids if a row has no text"`
	Prompt string `yaml:"prompt_field" doc:"jsonl: field with a prompt, which precedes the document and is not predicted; empty: none"`
	Mask   string `yaml:"mask_field" doc:"jsonl: field with a list of 1 for tokens to predict and 0 for the others; empty: none"`
}

// Validate refuses a field for two things.
func (f Fields) Validate() error {
	text := cmp.Or(f.Text, DefaultFields[0])
	switch {
	case f.Prompt == text:
		return fmt.Errorf("field, prompt_field: both are %q, want a field for each", text)
	case f.Mask == text, f.Mask != "" && f.Mask == f.Prompt:
		return fmt.Errorf("mask_field: %q is the field of text too, want one of its own", f.Mask)
	}
	return nil
}

// DefaultFields have the document where no field is named, the first that a line has.
var DefaultFields = []string{"text", "input_ids"}
