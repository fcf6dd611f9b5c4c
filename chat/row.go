package chat

import (
	"fmt"
	"slices"
	"strings"

	"gputrain/chat/formats"
	"gputrain/chat/template"
	"gputrain/internal/suggest"
)

// keys are those that a row of a format has.
var keys = map[string][]string{
	formats.Messages: {"messages"}, formats.Conversations: {"conversations"}, formats.Completion: {"prompt", "completion"}, formats.Alpaca: {"instruction", "output"}, formats.Text: {"text"},
}

// Recognize is the format of a row: the first whose keys it has all.
func Recognize(row *template.Object) (string, error) {
	for _, format := range formats.All {
		if !slices.ContainsFunc(keys[format], func(key string) bool { return none(row, key) }) {
			return format, nil
		}
	}
	var wanted []string
	for _, format := range formats.All {
		wanted = append(wanted, strings.Join(keys[format], " and "))
	}
	found := "no keys"
	if row.Len() > 0 {
		found = "the keys " + strings.Join(row.Keys()[:min(row.Len(), 20)], ", ")
	}
	return "", fmt.Errorf("chat: row: found %s, wanted %s", found, strings.Join(wanted, "; or "))
}

func none(row *template.Object, key string) bool {
	value, ok := row.Get(key)
	return !ok || value == nil
}

// FromRow reads a row in a format; "" is the one that its keys tell.
func FromRow(row *template.Object, format string) (*Conversation, error) {
	if format == "" {
		var err error
		if format, err = Recognize(row); err != nil {
			return nil, err
		}
	}
	read, ok := readers[format]
	if !ok {
		return nil, fmt.Errorf("chat: format: found %q, wanted one of %s%s", format, strings.Join(formats.All, ", "), suggest.DidYouMean(format, formats.All))
	}
	c := &Conversation{Format: format}
	for _, key := range keys[format] {
		if none(row, key) {
			return nil, fmt.Errorf("chat: row: found no %q, wanted one, as the format is %s", key, format)
		}
	}
	if err := read(c, row); err != nil {
		return nil, fmt.Errorf("chat: row: %w", err)
	}
	if c.Plain() {
		return c, nil
	}
	if err := c.variables(row); err != nil {
		return nil, fmt.Errorf("chat: row: %w", err)
	}
	return c, nil
}

var readers = map[string]func(c *Conversation, row *template.Object) error{
	formats.Messages:      func(c *Conversation, row *template.Object) error { return c.messages(row, "messages", nil) },
	formats.Conversations: (*Conversation).shared,
	formats.Completion:    (*Conversation).completion,
	formats.Alpaca:        (*Conversation).alpaca,
	formats.Text: func(c *Conversation, row *template.Object) (err error) {
		c.Text, err = text(row, "text")
		return err
	},
}

// text is a member that has to be a text; "" where it is missing.
func text(row *template.Object, key string) (string, error) {
	value, _ := row.Get(key)
	s, ok := value.(string)
	if !ok && value != nil {
		return "", fmt.Errorf("%s: found %s, wanted a text", key, template.Kind(value))
	}
	return s, nil
}

// shared reads a row of the ShareGPT kind, which may have the system's message apart.
func (c *Conversation) shared(row *template.Object) error {
	system, err := text(row, "system")
	if err != nil {
		return err
	}
	if system != "" {
		c.Add("system", system)
	}
	return c.messages(row, "conversations", nil)
}

// completion reads a prompt and what follows it. Of messages, those of the prompt do not learn.
func (c *Conversation) completion(row *template.Object) (err error) {
	prompt, _ := row.Get("prompt")
	after, _ := row.Get("completion")
	_, listed := prompt.([]any)
	if _, too := after.([]any); listed != too {
		return fmt.Errorf("prompt, completion: found %s and %s, wanted two texts or two lists of messages", template.Kind(prompt), template.Kind(after))
	}
	if listed {
		never := false
		if err := c.messages(row, "prompt", &never); err != nil {
			return err
		}
		return c.messages(row, "completion", nil)
	}
	if c.Prompt, err = text(row, "prompt"); err != nil {
		return err
	}
	c.Text, err = text(row, "completion")
	return err
}

// alpaca reads a task, what it is done with, and its answer.
func (c *Conversation) alpaca(row *template.Object) error {
	var parts [4]string
	for i, key := range []string{"system", "instruction", "input", "output"} {
		var err error
		if parts[i], err = text(row, key); err != nil {
			return err
		}
	}
	if parts[0] != "" {
		c.Add("system", parts[0])
	}
	task := parts[1]
	if strings.TrimSpace(parts[2]) != "" {
		task += "\n\n" + parts[2]
	}
	c.Add("user", task)
	c.Add("assistant", parts[3])
	return nil
}

// passed are the keys of a row that become variables of the template, as programs give them to transformers.
var passed = []string{
	"documents", "enable_thinking", "thinking", "reasoning_effort", "date_string", "builtin_tools", "custom_tools", "tools_in_user_message", "xml_tools",
	"python_tools", "model_identity",
}

// variables are what the template gets of a row besides its messages.
func (c *Conversation) variables(row *template.Object) error {
	if tools, _ := row.Get("tools"); tools != nil {
		tools, err := parsed(tools, "tools")
		if err != nil {
			return err
		}
		if _, ok := tools.([]any); !ok {
			return fmt.Errorf("tools: found %s, wanted a list, or a text with one in JSON", template.Kind(tools))
		}
		c.Variables.Set("tools", tools)
	}
	for _, key := range passed {
		if value, _ := row.Get(key); value != nil {
			c.Variables.Set(key, value)
		}
	}
	more, _ := row.Get("chat_template_kwargs")
	if more == nil {
		return nil
	}
	o, ok := more.(*template.Object)
	if !ok {
		return fmt.Errorf("chat_template_kwargs: found %s, wanted an object", template.Kind(more))
	}
	for _, key := range o.Keys() {
		if key == "messages" || key == "add_generation_prompt" {
			return fmt.Errorf("chat_template_kwargs: found %q, which the row itself decides", key)
		}
		value, _ := o.Get(key)
		c.Variables.Set(key, value)
	}
	return nil
}

// parsed is a value, or what a text says in JSON.
func parsed(value any, key string) (any, error) {
	s, ok := value.(string)
	if !ok {
		return value, nil
	}
	value, err := template.Decode([]byte(s))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	return value, nil
}
