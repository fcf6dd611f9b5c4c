package chat

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"gputrain/internal/formats"
	"gputrain/internal/suggest"
	"gputrain/text/chat/template"
)

// keys are those that a row of a format has.
var keys = map[string][]string{
	formats.Messages: {"messages"}, formats.Conversations: {"conversations"}, formats.Completion: {"prompt", "completion"}, formats.Alpaca: {"instruction", "output"}, formats.Text: {"text"},
}

// Recognize is the format of a row: the first whose keys it has all.
func Recognize(row *template.Object) (string, error) {
	for _, format := range formats.Chats {
		if !slices.ContainsFunc(keys[format], func(key string) bool { return none(row, key) }) {
			return format, nil
		}
	}
	var wanted []string
	for _, format := range formats.Chats {
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
	asked := format != ""
	if !asked {
		var err error
		if format, err = Recognize(row); err != nil {
			return nil, err
		}
	}
	read, ok := readers[format]
	if !ok {
		return nil, fmt.Errorf("chat: format: found %q, wanted one of %s%s", format, strings.Join(formats.Chats, ", "), suggest.DidYouMean(format, formats.Chats))
	}
	c := &Conversation{Format: format}
	for _, key := range keys[format] {
		if none(row, key) {
			return nil, fmt.Errorf("chat: row: found no %q, wanted one, as the format is %s", key, format)
		}
	}
	err := c.look(row, asked)
	if err == nil {
		err = read(c, row)
	}
	if err != nil {
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
	formats.Messages:      listed("messages"),
	formats.Conversations: listed("conversations"),
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

// system reads the system's message where it stands apart, in front of the messages that read reads.
func (c *Conversation) system(row *template.Object, read func() error) error {
	named, content := "", ""
	for _, key := range []string{"system", "system_prompt"} {
		s, err := text(row, key)
		switch {
		case err != nil:
			return err
		case s != "" && content != "" && s != content:
			return fmt.Errorf("%s, %s: found two texts, wanted one", named, key)
		case s != "" && content == "":
			named, content = key, s
		}
	}
	if content != "" {
		c.Add("system", content)
	}
	if err := read(); err != nil || content == "" || len(c.Messages) < 2 {
		return err
	}
	known := named == "system" && (c.Format == formats.Conversations || c.Format == formats.Alpaca) // earlier programs read it
	if c.role(1) == "system" {
		if there, _ := c.Messages[1].Get("content"); there != content {
			return fmt.Errorf("%s: found one besides the system's message that the others begin with, wanted one of them", named)
		}
		c.Messages, c.Train, c.before = c.Messages[1:], c.Train[1:], c.before[1:]
		known = !known
	}
	if !known {
		c.otherwise("%s: it is the system's message", named)
	}
	return nil
}

// listed reads a list of messages under a key.
func listed(key string) func(c *Conversation, row *template.Object) error {
	return func(c *Conversation, row *template.Object) error {
		return c.system(row, func() error { return c.messages(row, key, nil) })
	}
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
		return c.system(row, func() error {
			never := false
			if err := c.messages(row, "prompt", &never); err != nil {
				return err
			}
			return c.messages(row, "completion", nil)
		})
	}
	if c.Prompt, err = text(row, "prompt"); err != nil {
		return err
	}
	c.Text, err = text(row, "completion")
	return err
}

// alpaca reads a task, what it is done with, and its answer.
func (c *Conversation) alpaca(row *template.Object) error {
	var parts [3]string
	for i, key := range []string{"instruction", "input", "output"} {
		var err error
		if parts[i], err = text(row, key); err != nil {
			return err
		}
	}
	task := parts[0]
	if strings.TrimSpace(parts[1]) != "" {
		task += "\n\n" + parts[1]
	}
	return c.system(row, func() error {
		err := c.history(row)
		c.Add("user", task)
		c.Add("assistant", parts[2])
		return err
	})
}

// history reads the earlier turns of a row of alpaca's: pairs of a question and its answer.
func (c *Conversation) history(row *template.Object) error {
	value, _ := row.Get("history")
	if !full(value) {
		return nil
	}
	value, err := parsed(value, "history")
	if err != nil {
		return err
	}
	turns, ok := value.([]any)
	switch {
	case !ok:
		return fmt.Errorf("history: found %s, wanted a list of pairs", template.Kind(value))
	case len(turns) == 0:
		return nil
	}
	for i, turn := range turns {
		pair, _ := turn.([]any)
		if len(pair) != 2 || template.Kind(pair[0]) != "a text" || template.Kind(pair[1]) != "a text" {
			return fmt.Errorf("history: turn %d: found %s, wanted a list of two texts, a question and its answer", i, template.Kind(turn))
		}
		c.Add("user", pair[0].(string))
		c.Add("assistant", pair[1].(string))
	}
	c.otherwise("history: its turns stand in front")
	return nil
}

// passed are the keys of a row that become variables of the template, as programs give them to transformers.
var passed = []string{
	"documents", "enable_thinking", "thinking", "reasoning_effort", "date_string", "builtin_tools", "custom_tools", "tools_in_user_message", "xml_tools",
	"python_tools", "model_identity",
}

// variables are what the template gets of a row besides its messages.
func (c *Conversation) variables(row *template.Object) error {
	if err := c.tools(row); err != nil {
		return err
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

// tools are what a row has as tools, or as functions in the older form.
func (c *Conversation) tools(row *template.Object) error {
	for _, key := range []string{"tools", "functions"} {
		value, _ := row.Get(key)
		if value == nil || key == "functions" && !full(value) {
			continue
		}
		value, err := parsed(value, key)
		if err != nil {
			return err
		}
		list, ok := value.([]any)
		if !ok {
			return fmt.Errorf("%s: found %s, wanted a list, or a text with one in JSON", key, template.Kind(value))
		}
		if key == "functions" {
			if there, _ := c.Variables.Get("tools"); full(there) {
				return errors.New("functions: found tools too, wanted one of them")
			}
			list = wrapped(list)
			c.otherwise("functions: they are tools")
		}
		c.Variables.Set("tools", list)
	}
	return nil
}

// wrapped are functions as tools have them.
func wrapped(functions []any) []any {
	all := make([]any, len(functions))
	for i, one := range functions {
		all[i] = object("type", "function", "function", one)
	}
	return all
}

// parsed is a value, or what a text says in JSON.
func parsed(value any, key string) (any, error) {
	s, ok := value.(string)
	if !ok {
		return value, nil
	}
	value, err := template.Decode([]byte(s))
	if err != nil {
		return nil, fmt.Errorf("%s: %v", key, err) // not %w: no setting of rows reaches what is JSON inside of a text
	}
	return value, nil
}
