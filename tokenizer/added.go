package tokenizer

import (
	"encoding/json"
	"strings"
	"unicode"
	"unicode/utf8"
)

// An addedToken is found in the text as it stands, before the model sees it.
type addedToken struct {
	id         int32
	content    string
	singleWord bool // only where no word touches it
	lstrip     bool // takes the white space before it
	rstrip     bool // takes the white space behind it
	normalized bool // is looked for in the normalized text
	asIs       bool // its content is normalized as it stands
	special    bool // left out when decoding without special tokens
	hidden     bool // not looked for: no text makes it
}

func readAdded(where string, raw json.RawMessage) (addedToken, error) {
	o := newObject(where, raw)
	t := addedToken{
		singleWord: o.flag("single_word", false), lstrip: o.flag("lstrip", false), rstrip: o.flag("rstrip", false),
		special: o.flag("special", false),
	}
	o.must("id", &t.id)
	o.must("content", &t.content)
	t.normalized = o.flag("normalized", !t.special)
	switch {
	case t.content == "":
		o.fail("content: found nothing, wanted a text")
	case t.id < 0:
		o.fail("id: found %d, wanted none below 0", t.id)
	}
	return t, o.done()
}

// finder finds added tokens: leftmost first, of those the longest.
type finder struct {
	tokens []addedToken
	nodes  []node // a tree of bytes; 0 is its root
	first  [256]bool
}

// node is a place in the tree.
type node struct {
	next  map[byte]int32
	token int32 // the index of the token that ends here; -1: none
}

func newFinder() *finder { return &finder{nodes: []node{{token: -1}}} }

// add looks for a token by what it is called in the text.
func (f *finder) add(t addedToken, called string) {
	at := int32(0)
	for i := range len(called) {
		next, ok := f.nodes[at].next[called[i]]
		if !ok {
			next = int32(len(f.nodes))
			f.nodes = append(f.nodes, node{token: -1})
			if f.nodes[at].next == nil {
				f.nodes[at].next = map[byte]int32{}
			}
			f.nodes[at].next[called[i]] = next
		}
		at = next
	}
	f.first[called[0]] = true
	f.nodes[at].token = int32(len(f.tokens))
	f.tokens = append(f.tokens, t)
}

// longest is the longest token that a text begins with.
func (f *finder) longest(text string) (token *addedToken, size int) {
	at := int32(0)
	for i := range len(text) {
		next, ok := f.nodes[at].next[text[i]]
		if !ok {
			break
		}
		if at = next; f.nodes[at].token >= 0 {
			token, size = &f.tokens[f.nodes[at].token], i+1
		}
	}
	return token, size
}

// each walks a text: what lies between tokens, with no token, and tokens, with the white space they take.
func (f *finder) each(text string, visit func(start, end int, token *addedToken) error) error {
	done := 0
	if len(f.tokens) > 0 {
		for at := 0; at < len(text); {
			if !f.first[text[at]] {
				at++
				continue
			}
			token, size := f.longest(text[at:])
			if token == nil {
				at++
				continue
			}
			start, end := token.around(text, at, at+size, done)
			if at += size; start < 0 {
				continue
			}
			if done < start {
				if err := visit(done, start, nil); err != nil {
					return err
				}
			}
			if done = end; start >= end {
				continue // the white space that it is was taken by the one before
			}
			if err := visit(start, end, token); err != nil {
				return err
			}
		}
	}
	if done < len(text) {
		return visit(done, len(text), nil)
	}
	return nil
}

// around is what a token at [start, end) takes; start is -1 where it may not stand.
func (t *addedToken) around(text string, start, end, done int) (int, int) {
	if t.singleWord {
		before, _ := utf8.DecodeLastRuneInString(text[:start])
		behind, _ := utf8.DecodeRuneInString(text[end:])
		if start > 0 && isWord(before) || end < len(text) && isWord(behind) {
			return -1, -1
		}
	}
	if t.lstrip {
		start = max(done, len(strings.TrimRightFunc(text[:start], unicode.IsSpace)))
	}
	if t.rstrip {
		end = len(text) - len(strings.TrimLeftFunc(text[end:], unicode.IsSpace))
	}
	return start, end
}

// isWord is `\w` of Unicode's rules: letters, marks, decimal digits, numbers that are letters, connectors and joiners.
func isWord(r rune) bool {
	switch is := classOf(r); {
	case r == 0x200C || r == 0x200D:
		return true
	case is&number != 0:
		return !unicode.Is(unicode.No, r)
	case is&(letter|upper|lower) != 0:
		return true
	}
	return unicode.In(r, unicode.Pc, unicode.Other_Alphabetic)
}
