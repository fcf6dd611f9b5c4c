package chat

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"

	"gputrain/chat/template"
)

// parts are what learns of a text, in characters.
func (e *Encoder) parts(c *Conversation, whole *template.Rendering) ([][2]int, error) {
	learn := e.learning(c, c.Train)
	usual := true
	for i := range c.Messages {
		usual = usual && slices.Contains(learn, i) == (c.role(i) == "assistant")
	}
	if len(c.before) == len(c.Train) && !slices.Equal(learn, e.learning(c, c.before)) {
		c.otherwise("weight: messages of weight 0 are not learned")
	}
	of, err := e.template.choose(&c.Variables)
	if err != nil {
		return nil, err
	}
	if of.Generates() && usual {
		return whole.Generated, nil
	}
	var parts [][2]int
	for _, i := range learn {
		part, err := e.turn(c, i, whole.Text)
		if err != nil {
			return nil, fmt.Errorf("message %d of %s: %w", i, c.role(i), err)
		}
		if of.Generates() && c.role(i) == "assistant" {
			for _, g := range whole.Generated {
				if both := [2]int{max(g[0], part[0]), min(g[1], part[1])}; both[0] < both[1] {
					parts = append(parts, both)
				}
			}
			continue
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// ErrRewritten is what Encode says of an answer that the template writes otherwise where messages follow, so that it cannot be told from the text what
// of it learns. The last answer of a conversation can be told (Options.LastOnly).
var ErrRewritten = errors.New("the template writes it otherwise when messages follow, as those do that drop earlier thoughts")

// turn is the part of the text that a message adds: after what stands before it, which for an answer is what asks for
// it, up to the token that ends it.
func (e *Encoder) turn(c *Conversation, i int, whole string) ([2]int, error) {
	before, err := e.render(c, i, c.role(i) == "assistant")
	if err != nil {
		return [2]int{}, fmt.Errorf("the messages before it: %w", err)
	}
	with, err := e.render(c, i+1, false)
	if err != nil {
		return [2]int{}, fmt.Errorf("the messages up to it: %w", err)
	}
	const wayOut = "; wanted the same text in front. A template with {% generation %} tells what learns; or let the last message learn " +
		"alone, by data.learn_last or \"train\": false on those before it"
	if !strings.HasPrefix(with.Text, before.Text) {
		return [2]int{}, fmt.Errorf("the template writes what asks for the answer otherwise than the answer%s%s", differ(with.Text, before.Text), wayOut)
	}
	if !strings.HasPrefix(whole, with.Text) {
		return [2]int{}, fmt.Errorf("%w%s%s", ErrRewritten, differ(whole, with.Text), wayOut)
	}
	begin := characters(before.Text)
	return [2]int{begin, begin + characters(e.ended(with.Text[len(before.Text):]))}, nil
}

// ended leaves out space after the token that ends a turn: the model is stopped there, and never writes it.
func (e *Encoder) ended(turn string) string {
	trimmed := strings.TrimRightFunc(turn, unicode.IsSpace)
	for _, token := range e.special {
		if strings.HasSuffix(trimmed, token) {
			return trimmed
		}
	}
	return turn
}

// learning are the messages that learn, as train and their roles say.
func (e *Encoder) learning(c *Conversation, train []*bool) (learn []int) {
	for i := range c.Messages {
		is := slices.Contains(e.options.Learn, c.role(i))
		if train[i] != nil {
			is = *train[i]
		}
		if is {
			learn = append(learn, i)
		}
	}
	if e.options.LastOnly && len(learn) > 1 {
		learn = learn[len(learn)-1:]
	}
	return learn
}

// differ shows where two texts part.
func differ(found, wanted string) string {
	at := 0
	for at < min(len(found), len(wanted)) && found[at] == wanted[at] {
		at++
	}
	show := func(s string) string {
		s = s[at:]
		return fmt.Sprintf("%q", strings.ToValidUTF8(s[:min(len(s), 30)], ""))
	}
	return fmt.Sprintf(": at byte %d %s against %s", at, show(found), show(wanted))
}
