package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// traces are the bytes of the given text that tokens stand for.
type traces struct {
	extents []extent
	blanks  [][2]int // characters of white space that each token begins and ends with
}

// origin says of each byte of a part of the given text that it stands for its character.
func (t *traces) origin(text string, start, end int) []extent {
	from := make([]extent, 0, end-start)
	for i, r := range text[start:end] {
		size := utf8.RuneLen(r)
		for range size {
			from = append(from, extent{start + i, start + i + size})
		}
	}
	return from
}

// add notes a token, by its text in the vocabulary.
func (t *traces) add(e extent, token string) {
	blank := func(r rune) bool { return r == alphabet[' '] || unicode.IsSpace(r) }
	t.extents = append(t.extents, e)
	t.blanks = append(t.blanks, [2]int{
		utf8.RuneCountInString(token) - utf8.RuneCountInString(strings.TrimLeftFunc(token, blank)),
		utf8.RuneCountInString(token) - utf8.RuneCountInString(strings.TrimRightFunc(token, blank)),
	})
}

// spans are the parts in characters, less white space where the post-processor trims it.
func (t *traces) spans(text string, p post) []Span {
	index := make([]int, len(text)+1) // characters that begin before a byte
	for i := range text {
		index[i+1]++
	}
	for i := 1; i < len(index); i++ {
		index[i] += index[i-1]
	}
	all := make([]Span, len(t.extents))
	for i, e := range t.extents {
		all[i] = Span{index[min(e.start, len(text))], index[min(e.end, len(text))]}
		if p.trims {
			all[i] = trim(all[i], t.blanks[i], p.prefix && (i == 0 || all[i].Start == 0))
		}
	}
	return all
}

// trim takes white space off a part; a space that was put in front of the text is not there to be taken.
func trim(s Span, blanks [2]int, prefixed bool) Span {
	leading, trailing := blanks[0], blanks[1]
	if prefixed && leading == 1 {
		leading = 0
	}
	s.Start = min(s.Start+leading, s.End)
	if trailing > 0 && s.End >= trailing {
		s.End = max(s.End-trailing, s.Start)
	}
	return s
}
