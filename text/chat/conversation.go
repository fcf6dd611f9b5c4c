package chat

import (
	"fmt"

	"gputrain/text/chat/template"
)

// A Conversation is what a row has: messages for a template, or plain text.
type Conversation struct {
	// Format is the name of what the row was read as.
	Format string
	// Messages are those of a conversation in the form that templates know; none for plain text.
	Messages []*template.Object
	// Train says of each message whether it learns, nil where its role decides.
	Train []*bool
	// Variables are what else the template gets, tools among them.
	Variables template.Object
	// Prompt and Text are plain text. The prompt does not learn.
	Prompt, Text string
	// Unread are the keys of the row that nothing reads.
	Unread []string
	// Otherwise says why the row has other tokens than earlier programs made of it; "" where it has the same.
	Otherwise string
	before    []*bool // what earlier programs took for Train
}

// otherwise notes that a row has other tokens than earlier programs made of it. The first reason stands.
func (c *Conversation) otherwise(format string, args ...any) {
	if c.Otherwise == "" {
		c.Otherwise = fmt.Sprintf(format, args...)
	}
}

// Plain says that a row has no messages: no template is needed.
func (c *Conversation) Plain() bool { return c.Messages == nil }

// role of a message.
func (c *Conversation) role(i int) string {
	role, _ := c.Messages[i].Get("role")
	s, _ := role.(string)
	return s
}

// Add adds a message.
func (c *Conversation) Add(role, content string) {
	c.Messages, c.Train, c.before = append(c.Messages, message(role, content)), append(c.Train, nil), append(c.before, nil)
}
