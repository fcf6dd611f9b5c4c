package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// extent is a range of bytes of the text that was given.
type extent struct{ start, end int }

// A span is a piece of text on its way to the model. Where offsets are wanted it knows which bytes of the given text each of its
// own stands for.
type span struct {
	text string
	at   int      // where the piece began in the given text, before normalization
	from []extent // one a byte of text; nil where offsets are not wanted
	may  *allowance

	goesOn bool // it begins where a text was cut
}

// cut is the part [start, end) of a span.
func (s span) cut(start, end int) span {
	if s.from == nil {
		s.at += start // where nothing was put in, or taken out
		s.text = s.text[start:end]
		return s
	}
	if start < end {
		s.at = s.from[start].start
	}
	s.text, s.from = s.text[start:end], s.from[start:end:end]
	return s
}

// extent is what the bytes [start, end) stand for.
func (s span) extent(start, end int) extent {
	if start >= end {
		return extent{s.at + start, s.at + end}
	}
	return extent{s.from[start].start, s.from[end-1].end}
}

// before is the extent of what is put in at a byte: that of the byte before it.
func (s span) before(i int) extent {
	if i < 1 {
		return extent{s.at, s.at}
	}
	return s.from[i-1]
}

// prepend puts text in front, which then stands for the first character.
func (s *span) prepend(text string) error {
	if err := s.may.grow(len(text)); err != nil {
		return err
	}
	if s.from != nil {
		from := make([]extent, len(text), len(text)+len(s.from))
		for i := range from {
			from[i] = s.from[0]
		}
		s.from = append(from, s.from...)
	}
	s.text = text + s.text
	return nil
}

// replace puts text in the place of each match.
func (s *span) replace(matches []match, text string) error {
	more := 0
	for _, m := range matches {
		if m.hit {
			more += len(text) - (m.end - m.start)
		}
	}
	if err := s.may.grow(more); err != nil {
		return err
	}
	var b strings.Builder
	var from []extent
	for _, m := range matches {
		if !m.hit {
			b.WriteString(s.text[m.start:m.end])
			if s.from != nil {
				from = append(from, s.from[m.start:m.end]...)
			}
			continue
		}
		b.WriteString(text)
		if s.from != nil {
			for range len(text) {
				from = append(from, s.before(m.end))
			}
		}
	}
	if s.from != nil && from == nil {
		from = []extent{}
	}
	s.text, s.from = b.String(), from
	return nil
}

// An edit is a character of a new text: change 0 stands for one character of the old text, 1 for none, -n for one and the n behind it.
type edit struct {
	char   rune
	change int
}

// edit makes a span's text anew, character by character.
func (s *span) edit(edits []edit) error {
	size := 0
	for _, e := range edits {
		size += utf8.RuneLen(e.char)
	}
	if err := s.may.grow(size - len(s.text)); err != nil {
		return err
	}
	var b strings.Builder
	b.Grow(size)
	for _, e := range edits {
		b.WriteRune(e.char)
	}
	if s.from != nil {
		s.from = s.origins(edits)
	}
	s.text = b.String()
	return nil
}

// origins are the extents of a text made of edits.
func (s *span) origins(edits []edit) []extent {
	from, at := make([]extent, 0, len(s.from)), 0
	for _, e := range edits {
		covers := s.before(at)
		if e.change <= 0 {
			if at < len(s.from) {
				covers = s.from[at]
			}
			for range 1 - e.change {
				_, size := utf8.DecodeRuneInString(s.text[at:])
				at += size
			}
		}
		for range utf8.RuneLen(e.char) {
			from = append(from, covers)
		}
	}
	return from
}

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
