package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// behaviors say what becomes of the parts that a Split's pattern hits.
var behaviors = map[string]func([]match) []match{
	"Isolated": func(all []match) []match { return all },
	"Removed":  func(all []match) []match { return slices.DeleteFunc(all, func(m match) bool { return m.hit }) },
	"Contiguous": func(all []match) []match {
		return joined(all, func(hit, previous bool) bool { return hit == previous })
	},
	"MergedWithPrevious": func(all []match) []match { return joined(all, beforeIt) },
	"MergedWithNext":     mergedWithNext,
}

// joined adds a part to the one before it where the two go together, by what is a hit.
func joined(all []match, together func(hit, previous bool) bool) []match {
	kept, previous := all[:0], false
	for _, m := range all {
		if together(m.hit, previous) && len(kept) > 0 {
			kept[len(kept)-1].end = m.end
		} else {
			kept = append(kept, m)
		}
		previous = m.hit
	}
	return kept
}

// beforeIt adds a hit to what lies before it; of several hits in a row only the first.
func beforeIt(hit, previous bool) bool { return hit && !previous }

// mergedWithNext adds a hit to what lies behind it; of several hits in a row only the last.
func mergedWithNext(all []match) []match {
	kept, previous := make([]match, 0, len(all)), false
	for _, m := range slices.Backward(all) {
		if m.hit && !previous && len(kept) > 0 {
			kept[len(kept)-1].start = m.start
		} else {
			kept = append(kept, m)
		}
		previous = m.hit
	}
	slices.Reverse(kept)
	return kept
}

// split is a pre-tokenizer that cuts where a pattern hits.
type split struct {
	pattern  pattern
	behavior string
	invert   bool // what the pattern does not hit counts as hit
}

func (p split) split(s span, next func(span) error) error {
	all, err := p.pattern.matches(s.text, s.may)
	if err != nil {
		return fmt.Errorf("pre_tokenizer: Split: %w", placed(err, int64(s.at)))
	}
	if p.invert {
		for i := range all {
			all[i].hit = !all[i].hit
		}
	}
	for _, m := range behaviors[p.behavior](all) {
		if m.start == m.end {
			continue
		}
		if err := next(s.cut(m.start, m.end)); err != nil {
			return err
		}
	}
	return nil
}

// isolated says whether every piece that a pattern without gaps hits is one of its own.
func (p split) isolated() bool {
	return p.behavior == "Isolated" || p.behavior == "Removed" && p.invert
}

// A preTokenizer cuts text into pieces; the model joins nothing across them.
type preTokenizer interface {
	split(s span, next func(span) error) error
}

// readPreTokenizer reads a pre-tokenizer as a list: a Sequence has several, of which none is a Sequence.
func readPreTokenizer(where string, raw json.RawMessage) ([]preTokenizer, error) {
	return typed(where, raw, map[string]func(o *object) []preTokenizer{
		"ByteLevel": func(o *object) []preTokenizer { return []preTokenizer{readByteLevel(o)} },
		"Split": func(o *object) []preTokenizer {
			s := split{pattern: readPattern(o), behavior: o.one("behavior", []string{"Isolated", "Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext"})}
			s.invert = o.flag("invert", false)
			return []preTokenizer{s}
		},
		"Metaspace": func(o *object) []preTokenizer { return []preTokenizer{readMetaspace(o)} },
		"Digits": func(o *object) []preTokenizer {
			s := split{pattern: chars(func(r rune) bool { return classOf(r)&number != 0 }), behavior: "Contiguous"} // Nd, Nl and No
			if o.flag("individual_digits", false) {
				s.behavior = "Isolated"
			}
			return []preTokenizer{s}
		},
		"Sequence": func(o *object) []preTokenizer {
			return slices.Concat(parts(o, "pretokenizers", readPreTokenizer)...)
		},
	})
}

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
