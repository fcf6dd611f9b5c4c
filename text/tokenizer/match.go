package tokenizer

import (
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"
)

// A match is a range of a text that a pattern hits, or one between two such.
type match struct {
	start, end int
	hit        bool
}

// A pattern finds its matches, and what lies between them, from the first byte of a text to the last.
type pattern interface {
	matches(text string, may *allowance) ([]match, error)
}

// readPattern reads {"String": ...} or {"Regex": ...}.
func readPattern(o *object) pattern {
	raw := json.RawMessage(nil)
	o.must("pattern", &raw)
	if o.err != nil {
		return nil
	}
	p := newObject(o.where+".pattern", raw)
	var text string
	var found pattern
	var err error
	switch {
	case p.read("String", &text):
		if found = literal(text); text == "" {
			err = errors.New("found an empty String, wanted a text to look for")
		}
	case p.read("Regex", &text):
		found, err = newRegex(text)
	default:
		err = errors.New("found neither, wanted String or Regex")
	}
	if err != nil {
		p.fail("%w", err)
	}
	if err := p.done(); err != nil && o.err == nil {
		o.err = err
	}
	return found
}

// literal is a text that is looked for as it stands.
type literal string

func (l literal) matches(text string, _ *allowance) (all []match, err error) {
	at := 0
	for {
		i := strings.Index(text[at:], string(l))
		if i < 0 {
			break
		}
		all = between(all, at, at+i)
		all = append(all, match{at + i, at + i + len(l), true})
		at += i + len(l)
	}
	return between(all, at, len(text)), nil
}

// chars is a pattern that hits single characters.
type chars func(r rune) bool

func (hits chars) matches(text string, _ *allowance) (all []match, err error) {
	at := 0
	for i, r := range text {
		if hits(r) {
			all = between(all, at, i)
			at = i + utf8.RuneLen(r)
			all = append(all, match{i, at, true})
		}
	}
	return between(all, at, len(text)), nil
}

// between adds what lies between two matches.
func between(all []match, start, end int) []match {
	if start < end {
		all = append(all, match{start, end, false})
	}
	return all
}
