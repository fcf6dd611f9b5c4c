package tokenizer

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"gputrain/internal/characters"
)

// A decoder is what makes a text of tokens. A stage of it is begun anew for each text, with what it may take for that; fused says that what comes are
// pieces of one token, fuses that what it gives are.
type decoder interface {
	begin(fused bool, may *allowance) (stage decoding, fuses bool)
}

// A decoding takes tokens one by one and hands on what they became, as soon as it is known.
type decoding interface {
	token(token string, next func(string) error) error
	end(next func(string) error) error
}

// readDecoder reads a decoder as a list: a Sequence has several, of which none is a Sequence.
func readDecoder(where string, raw json.RawMessage) ([]decoder, error) {
	one := func(read func(o *object) decoder) func(o *object) []decoder {
		return func(o *object) []decoder { return []decoder{read(o)} }
	}
	return typed(where, raw, map[string]func(o *object) []decoder{
		"Sequence": func(o *object) []decoder {
			return append([]decoder{}, slices.Concat(parts(o, "decoders", readDecoder)...)...) // an empty one joins the tokens
		},
		"ByteLevel": one(func(o *object) decoder {
			readByteLevel(o)
			return decodeBytes{}
		}),
		"Metaspace":    one(func(o *object) decoder { return readMetaspace(o) }),
		"Replace":      one(func(o *object) decoder { return readReplace(o) }),
		"ByteFallback": one(func(*object) decoder { return byteFallback{} }),
		"Fuse":         one(func(*object) decoder { return fuse{} }),
		"Strip": one(func(o *object) decoder {
			s := stripEnds{char: o.char("content")}
			o.must("start", &s.start)
			o.must("stop", &s.stop)
			if s.start < 0 || s.stop < 0 {
				o.fail("start, stop: found %d, %d, wanted none below 0", s.start, s.stop)
			}
			return s
		}),
	})
}

// eachToken is a stage that changes every token by itself.
type eachToken func(token string) (string, error)

func (f eachToken) token(token string, next func(string) error) error {
	text, err := f(token)
	if err != nil {
		return err
	}
	return next(text)
}
func (eachToken) end(func(string) error) error { return nil }

// held is a stage that needs the whole of a fused token.
type held struct {
	whole strings.Builder
	do    decoding
}

func (h *held) token(token string, _ func(string) error) error {
	h.whole.WriteString(token)
	return nil
}

func (h *held) end(next func(string) error) error {
	if err := h.do.token(h.whole.String(), next); err != nil {
		return err
	}
	return h.do.end(next)
}

func (r replace) begin(fused bool, may *allowance) (decoding, bool) {
	change := eachToken(func(token string) (string, error) {
		s := span{text: token, may: may}
		err := r.normalize(&s)
		return s.text, err
	})
	if l, ok := r.pattern.(literal); fused && !(ok && utf8.RuneCountInString(string(l)) == 1) {
		return &held{do: change}, false
	}
	return change, false
}

// fuse makes one token of all.
type fuse struct{}

func (fuse) begin(bool, *allowance) (decoding, bool) {
	return eachToken(func(token string) (string, error) { return token, nil }), true
}

// decodeBytes makes text of tokens of the alphabet. A token that has other characters stands for itself.
type decodeBytes struct{}

func (decodeBytes) begin(bool, *allowance) (decoding, bool) { return &byteStage{}, true }

type byteStage struct{ bytes []byte }

func (s *byteStage) token(token string, next func(string) error) error {
	if text, ok := bytesOf(token); ok {
		token = text
	}
	text, rest := characters.Replace(append(s.bytes, token...), false)
	s.bytes = append([]byte(nil), rest...)
	return next(text)
}

func (s *byteStage) end(next func(string) error) error {
	text, _ := characters.Replace(s.bytes, true)
	return next(text)
}

// byteFallback makes characters of tokens such as <0xE2>. Of a row of them that is no text, each becomes U+FFFD.
type byteFallback struct{}

func (byteFallback) begin(fused bool, _ *allowance) (decoding, bool) {
	if fused {
		return &held{do: &fallbackStage{}}, false
	}
	return &fallbackStage{}, false
}

type fallbackStage struct{ bytes []byte }

func (s *fallbackStage) token(token string, next func(string) error) error {
	if b, ok := byteToken(token); ok {
		s.bytes = append(s.bytes, b)
		return nil
	}
	if err := s.end(next); err != nil {
		return err
	}
	return next(token)
}

func (s *fallbackStage) end(next func(string) error) error {
	bytes := s.bytes
	s.bytes = nil
	switch {
	case len(bytes) == 0:
		return nil
	case utf8.Valid(bytes):
		return next(string(bytes))
	}
	for range bytes {
		if err := next("\uFFFD"); err != nil {
			return err
		}
	}
	return nil
}

// byteToken is the byte of a token such as <0xE2>.
func byteToken(token string) (byte, bool) {
	if len(token) != 6 || token[:3] != "<0x" || token[5] != '>' {
		return 0, false
	}
	b, err := strconv.ParseUint(token[3:5], 16, 8)
	return byte(b), err == nil
}

// begin leaves the replacements of the first token out, and makes spaces of the others.
func (m metaspace) begin(fused bool, _ *allowance) (decoding, bool) {
	first := m.scheme != "never"
	return eachToken(func(token string) (string, error) {
		with := " "
		if first {
			with = ""
		}
		first = first && fused
		return strings.ReplaceAll(token, m.replacement, with), nil
	}), false
}

// stripEnds takes some of a character off the ends of tokens.
type stripEnds struct {
	char        rune
	start, stop int
}

func (s stripEnds) begin(fused bool, _ *allowance) (decoding, bool) {
	if fused && s.stop == 0 {
		left := s.start
		return eachToken(func(token string) (string, error) {
			for left > 0 && token != "" {
				text, cut := strings.CutPrefix(token, string(s.char))
				if left--; !cut {
					left = 0
				}
				token = text
			}
			return token, nil
		}), false
	}
	whole := eachToken(func(token string) (string, error) {
		for range min(s.start, len(token)) { // which may be any number
			token = strings.TrimPrefix(token, string(s.char))
		}
		for range min(s.stop, len(token)) {
			token = strings.TrimSuffix(token, string(s.char))
		}
		return token, nil
	})
	if fused {
		return &held{do: whole}, false
	}
	return whole, false
}

// withSpaces is what there is without a decoder: tokens with spaces between them.
type withSpaces struct{}

func (withSpaces) begin(bool, *allowance) (decoding, bool) {
	first := true
	return eachToken(func(token string) (string, error) {
		if first {
			first = false
			return token, nil
		}
		return " " + token, nil
	}), false
}
