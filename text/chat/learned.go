package chat

import (
	"errors"
	"fmt"
	"slices"

	"gputrain/text/chat/template"
)

// A learned is what learns of a text, in characters.
type learned struct {
	parts [][2]int
	// earlier is what earlier programs took for it; nil where they refused the row.
	earlier [][2]int
}

// learners are the messages that learn, as train and their roles say, and whether these are all answers and nothing else.
func (e *Encoder) learners(c *Conversation, train []*bool) (learn []int, usual bool) {
	usual = true
	for i := range c.Messages {
		is := slices.Contains(e.options.Learn, c.role(i))
		if train[i] != nil {
			is = *train[i]
		}
		if is {
			learn = append(learn, i)
		}
		usual = usual && is == (c.role(i) == "assistant")
	}
	if e.options.LastOnly && len(learn) > 1 {
		return learn[len(learn)-1:], false
	}
	return learn, usual
}

// learns is what learns of the text of a conversation.
func (e *Encoder) learns(c *Conversation, whole *template.Rendering) (*learned, error) {
	learn, usual := e.learners(c, c.Train)
	if len(c.before) == len(c.Train) {
		if before, _ := e.learners(c, c.before); !slices.Equal(learn, before) {
			c.otherwise("weight: messages of weight 0 are not learned")
		}
	}
	of, err := e.template.choose(&c.Variables)
	if err != nil {
		return nil, err
	}
	if of.Generates() && usual {
		return &learned{whole.Generated, whole.Generated}, nil
	}
	all, refused := &learned{earlier: [][2]int{}}, false
	for _, i := range learn {
		marked := of.Generates() && c.role(i) == "assistant"
		t, err := e.turn(c, i, whole.Text)
		if err != nil && marked {
			if alone, ok := c.generated(i, whole); ok {
				t, err = turn{part: alone}, nil
			}
		}
		if parts := (*parted)(nil); errors.As(err, &parts) {
			err = fmt.Errorf("%w; wanted the same text in front. %s", err, wayOut(c, learn))
		}
		if err != nil {
			return nil, fmt.Errorf("message %d of %s: %w", i, c.role(i), err)
		}
		refused = refused || t.earlier == nil
		for _, one := range []struct {
			list *[][2]int
			part *[2]int
		}{{&all.parts, &t.part}, {&all.earlier, t.earlier}} {
			switch {
			case one.part == nil:
			case marked:
				*one.list = append(*one.list, within(*one.part, whole.Generated)...)
			default:
				*one.list = append(*one.list, *one.part)
			}
		}
	}
	if refused {
		all.earlier = nil
	}
	return all, nil
}

// generated is what the template marks of an answer, if it marks one part of each.
func (c *Conversation) generated(i int, whole *template.Rendering) ([2]int, bool) {
	answers, at := 0, 0
	for j := range c.Messages {
		if c.role(j) == "assistant" {
			answers++
		}
		if j == i {
			at = answers - 1
		}
	}
	if answers != len(whole.Generated) {
		return [2]int{}, false
	}
	return whole.Generated[at], true
}

// within are the pieces of some parts that lie in one.
func within(part [2]int, of [][2]int) (pieces [][2]int) {
	for _, g := range of {
		if both := [2]int{max(g[0], part[0]), min(g[1], part[1])}; both[0] < both[1] {
			pieces = append(pieces, both)
		}
	}
	return pieces
}

// wayOut is what helps where it cannot be told from the text what learns of it.
func wayOut(c *Conversation, learn []int) string {
	const generation = "A template with {% generation %} tells what learns; or "
	if learn[len(learn)-1] == len(c.Messages)-1 {
		return generation + "let the last message learn alone, by data.learn_last or \"train\": false on those before it"
	}
	return generation + "end the row with a message that learns, and let it learn alone, by data.learn_last or \"train\": false on those before it"
}
