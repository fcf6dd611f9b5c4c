package tokenizer

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Decode turns ids into text; withoutSpecial leaves special tokens out. It is safe for several goroutines at once.
func (t *Tokenizer) Decode(ids []int32, withoutSpecial bool) (string, error) {
	var b strings.Builder
	s := t.NewStream(withoutSpecial)
	for _, id := range ids {
		text, err := s.Next(id)
		if err != nil {
			return "", err
		}
		b.WriteString(text)
	}
	end, err := s.End()
	if err != nil {
		return "", err
	}
	b.WriteString(end)
	return b.String(), nil
}

// Stream decodes a text id by id, as a model makes them. All that it gives, one after the other, is what Decode gives for all ids.
type Stream struct {
	tokenizer      *Tokenizer
	withoutSpecial bool
	next           []func(string) error // of each stage, and what gathers the text behind the last
	stages         []decoding
	text           strings.Builder
	may            *allowance
}

// NewStream begins a text.
func (t *Tokenizer) NewStream(withoutSpecial bool) *Stream {
	s := &Stream{tokenizer: t, withoutSpecial: withoutSpecial, may: newAllowance(0)}
	fused := false
	for i, d := range t.decoders {
		stage, fuses := d.begin(fused, s.may)
		s.stages, fused = append(s.stages, stage), fused || fuses
		s.next = append(s.next, func(token string) error { return s.stages[i].token(token, s.next[i+1]) })
	}
	s.next = append(s.next, func(text string) error {
		s.text.WriteString(text)
		return nil
	})
	return s
}

// Next is the text that is certain once there is one more id. It may be empty: some tokens are parts of characters.
func (s *Stream) Next(id int32) (string, error) {
	token, err := s.tokenizer.Token(id)
	if err != nil {
		return "", fmt.Errorf("tokenizer: decode: %w", err)
	}
	if s.withoutSpecial && s.tokenizer.special[id] {
		return "", nil
	}
	s.may.add(len(token))
	if err := s.next[0](token); err != nil {
		return "", s.tokenizer.failed("decode", fmt.Errorf("id %d: decoder: %w", id, err))
	}
	return s.take(), nil
}

// End is the text that was still waiting for more.
func (s *Stream) End() (string, error) {
	for i, stage := range s.stages {
		if err := stage.end(s.next[i+1]); err != nil {
			return "", s.tokenizer.failed("decode", fmt.Errorf("the end: decoder: %w", err))
		}
	}
	return s.take(), nil
}

func (s *Stream) take() string {
	text := s.text.String()
	s.text.Reset()
	return text
}

// Lossy is the text of bytes: for each longest part of what could be a character, and is none, there is one U+FFFD.
func Lossy(bytes []byte) string {
	text, _ := lossy(bytes, true)
	return text
}

// lossy is the text of bytes: for each longest part of what could be a character there is one U+FFFD, as in Rust and on the web.
// Unless these are the last bytes, a character that may go on is left as rest.
func lossy(bytes []byte, last bool) (text string, rest []byte) {
	var b strings.Builder
	for len(bytes) > 0 {
		r, size := utf8.DecodeRune(bytes)
		if r == utf8.RuneError && size == 1 {
			if size = begun(bytes); size == len(bytes) && !last && !utf8.FullRune(bytes) {
				return b.String(), bytes
			}
		}
		b.WriteRune(r)
		bytes = bytes[size:]
	}
	return b.String(), nil
}

// begun is the length of the longest beginning of a character, at least 1.
func begun(bytes []byte) int {
	for n := min(3, len(bytes)); n > 1; n-- {
		if !utf8.FullRune(bytes[:n]) {
			return n
		}
	}
	return 1
}
