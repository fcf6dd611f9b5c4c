// Package modelfile writes the Modelfile by which Ollama runs a model: where it is, its chat template in Ollama's language, what ends an answer, and how text is
// drawn.
//
// A model's own template is a Jinja program, and Ollama's are Go's text/template, so that one cannot be turned into the other. But most programs write each
// message by its role and nothing else. What they write around messages is found by asking the program, and both then write some conversations, which must
// be equal: a template that does more is an error.
package modelfile

import (
	"errors"
	"fmt"
	"io"
	"strings"
	gotemplate "text/template"
	"time"

	"gputrain/text/chat"
	"gputrain/text/chat/template"
)

// Model is what a Modelfile says.
type Model struct {
	From       string         // path of the GGUF file, from the Modelfile's directory, or of a directory that Ollama imports
	Adapter    string         // path of a GGUF file of adapters for it; "" for none
	Template   *chat.Template // nil: none is written
	Begin      string         // the token that Ollama puts before every text by itself; "" for none
	Stops      []string       // texts that end an answer
	Parameters []Parameter    // in their order
}

// Parameter is one of Ollama's: temperature, top_k.
type Parameter struct{ Name, Value string }

// Write writes the file. now is what the template takes for the time; notes are what Ollama will do otherwise than the template.
func Write(w io.Writer, m Model, now time.Time) (notes []string, err error) {
	var b strings.Builder
	fmt.Fprintf(&b, "FROM %s\n", m.From)
	if m.Adapter != "" {
		fmt.Fprintf(&b, "ADAPTER %s\n", m.Adapter)
	}
	if m.Template != nil {
		of := program{m.Template, m.Begin, now}
		text, err := of.translate()
		if err != nil {
			return nil, fmt.Errorf("modelfile: chat template: %w", err)
		}
		later := of
		later.now = now.AddDate(0, 1, 1)
		other, err := later.translate()
		if err != nil || other != text {
			notes = append(notes, "the chat template writes the day's date, the Modelfile always that of today")
		}
		if !strings.Contains(text, ".System }}") {
			notes = append(notes, "the chat template has no place for a system message: Ollama leaves it out")
		}
		fmt.Fprintf(&b, "TEMPLATE \"\"\"%s\"\"\"\n", text)
	}
	for _, s := range m.Stops {
		fmt.Fprintf(&b, "PARAMETER stop %q\n", s)
	}
	for _, p := range m.Parameters {
		fmt.Fprintf(&b, "PARAMETER %s %s\n", p.Name, p.Value)
	}
	_, err = io.WriteString(w, b.String())
	return notes, err
}

// message is one of a conversation, with the fields that Ollama's templates know.
type message struct{ Role, Content string }

// program is a template of Hugging Face's kind.
type program struct {
	of    *chat.Template
	begin string
	now   time.Time
}

// write is what the program makes of a conversation, up to where an answer begins if the user was last.
func (p program) write(messages ...message) (string, error) {
	c := chat.Conversation{}
	for _, m := range messages {
		c.Add(m.Role, m.Content)
	}
	made, err := p.of.Render(c.Messages, &c.Variables, messages[len(messages)-1].Role == "user", p.now)
	if err != nil {
		return "", err
	}
	return strings.TrimPrefix(made.Text, p.begin), nil
}

// around is the text around the contents of messages, which must stand in the text in their order.
func (p program) around(messages ...message) ([]string, error) {
	text, err := p.write(messages...)
	if err != nil {
		return nil, err
	}
	var parts []string
	for _, m := range messages {
		before, after, ok := strings.Cut(text, m.Content)
		if !ok {
			return nil, fmt.Errorf("found no content of the %s's message in its text, wanted all in their order", m.Role)
		}
		parts, text = append(parts, before), after
	}
	return append(parts, text), nil
}

// The messages by which a program is asked.
var (
	system   = message{"system", "Be0brief."}
	question = message{"user", "Why1so?"}
	answer   = message{"assistant", "Because2it."}
	again    = message{"user", "And3then?"}
)

// translate is the program in Ollama's language. The text of the system stands before all messages, or before the last of the user's, as Mistral has it.
func (p program) translate() (string, error) {
	turns, err := p.around(question, answer, again)
	if err != nil {
		return "", err
	}
	instructed, err := p.around(system, question)
	var raised *template.RaisedError
	switch {
	case errors.As(err, &raised): // the model knows none
		text := inOllama(turns, literal(turns[0]), "")
		return text, p.check(text, false)
	case err != nil:
		return "", err
	}
	first := inOllama(turns, fmt.Sprintf("{{ if .System }}%s{{ .System }}%s{{ else }}%s{{ end }}", literal(instructed[0]), literal(instructed[1]), literal(turns[0])), "")
	if err = p.check(first, true); err == nil {
		return first, nil
	}
	if before, ok := strings.CutPrefix(instructed[0], turns[0]); ok {
		last := inOllama(turns, literal(turns[0]), fmt.Sprintf("{{ if $.System }}%s{{ $.System }}%s{{ end }}", literal(before), literal(instructed[1])))
		if p.check(last, true) == nil {
			return last, nil
		}
	}
	return "", err
}

// literal is a text that a template writes as it is.
func literal(s string) string {
	if s == "" {
		return ""
	}
	return fmt.Sprintf("{{ %q }}", s)
}

// inOllama is a template that writes begin, then messages with the text of turns around them, and last before the last of them.
func inOllama(turns []string, begin, last string) string {
	return fmt.Sprintf(`{{- $first := true }}%s
{{- range $i, $_ := .Messages }}
{{- $last := eq (len (slice $.Messages $i)) 1 }}
{{- if eq .Role "user" }}{{ if not $first }}%s{{ end }}{{ $first = false }}{{ if $last }}%s{{ end }}{{ .Content }}{{ if $last }}%s{{ end }}
{{- else if eq .Role "assistant" }}%s{{ .Content }}
{{- end }}
{{- end }}`, begin, literal(turns[2]), last, literal(turns[3]), literal(turns[1]))
}

// check compares what both write of some conversations.
func (p program) check(text string, knowsSystem bool) error {
	to, err := gotemplate.New("TEMPLATE").Parse(text)
	if err != nil {
		return err
	}
	user := func(s string) message { return message{"user", s} }
	model := func(s string) message { return message{"assistant", s} }
	conversations := [][]message{
		{user("Hello")},
		{user("Write {{ .System }} in \"Go\":\n\tx := 1")},
		{user("a"), model("b"), user("c"), model("d\n\ne"), user("f")},
		{system, user("Hello")},
		{system, user("a"), model("{% if %}"), user("<|x|>"), model("naïve 日本"), user("f")},
	}
	for _, c := range conversations {
		if c[0].Role == "system" && !knowsSystem {
			continue
		}
		want, err := p.write(c...)
		if err != nil {
			return err
		}
		values := map[string]any{"Messages": c, "System": "", "Response": ""} // as Ollama gives them
		if c[0].Role == "system" {
			values["System"] = c[0].Content
		}
		var found strings.Builder
		if err := to.Execute(&found, values); err != nil {
			return err
		}
		if found.String() != want {
			return fmt.Errorf("of a conversation of %d messages it writes %.300q, and what Ollama's language can say of it %.300q: it looks at more than roles, so write a Modelfile by hand", len(c), want, found.String())
		}
	}
	return nil
}
