package data

import "fmt"

// Fields names what the rows of a file have: of a document, what stands before it, of the same form, and what is to be predicted, a list as long as that
// of the tokens. The tags are those of package run/runfile.
type Fields struct {
	Text   string `yaml:"field" doc:"jsonl: field with the document, text or a list of tokens; empty: text, or input_ids if a row has no text"`
	Prompt string `yaml:"prompt_field" doc:"jsonl: field with a prompt, which precedes the document and is not predicted; empty: none"`
	Mask   string `yaml:"mask_field" doc:"jsonl: field with a list of 1 for tokens to predict and 0 for the others; empty: none"`
}

// Validate refuses a field for two things.
func (f Fields) Validate() error {
	text := f.Documents()[0]
	switch {
	case f.Prompt == text:
		return fmt.Errorf("field, prompt_field: both are %q, want a field for each", text)
	case f.Mask == text, f.Mask != "" && f.Mask == f.Prompt:
		return fmt.Errorf("mask_field: %q is the field of text too, want one of its own", f.Mask)
	}
	return nil
}

// Documents are the fields that may have a document, of which the first that a row has counts.
func (f Fields) Documents() []string {
	if f.Text != "" {
		return []string{f.Text}
	}
	return []string{"text", "input_ids"}
}
