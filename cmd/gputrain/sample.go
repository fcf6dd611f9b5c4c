package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"unicode/utf8"

	"golang.org/x/term"

	"gputrain/data"
	"gputrain/train"
)

type sampleCmd struct {
	modelFlags
	Prompt      string  `help:"What the text begins with." default:"func "`
	Tokens      int     `help:"Tokens to write." default:"240"`
	Temperature float64 `help:"0 = always the likeliest token." default:"0.8"`
	TopK        int     `help:"Choose among the k likeliest tokens; 0 = all." default:"40"`
	Seed        uint64  `help:"The same seed writes the same text on the same adapter." default:"42"`
}

func (c *sampleCmd) Run(ctx context.Context) error {
	sampling := train.SampleConfig{Prompt: c.Prompt, Tokens: c.Tokens, Temperature: c.Temperature, TopK: c.TopK, Seed: c.Seed}
	if err := sampling.Validate(); err != nil {
		return usageError{err}
	}
	m, release, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer release()
	if v := m.Definition().Vocab(); v != 256 {
		return usageError{fmt.Errorf("sample: %s: found a vocabulary of %d, wanted 256: only bytes can be written as text so far", c.Model, v)}
	}
	out := io.Writer(os.Stdout)
	if term.IsTerminal(int(os.Stdout.Fd())) {
		out = &shown{to: os.Stdout}
	}
	if _, err := io.WriteString(out, c.Prompt); err != nil {
		return err
	}
	err = train.GenerateTokens(ctx, sampling, data.EncodeBytes(c.Prompt), m, func(token int32) bool {
		_, err := out.Write([]byte{byte(token)})
		return err == nil
	})
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(out)
	return err
}

// shown writes text to a terminal: of what a model makes, no byte may tell it what to do. A character is written once all its bytes are there.
type shown struct {
	to   io.Writer
	left []byte
}

func (s *shown) Write(text []byte) (int, error) {
	s.left = append(s.left, text...)
	var out []byte
	for len(s.left) > 0 && utf8.FullRune(s.left) {
		r, n := utf8.DecodeRune(s.left)
		out, s.left = utf8.AppendRune(out, train.Shown(r)), s.left[n:]
	}
	_, err := s.to.Write(out)
	return len(text), err
}
