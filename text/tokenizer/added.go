package tokenizer

import (
	"encoding/json"
	"fmt"
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

// longestAdded bounds what an added token is called in a text: so many bytes may be looked at again at each byte of one.
const longestAdded = 4 << 10

// finder finds added tokens: leftmost first, of those the longest.
type finder struct {
	tokens []addedToken
	nodes  []node
	first  [256]int32 // the node of a text's first byte; 0: none begins with it
}

// node is a byte of a token, in a tree.
type node struct {
	byte  byte
	below int32 // the first node of the next byte; 0: none
	next  int32 // the node of another byte in this place; 0: none
	token int32 // the index of the token that ends here; -1: none
}

func newFinder() *finder { return &finder{nodes: make([]node, 1)} }

// add looks for a token by what it is called in the text.
func (f *finder) add(t addedToken, called string) error {
	if len(called) > longestAdded {
		return fmt.Errorf("added_tokens: %s: found %d bytes to look for, wanted at most %d", excerpt(t.content), len(called), longestAdded)
	}
	at := f.first[called[0]]
	if at == 0 {
		at = f.node(called[0])
		f.first[called[0]] = at
	}
	for i := 1; i < len(called); i++ {
		below := f.below(at, called[i])
		if below == 0 {
			below = f.node(called[i])
			f.nodes[below].next, f.nodes[at].below = f.nodes[at].below, below
		}
		at = below
	}
	f.nodes[at].token = int32(len(f.tokens))
	f.tokens = append(f.tokens, t)
	return nil
}

func (f *finder) node(b byte) int32 {
	f.nodes = append(f.nodes, node{byte: b, token: -1})
	return int32(len(f.nodes) - 1)
}

// below is the node of a byte behind another; 0: there is none.
func (f *finder) below(at int32, b byte) int32 {
	below := f.nodes[at].below
	for below != 0 && f.nodes[below].byte != b {
		below = f.nodes[below].next
	}
	return below
}

// longest is the longest token that a text begins with.
func (f *finder) longest(text string) (token *addedToken, size int) {
	at := f.first[text[0]]
	for i := 1; at != 0; i++ {
		if n := f.nodes[at].token; n >= 0 {
			token, size = &f.tokens[n], i
		}
		if i == len(text) {
			break
		}
		at = f.below(at, text[i])
	}
	return token, size
}

// each walks a text: what lies between tokens, with no token, and tokens, with the white space they take.
func (f *finder) each(text string, visit func(start, end int, token *addedToken) error) error {
	done, white := 0, 0
	if len(f.tokens) > 0 {
		for at := 0; at < len(text); {
			if f.first[text[at]] == 0 {
				at++
				continue
			}
			token, size := f.longest(text[at:])
			if token == nil {
				at++
				continue
			}
			start, end := token.around(text, at, at+size, done, &white)
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

// around is what a token at [start, end) takes; start is -1 where it may not stand. The text up to done is taken, and white is where the white space
// ends that was found last.
func (t *addedToken) around(text string, start, end, done int, white *int) (int, int) {
	if t.singleWord {
		before, _ := utf8.DecodeLastRuneInString(text[:start])
		behind, _ := utf8.DecodeRuneInString(text[end:])
		if start > 0 && isWord(before) || end < len(text) && isWord(behind) {
			return -1, -1
		}
	}
	if t.lstrip {
		start = max(done, done+len(strings.TrimRightFunc(text[min(done, start):start], unicode.IsSpace)))
	}
	if t.rstrip {
		if end >= *white {
			*white = len(text) - len(strings.TrimLeftFunc(text[end:], unicode.IsSpace))
		}
		end = *white
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
