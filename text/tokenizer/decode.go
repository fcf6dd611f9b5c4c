package tokenizer

import (
	"fmt"
	"strings"
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
