package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"golang.org/x/term"

	"gputrain/cmd/gputrain/converse"
	"gputrain/model"
	"gputrain/text/chat"
)

type chatCmd struct {
	modelFlags
	samplingFlags
	System   string  `help:"Message of the system, with which the conversation begins." placeholder:"TEXT"`
	Prompt   *string `help:"One message: the command ends with its answer." placeholder:"TEXT"`
	Each     bool    `help:"Every line of standard input is a conversation of its own, a message or a JSON object with messages or a prompt: many are answered at once, in the order of lines."`
	Tokens   int     `help:"Most tokens of an answer." default:"1024"`
	Window   int     `help:"Tokens that the model sees at most: where the conversation is longer, its oldest turns are left out. 0 = its context, and at most 4096." default:"0"`
	Template string  `help:"Chat template: a .jinja file, one of those that the model has, or chatml or alpaca; none = the model's own; a run's checkpoints have the one that it learned by." placeholder:"NAME|FILE"`
	JSON     bool    `help:"One JSON object an answer on standard output."`
}

// mostWindow is the default of --window, as keys and values take memory for each token.
const mostWindow = 4096

func (c *chatCmd) Run(ctx context.Context) error {
	const unused = "-" // prompt of the sampling: a template writes it
	if _, err := c.sampling("chat", nil, unused, c.Tokens); err != nil {
		return err
	}
	if c.Window < 0 {
		return usageError{fmt.Errorf("chat: --window: found %d, wanted 0 or more", c.Window)}
	}
	if c.Each && c.Prompt != nil {
		return usageError{errors.New("chat: --each: found --prompt, too, wanted messages from standard input alone")}
	}
	of := &c.modelFlags
	m, release, err := of.open(ctx)
	if err != nil {
		return err
	}
	defer release()
	def := m.Definition()
	if err := writesText("chat", c.Model, def); err != nil {
		return err
	}
	if c.Window > def.Context() {
		return usageError{fmt.Errorf("chat: --window: found %d, wanted at most the context of %d", c.Window, def.Context())}
	}
	dialogue := converse.Config{Model: m, Tokenizer: of.tokens.Tokenizer, System: c.System, Window: c.Window}
	if dialogue.Window == 0 {
		dialogue.Window = min(def.Context(), mostWindow)
	}
	if dialogue.Encoder, err = c.encoder(of); err != nil {
		return err
	}
	if dialogue.Sampling, err = c.sampling("chat", m.drawn, unused, c.Tokens); err != nil {
		return err
	}
	if c.Each {
		return c.each(ctx, m, dialogue)
	}
	if err := m.Narrow(model.Window(def, dialogue.Window)); err != nil {
		return err
	}
	d, err := converse.New(dialogue)
	if err != nil {
		return refusedMessage(err)
	}
	s := &converse.Session{Dialogue: d, In: os.Stdin, Out: screen(), Notes: say, JSON: c.JSON}
	if c.Prompt != nil {
		return refusedMessage(s.Ask(ctx, *c.Prompt))
	}
	if s.Person = term.IsTerminal(int(os.Stdin.Fd())); s.Person {
		interrupts := make(chan os.Signal, 1)
		signal.Notify(interrupts, os.Interrupt)
		defer signal.Stop(interrupts)
		s.Interrupts = interrupts
	}
	return refusedMessage(s.Run(ctx))
}

// each answers the conversations of standard input.
func (c *chatCmd) each(ctx context.Context, m *openedModel, of converse.Config) error {
	lines, err := converse.ReadEach(of, os.Stdin)
	if err != nil {
		return refusedMessage(err)
	}
	if err := m.Narrow(model.Window(m.Definition(), lines.Window())); err != nil {
		return err
	}
	if err := m.Widen(min(lines.Lines(), atOnce)); err != nil {
		return err
	}
	return lines.Answer(ctx, m.Model, screen(), c.JSON)
}

// refusedMessage makes a mistake in what was said to the model one of the command line.
func refusedMessage(err error) error {
	var wrong *converse.MessageError
	if errors.As(err, &wrong) {
		return usageError{err}
	}
	return err
}

// encoder writes conversations for the model.
func (c *chatCmd) encoder(of *modelFlags) (*chat.Encoder, error) {
	switch {
	case of.unspoken != nil:
		return nil, of.unspoken
	case of.tokens.Tokenizer == nil:
		return nil, usageError{fmt.Errorf("chat: %s: found no tokenizer, wanted tokenizer.json or tokenizer.model: a model of bytes has no tokens for the turns of a conversation", of.Model)}
	}
	t, err := of.tokens.Template(c.Template) // checkpoints have the one of their run
	if errors.Is(err, chat.ErrNone) {
		err = fmt.Errorf("%w; here --template does", err)
	}
	if err != nil {
		return nil, usageError{err}
	}
	e, err := chat.NewEncoder(of.tokens.Tokenizer, t, chat.Options{Now: time.Now()}) // the same all the time, so that a conversation begins as before
	if err != nil {
		return nil, usageError{err}
	}
	return e, nil
}
