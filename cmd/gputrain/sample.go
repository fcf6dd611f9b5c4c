package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"unicode/utf8"

	"golang.org/x/term"

	"gputrain/hub"
	"gputrain/internal/terminal"
	"gputrain/model"
	"gputrain/run/rollout"
	"gputrain/run/setup"
	"gputrain/run/train"
	"gputrain/state"
)

type sampleCmd struct {
	modelFlags
	Prompt string `help:"Text to begin with." default:"func "`
	Tokens int    `help:"Number of tokens to write." default:"240"`
	Texts  int    `short:"n" help:"Number of texts, drawn side by side; of several, each ends where the model's context does." default:"1" placeholder:"N"`
	samplingFlags
}

// samplingFlags say how text is drawn from a model.
type samplingFlags struct {
	Seed uint64 `help:"The same seed writes the same text on the same adapter." default:"42"`

	Temperature *float64 `help:"0 = always the likeliest token. Without this flag or those below, as in generation_config.json next to the model, else 0.8." placeholder:"0.8"`
	TopK        *int     `help:"Choose among the k likeliest tokens; 0 = all." placeholder:"40"`
	TopP        *float64 `help:"Of those, choose among the likeliest that together have this share; 1 = all." placeholder:"1"`
	MinP        *float64 `help:"Choose among tokens that are at least this share as probable as the likeliest one; 0 = all." placeholder:"0"`

	RepetitionPenalty *float64 `help:"Penalty on tokens already in the text: it divides their positive logits and multiplies negative ones; 1 = none." placeholder:"1"`
}

// sampling is how text is drawn from a model: as the flags say, else its generation_config.json, which standard error
// names. Of no model yet, nil, it is as the flags say alone.
func (c *samplingFlags) sampling(command string, of *hub.Bundle, prompt string, tokens int) (train.SampleConfig, error) {
	s := train.SampleConfig{Prompt: prompt, Tokens: tokens, Temperature: 0.8, TopK: 40, Seed: c.Seed}
	if of != nil {
		says, err := setup.Sampling(of, &s)
		if err != nil {
			return s, err
		}
		if says != "" {
			say("gputrain: %s: generation_config.json: %s\n", command, says)
		}
	}
	lay(&s.Temperature, c.Temperature)
	lay(&s.TopK, c.TopK)
	lay(&s.TopP, c.TopP)
	lay(&s.MinP, c.MinP)
	lay(&s.RepetitionPenalty, c.RepetitionPenalty)
	if err := s.Validate(); err != nil {
		return s, usageError{err}
	}
	return s, nil
}

// lay puts a flag's value over another, where it is given.
func lay[V any](to *V, flag *V) {
	if flag != nil {
		*to = *flag
	}
}

func (c *sampleCmd) Run(ctx context.Context) error {
	if _, err := c.sampling("sample", nil, c.Prompt, c.Tokens); err != nil {
		return err
	}
	if c.Texts < 1 || c.Texts > mostTexts {
		return usageError{fmt.Errorf("sample: --texts: found %d, wanted 1 to %d", c.Texts, mostTexts)}
	}
	m, release, err := c.open(ctx)
	if err != nil {
		return err
	}
	defer release()
	if err := writesText("sample", c.Model, m.Definition()); err != nil {
		return err
	}
	sampling, err := c.sampling("sample", m.drawn, c.Prompt, c.Tokens)
	if err != nil {
		return err
	}
	sampling.Stop = append(sampling.Stop, c.tokens.Ends()...)
	if err := c.spells("sample", m.Definition()); err != nil {
		return err
	}
	if t := c.tokens.Tokenizer; t != nil && sampling.Stop == nil {
		sampling.Stop = t.EndTokens()
	}
	prompt, err := c.tokens.Text().Encode(c.Prompt)
	if err != nil {
		return err
	}
	if err := m.Narrow(model.Window(m.Definition(), len(prompt)+c.Tokens)); err != nil {
		return err
	}
	if c.Texts > 1 {
		return c.several(ctx, m.Model, sampling, prompt)
	}
	out := screen()
	if _, err := io.WriteString(out, c.Prompt); err != nil {
		return err
	}
	var broken error
	err = train.Continue(ctx, sampling, c.tokens.Text(), m, func(text string) bool {
		_, broken = io.WriteString(out, text)
		return broken == nil
	})
	if err != nil || broken != nil {
		return errors.Join(err, broken)
	}
	_, err = fmt.Fprintln(out)
	return err
}

// Bounds of the texts that are drawn: of all, and of those under way at once.
const mostTexts, atOnce = 10_000, 64

// several draws texts side by side, and writes them one below the other.
func (c *sampleCmd) several(ctx context.Context, m *state.Model, s train.SampleConfig, prompt []int32) error {
	rows, text := min(c.Texts, atOnce), c.tokens.Text()
	if err := m.Widen(rows); err != nil {
		return err
	}
	all, err := rollout.Draw(ctx, rollout.Config{
		Tokens: s.Tokens, Temperature: s.Temperature, TopK: s.TopK, TopP: s.TopP, MinP: s.MinP, Penalty: s.RepetitionPenalty, Vocab: text.Size(), Stop: s.Stop, Rows: rows,
		Seed: s.Seed,
	}, m, []rollout.Prompt{{Tokens: prompt, Samples: c.Texts}}, nil)
	if err != nil {
		return err
	}
	out := screen()
	for i, one := range all {
		if n := len(one.Tokens) - 1; slices.Contains(s.Stop, one.Tokens[n]) {
			one.Tokens = one.Tokens[:n]
		}
		if _, err := fmt.Fprintf(out, "--- %d of %d\n%s%s\n", i+1, len(all), c.Prompt, train.TextOf(text, prompt, one.Tokens)); err != nil {
			return err
		}
	}
	return nil
}

// screen is standard output for text that a model or a file has made.
func screen() io.Writer {
	if term.IsTerminal(int(os.Stdout.Fd())) {
		return &shown{to: os.Stdout}
	}
	return os.Stdout
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
		out, s.left = utf8.AppendRune(out, terminal.Shown(r)), s.left[n:]
	}
	_, err := s.to.Write(out)
	return len(text), err
}
