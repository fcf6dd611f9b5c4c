package tokenizer

import (
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// cuts say where a text may be cut so that its parts encode to what the whole does: behind a letter, before a space or a newline.
// That holds for the patterns of well-known tokenizers, none of which has a piece with a letter and white space behind it, and for
// tokenizers with borders before a mark of a space.
type cuts struct {
	anywhere bool   // there are such places
	lines    bool   // a newline is one too
	taking   string // white space behind a token that takes it is none: "" or the last bytes of such tokens
	borders  *borders
}

// newCuts says where texts of a tokenizer may be cut. What it does not know for certain is no place to cut.
func newCuts(t *Tokenizer) cuts {
	c, marks := cuts{anywhere: true, lines: true}, false
	each(t.normalizer, func(n normalizer) {
		switch n := n.(type) {
		case lowercase, prepend:
		case unicodeForm:
			c.lines = c.lines && n.form != norm.NFKC && n.form != norm.NFKD // some make marks of letters
		case replace:
			marks = true
			c.anywhere = c.anywhere && n.pattern == literal(" ")
		default:
			c.anywhere = false
		}
	})
	words := false
	for _, s := range t.stages {
		switch s := s.(type) {
		case byteLevel:
			words, c.lines = words || s.words, c.lines && !s.prefix
		case metaspace:
			words, c.lines = words || s.cut && s.replacement == string(spaceMark), false
		case split:
			_, known := s.pattern.(*scanner)
			_, single := s.pattern.(chars)
			c.anywhere = c.anywhere && (known && s.isolated() && !marks || single)
			words = words || known
		}
	}
	if !words {
		c.lines, c.borders = false, &t.model.borders
		c.anywhere = c.anywhere && t.model.borders.mark != "" && gone(t.normalizer, " ")
	}
	c.hold(t.raw)
	c.hold(t.normal)
	return c
}

// hold keeps cuts away from added tokens.
func (c *cuts) hold(f *finder) {
	for _, a := range f.tokens {
		inner := strings.TrimLeft(a.content, " \n")
		c.anywhere = c.anywhere && !strings.ContainsAny(inner, " \n") && !(a.singleWord && inner != a.content)
		if a.rstrip {
			c.taking += a.content[len(a.content)-1:]
		}
	}
}

// last is the last place at which a text may be cut; 0: there is none.
func (c *cuts) last(text []byte) int {
	if !c.anywhere {
		return 0
	}
	for i := len(text) - 1; i > 0; i-- {
		if text[i] != ' ' && (text[i] != '\n' || !c.lines) {
			continue
		}
		r, size := utf8.DecodeLastRune(text[:i])
		if size > 0 && classOf(r)&letter != 0 && strings.IndexByte(c.taking, text[i-1]) < 0 && (c.borders == nil || !c.borders.joined[r]) {
			return i
		}
	}
	return 0
}
