package setup

import (
	"gputrain/run/train"
	"gputrain/text/tokenizer"
)

// NewTokenizer writes and reads as a tokenizer of a model's directory: a prompt has before it what the tokenizer puts there, and the text has no
// special tokens.
func NewTokenizer(t *tokenizer.Tokenizer) train.Tokenizer { return fileTokenizer{t} }

type fileTokenizer struct{ *tokenizer.Tokenizer }

func (t fileTokenizer) Encode(prompt string) ([]int32, error) {
	before, _ := t.Around()
	ids, err := t.Tokenizer.Encode(prompt, tokenizer.Options{})
	return append(before, ids...), err
}

func (t fileTokenizer) Continue(prompt []int32) train.TextStream {
	s := fileStream{t.NewStream(true)}
	for _, id := range prompt {
		s.Next(id)
	}
	return s
}

func (t fileTokenizer) Size() int { return t.VocabSize() }

type fileStream struct{ *tokenizer.Stream }

// Next shows an id that no token has as U+FFFD.
func (s fileStream) Next(id int32) string {
	text, err := s.Stream.Next(id)
	if err != nil {
		return "\uFFFD"
	}
	return text
}

// End shows what cannot be decoded likewise.
func (s fileStream) End() string {
	text, err := s.Stream.End()
	if err != nil {
		return "\uFFFD"
	}
	return text
}
