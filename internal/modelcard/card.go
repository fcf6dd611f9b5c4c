// Package modelcard writes the card of a model: what people, and the hub of Hugging Face, know a directory by.
package modelcard

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"gputrain/internal/terminal"
)

// File is the file by which people, and Hugging Face's hub, know what a directory has.
const File = "README.md"

// Relations of a model to its base, as the hub knows them. Weights that are only written in another form have none.
const (
	Adapter  = "adapter"
	Finetune = "finetune" // also with adapters merged into it: what the hub calls a merge is one of several models
)

// License is what the card of a base says of it; its zero value: nothing.
type License struct {
	Names      []string // as the hub has them
	Name, Link string   // of one that the hub has no name for
}

// Card is what File says. What is not known is left out.
type Card struct {
	Title    string
	About    string
	Base     string // the name that the hub has for it, or that of its directory
	Relation string
	License  License // of the base
	Library  string
	Task     string
	Tags     []string
	Rows     []Row
	Settings []Row // values in JSON, on one line
	Use      []Use
}

// Row is a fact.
type Row struct{ Name, Value string }

// Use is how something uses the model: code in a language.
type Use struct{ With, Language, Code string }

// Add adds a row, unless there is nothing to say.
func (c *Card) Add(name, value string) {
	if value != "" {
		c.Rows = append(c.Rows, Row{name, value})
	}
}

// Text is the file. Names of others are in it as text alone: they end no line, no cell and no quotes.
func (c Card) Text() []byte {
	var out bytes.Buffer
	out.WriteString("---\n")
	c.writeFront(&out)
	fmt.Fprintf(&out, "---\n\n# %s\n\n%s\n", plainMarkdown(c.Title), plainMarkdown(c.About))
	if len(c.Rows) > 0 {
		out.WriteString("\n| | |\n|---|---|\n")
	}
	for _, r := range c.Rows {
		fmt.Fprintf(&out, "| %s | %s |\n", plainMarkdown(r.Name), plainMarkdown(r.Value))
	}
	if len(c.Settings) > 0 {
		out.WriteString("\n## Settings\n\nThose that were chosen, and the usual ones.\n\n```yaml\n")
		for _, s := range c.Settings {
			fmt.Fprintf(&out, "%s: %s\n", yamlText(s.Name), terminal.Visible(s.Value))
		}
		out.WriteString("```\n")
	}
	if len(c.Use) > 0 {
		out.WriteString("\n## Use\n\n`DIR` is this directory.\n")
	}
	for _, u := range c.Use {
		fmt.Fprintf(&out, "\nWith %s:\n\n```%s\n%s\n```\n", u.With, u.Language, u.Code)
	}
	return out.Bytes()
}

// writeFront writes the YAML that the hub reads.
func (c Card) writeFront(out *bytes.Buffer) {
	license := ""
	if len(c.License.Names) == 1 {
		license = c.License.Names[0]
	}
	for _, r := range []Row{
		{"base_model", c.Base},
		{"base_model_relation", c.Relation},
		{"license", license},
		{"license_name", c.License.Name},
		{"license_link", c.License.Link},
		{"library_name", c.Library},
		{"pipeline_tag", c.Task},
	} {
		if r.Value != "" {
			fmt.Fprintf(out, "%s: %s\n", r.Name, yamlText(r.Value))
		}
	}
	writeList := func(name string, items []string) {
		fmt.Fprintf(out, "%s:\n", name)
		for _, item := range items {
			fmt.Fprintf(out, "- %s\n", yamlText(item))
		}
	}
	if len(c.License.Names) > 1 {
		writeList("license", c.License.Names)
	}
	if len(c.Tags) > 0 {
		writeList("tags", c.Tags)
	}
}

// bareYAML are texts that are the same without quotes; what starts with a letter is no number.
var bareYAML = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._/-]*$`)

// yamlText is a text as a value of YAML, on one line: in quotes that JSON has too, unless it needs none.
func yamlText(s string) string {
	if bareYAML.MatchString(s) && !slices.Contains([]string{"true", "false", "yes", "no", "on", "off", "null", "y", "n"}, strings.ToLower(s)) {
		return s
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if e.Encode(terminal.Visible(s)) != nil { // which no text makes it do
		return `""`
	}
	return strings.TrimSuffix(out.String(), "\n")
}

// oneLine is a text without what is not seen, and without ends of lines.
func oneLine(s string) string { return strings.Join(strings.Fields(terminal.Visible(s)), " ") }

// plainMarkdown is a text in which nothing is markup. A line within a word is none.
func plainMarkdown(s string) string {
	var out strings.Builder
	line := []rune(oneLine(s))
	word := func(i int) bool {
		return i >= 0 && i < len(line) && (unicode.IsLetter(line[i]) || unicode.IsDigit(line[i]))
	}
	for i, r := range line {
		if strings.ContainsRune("\\`*[]<>|~&", r) || r == '_' && !(word(i-1) && word(i+1)) || r == '#' && i == 0 {
			out.WriteByte('\\')
		}
		out.WriteRune(r)
	}
	return out.String()
}
