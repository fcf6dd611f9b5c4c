package chat

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"gputrain/text/chat/template"
	"gputrain/text/tokenizer"
)

// Options say what of a conversation learns.
type Options struct {
	// Learn are the roles whose messages learn: nil is the assistant alone.
	Learn []string
	// LastOnly leaves all but the last message that would learn out.
	LastOnly bool
	// Now is what a template takes for the time, so that the same rows give the same tokens on any day. Zero is the time of the call.
	Now time.Time
	// End stands behind plain text in place of what the tokenizer has for that; nil: that, below 0: nothing.
	End *int
}

// An Encoder makes tokens of conversations. It is safe for several goroutines at once.
type Encoder struct {
	tokenizer *tokenizer.Tokenizer
	template  *Template
	options   Options
	special   []string // texts of special tokens
	habits    *habits  // of the template
	closings  struct {
		sync.Mutex
		of map[*template.Template]*closing
	}
}

// NewEncoder joins a tokenizer and a template, which may be nil where all rows are plain text.
func NewEncoder(t *tokenizer.Tokenizer, of *Template, o Options) (*Encoder, error) {
	if o.Learn == nil {
		o.Learn = []string{"assistant"}
	}
	e := &Encoder{tokenizer: t, template: of, options: o}
	e.habits = &habits{encoder: e}
	for _, id := range t.Special() {
		token, err := t.Token(id)
		if err != nil {
			return nil, fmt.Errorf("chat: %w", err)
		}
		e.special = append(e.special, token)
	}
	if of != nil && of.builtin {
		for _, token := range needed[of.name] {
			if _, ok := t.ID(token); !ok {
				return nil, fmt.Errorf("chat: template %s: found no token %s in the tokenizer, wanted one; the built-in template alpaca needs none", of.name, token)
			}
		}
	}
	return e, nil
}

// Encode is the tokens of a conversation, and which of them learn.
func (e *Encoder) Encode(c *Conversation) (tokens []int32, learned []bool, err error) {
	if c.Plain() {
		tokens, learned, err = e.plain(c)
	} else {
		tokens, learned, err = e.messages(c)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("chat: encode: %w", err)
	}
	return tokens, learned, nil
}

// plain encodes a prompt and what follows it apart. The tokenizer's own tokens stand around both.
func (e *Encoder) plain(c *Conversation) (tokens []int32, learned []bool, err error) {
	before, behind := e.tokenizer.Around()
	add := func(learns bool, ids ...int32) {
		tokens = append(tokens, ids...)
		learned = append(learned, slices.Repeat([]bool{learns}, len(ids))...)
	}
	prompt, err := e.tokenizer.Encode(c.Prompt, tokenizer.Options{})
	if err != nil {
		return nil, nil, err
	}
	text, err := e.tokenizer.Encode(c.Text, tokenizer.Options{})
	if err != nil {
		return nil, nil, err
	}
	end, ok := e.tokenizer.EndOfText()
	always := true // earlier programs added it, there or not
	switch own := e.options.End; {
	case own != nil && *own < 0:
		behind = nil
	case own != nil:
		behind = []int32{int32(*own)}
	case len(behind) > 0:
	case !ok:
		return nil, nil, errors.New("the tokenizer has no end-of-text token, wanted one (eos_token in tokenizer_config.json)")
	default:
		behind, always = []int32{end}, false
	}
	front, _ := Around(append(slices.Clone(prompt), text...), before, nil)
	_, back := Around(text, nil, behind)
	if n := len(front); n > 0 && n < len(before) || always && len(back) < len(behind) {
		c.otherwise("what stands around a text is there already")
	}
	add(false, front...)
	add(false, prompt...)
	add(true, text...)
	add(true, back...)
	return tokens, learned, nil
}

// messages encodes the text of a template, once.
func (e *Encoder) messages(c *Conversation) ([]int32, []bool, error) {
	if err := e.adapt(c); err != nil {
		return nil, nil, err
	}
	whole, err := e.render(c, len(c.Messages), false)
	if err != nil {
		return nil, nil, err
	}
	of, err := e.template.choose(&c.Variables)
	if err != nil {
		return nil, nil, err
	}
	earlier, err := of.RenderEarlier(e.template.given(c.Messages, &c.Variables, false), e.template.options(e.options.Now))
	if err == nil && earlier != nil && earlier.Text != whole.Text {
		c.otherwise("the template now writes it byte for byte as Jinja2 does (arguments of calls that are texts, or what safe marks)")
	}
	learns, err := e.learns(c, whole)
	if err != nil {
		return nil, nil, err
	}
	ids, spans, err := e.tokenizer.EncodeSpans(whole.Text, tokenizer.Options{})
	if err != nil {
		return nil, nil, err
	}
	learned := overlapping(spans, learns.parts)
	if learns.earlier != nil && !slices.Equal(learned, overlapping(spans, learns.earlier)) {
		c.otherwise("what the template writes behind the end of an answer no longer learns")
	}
	return ids, learned, nil
}

// overlapping says of each token whether it overlaps one of some parts of the text, which are in order.
func overlapping(spans []tokenizer.Span, parts [][2]int) []bool {
	learned := make([]bool, len(spans))
	for i, s := range spans {
		for _, p := range parts {
			if s.Start < p[1] && s.End > p[0] {
				learned[i] = true
			}
		}
	}
	return learned
}

// render is the text of the first n messages.
func (e *Encoder) render(c *Conversation, n int, generation bool) (*template.Rendering, error) {
	if e.template == nil {
		return nil, errors.New("found messages, wanted plain text, as there is no template")
	}
	return e.template.Render(c.Messages[:n], &c.Variables, generation, e.options.Now)
}

// Prompt is the tokens of a conversation up to where the next answer begins.
func (e *Encoder) Prompt(c *Conversation) ([]int32, error) {
	err := e.adapt(c)
	var made *template.Rendering
	if err == nil {
		made, err = e.render(c, len(c.Messages), true)
	}
	if err != nil {
		return nil, fmt.Errorf("chat: prompt: %w", err)
	}
	ids, err := e.tokenizer.Encode(made.Text, tokenizer.Options{})
	if err != nil {
		return nil, fmt.Errorf("chat: prompt: %w", err)
	}
	return ids, nil
}

// Ask is the tokens of a conversation that begins with a message, behind one of the system unless that is empty, up to the answer.
func (e *Encoder) Ask(system, message string) ([]int32, error) {
	talk := Conversation{}
	if system != "" {
		talk.Add("system", system)
	}
	talk.Add("user", message)
	return e.Prompt(&talk)
}

func characters(s string) int { return utf8.RuneCountInString(s) }

// Around is what is to be put in front of tokens and behind them, so that before and behind stand there once: a text may have been written with them.
func Around(tokens, before, behind []int32) (front, back []int32) {
	return before[:len(before)-overlap(before, tokens)], behind[overlap(tokens, behind):]
}

// overlap is how many tokens, at most, are the end of a and the beginning of b.
func overlap(a, b []int32) int {
	n := min(len(a), len(b))
	for !slices.Equal(a[len(a)-n:], b[:n]) {
		n--
	}
	return n
}
