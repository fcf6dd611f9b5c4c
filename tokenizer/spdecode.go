package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// spDecoder makes text of SentencePiece's tokens: control tokens are nothing, the unknown token is ⁇, bytes are characters as far as they
// make such, and the space that was put in front of a text is taken off again.
type spDecoder struct {
	control map[string]bool
	unknown string
	strips  bool // a space at the beginning
	all     bool // all spaces at the beginning
}

func (spDecoder) fuses() bool                       { return true }
func (d spDecoder) begin(bool, *allowance) decoding { return &spStage{spDecoder: d} }

type spStage struct {
	spDecoder
	bytes   []byte
	started bool // what comes is not the beginning of the text
}

func (s *spStage) token(token string, next func(string) error) error {
	if b, ok := byteToken(token); ok {
		s.bytes = append(s.bytes, b)
		s.started = true
		return s.characters(false, next)
	}
	if err := s.end(next); err != nil {
		return err
	}
	switch {
	case s.control[token]:
		return nil
	case token == s.unknown:
		s.started = true
		return next(" ⁇ ")
	}
	if !s.started && s.strips {
		text, cut := strings.CutPrefix(token, string(spaceMark))
		token, s.started = text, cut && !s.all
	}
	s.started = s.started || token != ""
	return next(strings.ReplaceAll(token, string(spaceMark), " "))
}

func (s *spStage) end(next func(string) error) error { return s.characters(true, next) }

// characters hands on what the bytes make; those that may be the beginning of a character wait, unless they are the last.
func (s *spStage) characters(last bool, next func(string) error) error {
	for len(s.bytes) > 0 && (last || utf8.FullRune(s.bytes)) {
		r, size := utf8.DecodeRune(s.bytes)
		s.bytes = s.bytes[size:]
		if err := next(string(r)); err != nil {
			return err
		}
	}
	return nil
}
