package chat

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"gputrain/text/chat/template"
)

// A turn is what a message adds to a text, in characters: after what stands before it, which for an answer is what asks for it, up to its end.
type turn struct {
	part    [2]int
	earlier *[2]int // what earlier programs took for it; nil where they refused it
}

// ErrRewritten is what Encode says of an answer that the template writes otherwise where messages follow, so that it cannot be told from the text
// what of it learns. The last answer of a conversation can be told (Options.LastOnly).
var ErrRewritten = errors.New("the template writes it otherwise when messages follow, as those do that drop earlier thoughts")

// A parted error says that two texts of a template part.
type parted struct {
	says          error
	found, wanted string
}

func (p *parted) Error() string { return p.says.Error() + differ(p.found, p.wanted) }
func (p *parted) Unwrap() error { return p.says }

func (e *Encoder) turn(c *Conversation, i int, whole string) (turn, error) {
	with := whole
	if i+1 < len(c.Messages) {
		made, err := e.render(c, i+1, false)
		if err != nil {
			return turn{}, fmt.Errorf("the messages up to it: %w", err)
		}
		with = made.Text
	}
	closes, err := e.closing(c)
	if err != nil {
		return turn{}, err
	}
	begin, before, err := e.begin(c, i, with, closes)
	if err != nil {
		return turn{}, err
	}
	end, err := e.end(c.Messages[i], begin, with, whole, closes)
	if err != nil {
		return turn{}, err
	}
	at := characters(whole[:begin])
	t := turn{part: [2]int{at, at + characters(whole[begin:end])}}
	if before >= 0 && strings.HasPrefix(whole, with) {
		at -= characters(whole[before:begin])
		t.earlier = &[2]int{at, at + characters(e.endedEarlier(with[before:]))}
	}
	return t, nil
}

// begin is the byte at which a message begins. Before is where what the template writes for the messages before it, or to ask for it, ends; -1 where
// that does not stand in front as it is.
func (e *Encoder) begin(c *Conversation, i int, with string, closes *closing) (at, before int, err error) {
	m, asks := c.Messages[i], c.role(i) == "assistant"
	made, err := e.render(c, i, asks)
	if err != nil {
		if text := find(with, 0, m); i == 0 && text >= 0 { // most templates look at the first message
			return text, -1, nil
		}
		return 0, 0, fmt.Errorf("the messages before it: %w", err)
	}
	if before = len(made.Text); strings.HasPrefix(with, made.Text) {
		if asks && i == 0 && strings.HasPrefix(with[before:], closes.header) { // some ask behind messages alone
			return before + len(closes.header), before, nil
		}
		return before, before, nil
	}
	alone := made
	if asks {
		if alone, err = e.render(c, i, false); err != nil {
			return 0, 0, fmt.Errorf("the messages before it: %w", err)
		}
	}
	history := alone.Text
	if !strings.HasPrefix(with, history) {
		history = strings.TrimSuffix(history, closes.tail)
	}
	if !strings.HasPrefix(with, history) {
		if text := e.exchanged(c, i, with); asks && text >= 0 {
			return text, -1, nil
		}
		return 0, 0, &parted{errors.New("the template writes the messages before it otherwise when it follows"), with, history}
	}
	if !asks {
		return len(history), -1, nil
	}
	if closes.header != "" && strings.HasPrefix(with[len(history):], closes.header) {
		return len(history) + len(closes.header), -1, nil
	}
	if at, ok := e.answer(m, len(history), with, made.Text); ok {
		return at, -1, nil
	}
	return 0, 0, &parted{errors.New("the template writes what asks for the answer otherwise than the answer"), with, made.Text}
}

// exchanged is the byte at which the text of a message begins, told by another text in its place; -1 where it cannot be told. It is for templates
// that write a message otherwise where an answer follows, as those do that put the system's message into the last question.
func (e *Encoder) exchanged(c *Conversation, i int, text string) int {
	if _, ok := content(c.Messages[i]).(string); !ok {
		return -1
	}
	other := append(slices.Clone(c.Messages[:i]), with(c.Messages[i], "content", replied))
	made, err := e.template.Render(other, &c.Variables, false, e.options.Now)
	if err != nil {
		return -1
	}
	at := strings.LastIndex(made.Text, replied)
	if at < 0 || !strings.HasPrefix(text, made.Text[:at]) {
		return -1
	}
	return at
}

// answer is the byte at which an answer begins that does not have all of what asks for it in front, as where that opens a thought: behind what both
// have, or where its text begins.
func (e *Encoder) answer(m *template.Object, from int, with, asks string) (at int, ok bool) {
	if at = common(with, asks); at < from {
		return 0, false
	}
	at = from + len(untagged(with[from:at]))
	for _, token := range e.special {
		for start := max(from, at-len(token)+1); start < at; start++ {
			if strings.HasPrefix(with[start:], token) {
				at = start
			}
		}
	}
	text := find(with, from, m)
	switch _, calls := m.Get("tool_calls"); {
	case text < 0 || calls && text > at:
		return at, true
	case text < at:
		return text, true
	}
	return at, tags.MatchString(with[at:text])
}

// tags may stand between what asks for an answer and its text: the model writes them.
var tags = regexp.MustCompile(`^(\s*<[^<>]*>)*\s*$`)

// untagged is a text without a tag that has only begun, as two texts do that part in one.
func untagged(s string) string {
	if open := strings.LastIndexByte(s, '<'); open > strings.LastIndexByte(s, '>') {
		return s[:open]
	}
	return s
}

// find is the byte at which the content of a message begins, as it is or without space around; -1 where it cannot be told.
func find(in string, from int, m *template.Object) int {
	content, _ := m.Get("content")
	s, _ := content.(string)
	for _, one := range []string{s, strings.TrimSpace(s)} {
		if at := strings.Index(in[from:], one); at >= 0 && one != "" {
			return from + at
		}
	}
	return -1
}

// end is the byte at which a message has ended, by what the template writes up to it and by the whole text.
func (e *Encoder) end(m *template.Object, begin int, with, whole string, closes *closing) (int, error) {
	if !strings.HasPrefix(whole, with[:begin]) {
		return 0, &parted{ErrRewritten, whole, with}
	}
	text, in := strings.TrimSuffix(with[begin:], closes.tail), whole[begin:]
	floor := 0
	if at := find(text, 0, m); at >= 0 {
		content, _ := m.Get("content")
		floor = at + len(strings.TrimSpace(content.(string)))
	}
	token, end := e.ended(text, floor, closes)
	if strings.HasPrefix(in, text[:end]) {
		if token == end {
			end += len(starting(in[end:], closes.late))
		}
		return begin + end, nil
	}
	if strings.HasPrefix(in, text[:token]) { // another end where messages follow, or none
		if other := starting(in[token:], closes.ends); other != "" || closes.own == "" {
			return begin + token + len(other), nil
		}
	}
	return 0, &parted{ErrRewritten, whole, with}
}

// ended is where a turn ends, and where the token that ends it begins: the first of those behind its text that end answers, or else the last special
// token. The model is stopped there, and never writes what follows. Without such a token all of it is the turn.
func (e *Encoder) ended(turn string, floor int, closes *closing) (token, end int) {
	token, end = len(turn), len(turn)
	seen := false
	for rest := turn; ; {
		rest = strings.TrimRightFunc(rest, unicode.IsSpace)
		last := longest(closes.ends, rest, strings.HasSuffix)
		ends := last != ""
		if token := longest(e.special, rest, strings.HasSuffix); len(token) > len(last) {
			last, ends = token, false
		}
		at := len(rest) - len(last)
		if last == "" || at < floor {
			return token, end
		}
		if ends || !seen {
			token, end = at, len(rest)
		}
		seen, rest = true, rest[:at]
	}
}

// endedEarlier is a turn as earlier programs ended it.
func (e *Encoder) endedEarlier(turn string) string {
	trimmed := strings.TrimRightFunc(turn, unicode.IsSpace)
	for _, token := range e.special {
		if strings.HasSuffix(trimmed, token) {
			return trimmed
		}
	}
	return turn
}

// longest is the longest of some texts that a text has, "" for none.
func longest(all []string, in string, has func(s, part string) bool) (found string) {
	for _, one := range all {
		if has(in, one) && len(one) > len(found) {
			found = one
		}
	}
	return found
}

// starting is the longest of some texts that one begins with.
func starting(text string, with []string) string { return longest(with, text, strings.HasPrefix) }

// common is how many bytes two texts begin with alike.
func common(a, b string) int {
	at := 0
	for at < min(len(a), len(b)) && a[at] == b[at] {
		at++
	}
	return at
}

// differ shows where two texts part.
func differ(found, wanted string) string {
	at := common(found, wanted)
	show := func(s string) string {
		s = s[at:]
		return fmt.Sprintf("%q", strings.ToValidUTF8(s[:min(len(s), 30)], ""))
	}
	return fmt.Sprintf(": at byte %d %s against %s", at, show(found), show(wanted))
}
