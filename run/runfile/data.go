package runfile

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"time"

	"gputrain/internal/formats"
	"gputrain/run/data"
)

// Source is one source of a mixture. A field that is left out has its zero value.
type Source struct {
	Text        []string `yaml:"text" json:"text,omitempty" optional:"true" doc:"files or globs, as data.text"`
	JSONL       []string `yaml:"jsonl" json:"jsonl,omitempty" optional:"true" doc:"files or globs of documents, as data.jsonl; instead of text"`
	Weight      float64  `yaml:"weight" json:"weight" range:">0" doc:"share of the windows, in proportion to the other weights"`
	Field       string   `yaml:"field" json:"field,omitempty" optional:"true" doc:"of jsonl, as data.field"`
	PromptField string   `yaml:"prompt_field" json:"prompt_field,omitempty" optional:"true" doc:"of jsonl, as data.prompt_field"`
	MaskField   string   `yaml:"mask_field" json:"mask_field,omitempty" optional:"true" doc:"of jsonl, as data.mask_field"`
}

// dates are days.
var dates = regexp.MustCompile(`^\d{4}-(0[1-9]|1[0-2])-([0-2]\d|3[01])$`)

func isDate(s string) bool {
	_, err := time.Parse(time.DateOnly, s)
	return err == nil && dates.MatchString(s)
}

// DocumentsTogether is the data.documents of windows whose documents see each other.
const DocumentsTogether = "together"

// KeepsApart tells whether windows are made of documents that do not see each other.
func (c *Config) KeepsApart() bool {
	return c.packsDocuments() && c.Data.Documents != DocumentsTogether && c.Objective().Row().Form == "" || c.Objective().Packed
}

// packsDocuments tells whether windows are made of documents.
func (c *Config) packsDocuments() bool {
	return c.HasDocuments() && c.Data.Layout.Packing != data.PackNone
}

// HasDocuments tells whether documents are among what is read.
func (c *Config) HasDocuments() bool {
	d := c.Data
	return len(d.JSONL) > 0 || slices.ContainsFunc(d.Mixture, func(s Source) bool { return len(s.JSONL) > 0 })
}

// mayTokenize tells whether text may be for a tokenizer: whether model.from has one is seen later.
func (c *Config) mayTokenize() bool {
	return c.Data.Tokens == "tokenizer" || c.Data.Tokens == "auto" && c.Data.Tokenizer+c.Model.From != ""
}

// HoldsOut tells whether a part of the data is held out for validation.
func (c *Config) HoldsOut() bool { return len(c.Data.Held) > 0 || c.Data.Validation > 0 }

// validateData checks what the keys below data say together; each alone is in its range.
func (c *Config) validateData() error {
	d, kept := c.Data, Default().Data
	given := map[string]bool{"data.text": len(d.Text) > 0, "data.jsonl": len(d.JSONL) > 0, "data.mixture": len(d.Mixture) > 0}
	for _, pair := range [][2]string{{"data.text", "data.jsonl"}, {"data.text", "data.mixture"}, {"data.jsonl", "data.mixture"}} {
		if given[pair[0]] && given[pair[1]] {
			return fmt.Errorf("run file: %s and %s: found both, wanted one of them: a mixture has several sources, and %s=[] takes one away",
				c.At(pair[0]), c.At(pair[1]), pair[0])
		}
	}
	if (d.Tokens == "u16" || d.Tokens == "u32") && !given["data.text"] && !given["data.jsonl"] && !given["data.mixture"] {
		return c.Invalid("data.tokens", strconv.Quote(d.Tokens), "bytes, or files in data.text")
	}
	documents := c.HasDocuments()
	for _, only := range []struct {
		key     string
		changed bool
		where   bool
		wanted  string
	}{
		{"data.held", len(d.Held) > 0, given["data.jsonl"], "nothing without data.jsonl"},
		{"data.field", d.Fields.Text != "", given["data.jsonl"], "nothing without data.jsonl; the sources of a mixture have fields of their own"},
		{"data.prompt_field", d.Fields.Prompt != "", given["data.jsonl"], "nothing without data.jsonl; the sources of a mixture have fields of their own"},
		{"data.mask_field", d.Fields.Mask != "", given["data.jsonl"], "nothing without data.jsonl; the sources of a mixture have fields of their own"},
		{"data.format", d.Format != kept.Format, documents, kept.Format + " without documents (data.jsonl)"},
		{"data.roles", len(d.Roles) > 0, documents, "none without documents (data.jsonl)"},
		{"data.learn_last", d.LearnLast, documents, "false without documents (data.jsonl)"},
		{"data.template", d.Template != "", documents, "none without documents (data.jsonl)"},
		{"data.date", d.Date != kept.Date, documents, kept.Date + " without documents (data.jsonl)"},
		{"data.eos", d.Layout.End != nil, documents || c.mayTokenize(), "null without documents (data.jsonl) or a tokenizer"},
		{"data.packing", d.Layout.Packing != kept.Layout.Packing, documents, kept.Layout.Packing + " without documents (data.jsonl)"},
		{"data.documents", d.Documents != kept.Documents, documents, kept.Documents + " without documents (data.jsonl)"},
		{"data.long", d.Layout.Long != kept.Layout.Long, documents, kept.Layout.Long + " without documents (data.jsonl)"},
		{"data.mixture_end", d.MixtureEnd != kept.MixtureEnd, given["data.mixture"], kept.MixtureEnd + " without data.mixture"},
	} {
		if only.changed && !only.where {
			f, _ := find(only.key)
			return c.Invalid(only.key, inline(c.value(f)), only.wanted)
		}
	}
	switch {
	case len(d.Held) > 0 && c.Given("data.validation") && d.Validation > 0:
		return fmt.Errorf("run file: %s and %s: found both, wanted one of them", c.At("data.held"), c.At("data.validation"))
	case len(d.Held) > 0 && c.TeacherIsFile():
		return c.Invalid("data.held", inline(d.Held), "nothing with distil.teacher a file, which has a line for each row of data.jsonl")
	case slices.Contains(formats.Chats, d.Format) && d.Fields.Text+d.Fields.Prompt+d.Fields.Mask != "":
		return c.Invalid("data.format", d.Format, "auto or fields with data.field, data.prompt_field or data.mask_field")
	case d.Layout.Packing == "stream" && d.Layout.Long != kept.Layout.Long:
		return c.Invalid("data.long", d.Layout.Long, kept.Layout.Long+" with data.packing stream, which fills every window")
	case d.Epochs > 0 && given["data.mixture"] && d.MixtureEnd == kept.MixtureEnd:
		return c.Invalid("data.epochs", d.Epochs, "0 with data.mixture_end restart, whose epochs have no end")
	}
	return c.validateSources()
}

func (c *Config) validateSources() error {
	for i, s := range c.Data.Mixture {
		at := fmt.Sprintf("data.mixture[%d]", i)
		switch {
		case (len(s.Text) > 0) == (len(s.JSONL) > 0):
			return c.Invalid(at, fmt.Sprintf("text %s and jsonl %s", inline(s.Text), inline(s.JSONL)), "files in one of them")
		case len(s.JSONL) == 0 && s.Field+s.PromptField+s.MaskField != "":
			return c.Invalid(at, "field, prompt_field or mask_field", "none of them for text")
		case slices.Contains(formats.Chats, c.Data.Format) && s.Field+s.PromptField+s.MaskField != "":
			return c.Invalid(at, "field, prompt_field or mask_field", "none of them with data.format "+c.Data.Format)
		}
	}
	return nil
}
