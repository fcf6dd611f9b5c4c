package tokenizer

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// bpe is a byte-pair encoding: a piece begins as its characters, or bytes, and the pair of lowest rank is joined, the leftmost of
// equals, until none is left that joins.
type bpe struct {
	pairs pairs
	plain bool // the model reads bytes, each of which stands for a character of the alphabet

	bytes [256]int32 // what a byte begins as, of text in plain bytes and of ASCII; -1: nothing
	chars map[rune]int32
	whole map[string]int32 // tokens that win over merges; nil: none do

	fallback [256]int32 // the tokens <0x00> to <0xFF>; -1: it has none, or the model does not use them
	unknown  int32      // -1: what has no token is left out
	fuse     bool

	borders borders
}

const none = -1

func newBPE(v *vocabulary, plain bool) *bpe {
	m := &bpe{pairs: newPairs(v.merges), plain: plain, chars: map[rune]int32{}, unknown: none, fuse: v.fuse}
	for b := range m.bytes {
		m.bytes[b], m.fallback[b] = none, none
	}
	if v.whole {
		m.whole = make(map[string]int32, len(v.ids))
	}
	for token, id := range v.ids {
		m.begin(token, id)
	}
	if v.byteFallback {
		for b := range m.fallback {
			if id, ok := v.ids[fmt.Sprintf("<0x%02X>", b)]; ok {
				m.fallback[b] = id
			}
		}
	}
	if v.unknown != "" {
		m.unknown = v.ids[v.unknown]
	}
	if !plain {
		m.borders = newBorders(v, m)
	}
	return m
}

// begin takes a token in where it is what a character begins as, or may win over merges.
func (m *bpe) begin(token string, id int32) {
	text := token
	if m.plain {
		var ok bool
		if text, ok = bytesOf(token); !ok {
			return // no text is written so
		}
		if len(text) == 1 {
			m.bytes[text[0]] = id
		}
	} else if r, size := utf8.DecodeRuneInString(token); size == len(token) && size > 0 {
		if m.chars[r] = id; size == 1 {
			m.bytes[r] = id
		}
	}
	if m.whole != nil {
		m.whole[text] = id
	}
}

// symbol is a token on its way to a longer one.
type symbol struct {
	id   int32
	size int32 // bytes of the piece
	rank int32 // of the pair with the next
}

// symbols are what a piece begins as.
func (m *bpe) symbols(all []symbol, piece string) []symbol {
	if m.plain && m.unknown == none {
		for i := range len(piece) {
			if id := m.bytes[piece[i]]; id != none {
				all = append(all, symbol{id: id, size: 1})
			}
		}
		return all
	}
	missing := int32(0) // bytes that the unknown token stands for, not yet told
	tell := func() {
		if missing > 0 {
			all = append(all, symbol{id: m.unknown, size: missing})
		}
		missing = 0
	}
	for at := 0; at < len(piece); {
		id, size := m.char(piece[at:])
		char := piece[at : at+size]
		at += size
		switch {
		case id != none:
			tell()
			all = append(all, symbol{id: id, size: int32(size)})
		case m.fallsBack(char):
			for i := range size {
				all = append(all, symbol{id: m.fallback[char[i]], size: 1})
			}
		case m.unknown != none:
			if !m.fuse {
				tell()
			}
			missing += int32(size)
		}
	}
	tell()
	return all
}

// char is the token of the first character, or byte, and its size.
func (m *bpe) char(text string) (id int32, size int) {
	if m.plain || text[0] < utf8.RuneSelf {
		return m.bytes[text[0]], 1
	}
	r, size := utf8.DecodeRuneInString(text)
	if id, ok := m.chars[r]; ok {
		return id, size
	}
	return none, size
}

// fallsBack says whether all bytes of a character have a token.
func (m *bpe) fallsBack(char string) bool {
	for i := range len(char) {
		if m.fallback[char[i]] == none {
			return false
		}
	}
	return true
}

// borders are where text that no pre-tokenizer cuts can be cut all the same: before a mark of a space, behind a character that no
// token has before that mark. No merge joins across it.
type borders struct {
	mark   string // "": there are none
	joined map[rune]bool
}

const spaceMark = '▁'

func newBorders(v *vocabulary, m *bpe) borders {
	if _, ok := m.chars[spaceMark]; !ok || v.whole {
		return borders{}
	}
	b := borders{string(spaceMark), map[rune]bool{}}
	begins := map[int32]bool{} // what is not what its text says
	for _, id := range m.fallback {
		begins[id] = id != none
	}
	if begins[none] = false; m.unknown == none && slices.Contains(m.fallback[:], none) {
		return borders{} // what lies around a character that is left out may join
	}
	for _, merge := range v.merges {
		if begins[merge.left] || begins[merge.right] || m.unknown != none && (merge.left == m.unknown || merge.right == m.unknown) {
			return borders{}
		}
		token := v.tokens[merge.joined]
		for rest := token; ; {
			i := strings.Index(rest, b.mark)
			if i < 0 {
				break
			}
			if i > 0 || len(rest) < len(token) {
				r, _ := utf8.DecodeLastRuneInString(token[:len(token)-len(rest)+i])
				b.joined[r] = true
			}
			rest = rest[i+len(b.mark):]
		}
	}
	return b
}

// next is the first border behind the beginning of a text, or its end.
func (b *borders) next(text string) int {
	if b.mark == "" {
		return len(text)
	}
	for at := 0; ; {
		i := strings.Index(text[at:], b.mark)
		if i < 0 {
			return len(text)
		}
		if at += i; at > 0 {
			if r, _ := utf8.DecodeLastRuneInString(text[:at]); !b.joined[r] {
				return at
			}
		}
		at += len(b.mark)
	}
}

// cache remembers what pieces became, as most words of a text come again and again. It forgets all once it is full.
type cache map[string][]int32

// Limits of the cache of one goroutine.
const (
	longestCached = 64      // bytes of a piece
	mostCached    = 1 << 16 // some 10 MB
)

// keep remembers a piece.
func (c cache) keep(piece string, ids []int32) {
	if len(c) == mostCached {
		clear(c)
	}
	c[strings.Clone(piece)] = slices.Clone(ids)
}
