package train

import (
	"context"

	"gputrain/data"
	"gputrain/tokenizer"
)

// Tokenizer turns text into tokens and back.
type Tokenizer interface {
	// Encode is the tokens of a text that a model is to go on with.
	Encode(prompt string) ([]int32, error)
	// Continue begins the text behind a prompt.
	Continue(prompt []int32) TextStream
	// Size is the number of tokens, of which a model may have more rows than that; 0: all that a model has are tokens.
	Size() int
}

// TextStream is a text that comes token by token.
type TextStream interface {
	// Next is the text that is certain once there is one more token. It may be empty: some tokens are parts of characters.
	Next(token int32) string
	// End is the text that was still waiting for more.
	End() string
}

// Bytes is the tokenizer that has a token for each byte.
var Bytes Tokenizer = byteTokenizer{}

type byteTokenizer struct{}

func (byteTokenizer) Encode(prompt string) ([]int32, error) { return data.EncodeBytes(prompt), nil }
func (byteTokenizer) Continue([]int32) TextStream           { return byteStream{} }
func (byteTokenizer) Size() int                             { return 0 }

type byteStream struct{}

func (byteStream) Next(token int32) string { return data.DecodeBytes([]int32{token}) }
func (byteStream) End() string             { return "" }

// NewTokenizer writes and reads as a tokenizer of a model's directory: a prompt has before it what the tokenizer puts there, and the text has no
// special tokens.
func NewTokenizer(t *tokenizer.Tokenizer) Tokenizer { return fileTokenizer{t} }

type fileTokenizer struct{ *tokenizer.Tokenizer }

func (t fileTokenizer) Encode(prompt string) ([]int32, error) {
	before, _ := t.Around()
	ids, err := t.Tokenizer.Encode(prompt, tokenizer.Options{})
	return append(before, ids...), err
}

func (t fileTokenizer) Continue(prompt []int32) TextStream {
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

// Continue writes text behind a prompt: GenerateTokens with a tokenizer. It never draws a row of the model that is no token.
func Continue(ctx context.Context, c SampleConfig, t Tokenizer, m Decoder, write func(text string) bool) error {
	prompt, err := t.Encode(c.Prompt)
	if err != nil {
		return err
	}
	if size := t.Size(); size > 0 {
		m = within{m, size}
	}
	stream := t.Continue(prompt)
	whole := true
	err = GenerateTokens(ctx, c, prompt, m, func(token int32) bool {
		whole = write(stream.Next(token))
		return whole
	})
	if err == nil && whole {
		write(stream.End())
	}
	return err
}

// within is a model without the rows from size on.
type within struct {
	Decoder
	size int
}

func (w within) Logits(ctx context.Context, window []int32) ([]float32, error) {
	return w.cut(w.Decoder.Logits(ctx, window))
}

func (w within) Decode(ctx context.Context, token int32) ([]float32, error) {
	return w.cut(w.Decoder.Decode(ctx, token))
}

func (w within) cut(logits []float32, err error) ([]float32, error) {
	return logits[:min(w.size, len(logits))], err
}
