package train

import (
	"context"
	"strings"

	"gputrain/run/data"
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

// Continue writes text behind a prompt: GenerateTokens with a tokenizer. It never draws a row of the model that is no token.
func Continue(ctx context.Context, c SampleConfig, t Tokenizer, m Decoder, write func(text string) bool) error {
	prompt := c.Begin
	if len(prompt) == 0 {
		var err error
		if prompt, err = t.Encode(c.Prompt); err != nil {
			return err
		}
	}
	if size := t.Size(); size > 0 {
		m = within{m, size}
	}
	stream := t.Continue(prompt)
	whole := true
	err := GenerateTokens(ctx, c, prompt, m, func(token int32) bool {
		whole = write(stream.Next(token))
		return whole
	})
	if err == nil && whole {
		write(stream.End())
	}
	return err
}

// TextOf is the text of tokens behind others.
func TextOf(t Tokenizer, after, tokens []int32) string {
	stream := t.Continue(after)
	var text strings.Builder
	for _, token := range tokens {
		text.WriteString(stream.Next(token))
	}
	return text.String() + stream.End()
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
