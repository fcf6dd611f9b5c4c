package chat

import (
	"slices"
	"strings"
	"unicode"

	"gputrain/text/chat/template"
)

// A closing is what a template writes around answers, besides their text.
type closing struct {
	header string   // in front, where what asks for an answer begins alike; "" where it goes on otherwise
	last   string   // behind the last message, up to the end of the text
	own    string   // of it, what also stands where messages follow
	tail   string   // what follows own at the end of every text, not of every answer
	ends   []string // what ends an answer: tokens, or a text where the template writes no token
	late   []string // of these, those that may be written with the next message only
}

// asked and replied are a question and an answer that no template has words of.
const asked, replied = "qquestionq", "qanswerq"

// closing is that of the template which a conversation takes.
func (e *Encoder) closing(c *Conversation) (*closing, error) {
	of, err := e.template.choose(&c.Variables)
	if err != nil {
		return nil, err
	}
	e.closings.Lock()
	defer e.closings.Unlock()
	if known, ok := e.closings.of[of]; ok {
		return known, nil
	}
	var variables template.Object
	if tools, _ := c.Variables.Get("tools"); tools != nil {
		variables.Set("tools", []any{})
	}
	if e.closings.of == nil {
		e.closings.of = map[*template.Template]*closing{}
	}
	e.closings.of[of] = e.closed(variables)
	return e.closings.of[of], nil
}

// closed asks a template what it writes around answers. One that wants other messages tells nothing.
func (e *Encoder) closed(variables template.Object) *closing {
	probe := &Conversation{Variables: variables}
	probe.Add("user", asked)
	probe.Add("assistant", replied)
	probe.Add("user", "qmoreq")
	text := func(n int, generation bool) string {
		made, err := e.render(probe, n, generation)
		if err != nil {
			return ""
		}
		return made.Text
	}
	c := &closing{}
	for _, id := range e.tokenizer.EndTokens() {
		if token, err := e.tokenizer.Token(id); err == nil {
			c.ends = append(c.ends, token)
		}
	}
	with, whole := text(2, false), text(3, false)
	front, last, ok := cutLast(with, replied)
	if !ok {
		return c
	}
	c.last, c.own = last, last
	if _, between, ok := cutLast(whole, replied); ok {
		c.own = untagged(last[:common(last, between)])
		if c.own != "" {
			c.tail = last[len(c.own):]
		}
		if token := starting(between, e.special); token != "" && !opens(whole, token, c.tail) {
			c.late = []string{token}
		}
	}
	c.header = header(front, strings.TrimSuffix(text(1, false), c.tail), text(1, true))
	ends := c.late
	if token := starting(last, e.special); token != "" {
		ends = append(ends, token)
	}
	if text := strings.TrimRightFunc(c.own, unicode.IsSpace); len(ends) == 0 && text != "" {
		ends = []string{text}
	}
	c.ends = append(c.ends, ends...)
	return c
}

// opens says whether a token that stands behind an answer begins the next message: it also stands before the first one, and does not end the last.
func opens(whole, token, tail string) bool {
	before, _, _ := strings.Cut(whole, asked)
	end := strings.TrimRightFunc(strings.TrimSuffix(whole, tail), unicode.IsSpace)
	return strings.Contains(before, token) && !strings.HasSuffix(end, token)
}

// header is what stands between the messages before an answer and its text, as far as what asks for the answer begins so too.
func header(front, history, asks string) string {
	if !strings.HasPrefix(front, history) || !strings.HasPrefix(asks, history) {
		return ""
	}
	front, asks = front[len(history):], asks[len(history):]
	both := front[:common(front, asks)]
	if len(both) < len(front) {
		both = untagged(both)
	}
	if !tags.MatchString(front[len(both):]) {
		return ""
	}
	return both
}

func cutLast(s, part string) (before, after string, found bool) {
	at := strings.LastIndex(s, part)
	if at < 0 {
		return "", "", false
	}
	return s[:at], s[at+len(part):], true
}

// Ends are the tokens that end an answer: the one that the template writes after it, then those that end any text.
func (e *Encoder) Ends() []int32 {
	ends := e.tokenizer.EndTokens()
	if e.template == nil {
		return ends
	}
	closes, err := e.closing(&Conversation{})
	if err != nil {
		return ends
	}
	if id, ok := e.tokenizer.ID(starting(closes.last, e.special)); ok {
		ends = append([]int32{id}, slices.DeleteFunc(ends, func(one int32) bool { return one == id })...)
	}
	return ends
}
