package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"gputrain/cmd/gputrain/endpoint"
	"gputrain/cmd/gputrain/listen"
	"gputrain/gpu"
	"gputrain/internal/caught"
	"gputrain/model"
	"gputrain/run/rollout"
	"gputrain/run/setup"
	"gputrain/run/train"
	"gputrain/text/chat"
)

type endpointCmd struct {
	baseFlag
	samplingFlags
	Model    string        `arg:"" help:"Run directory (its newest checkpoint), checkpoint, model directory in the Hugging Face layout, GGUF file, or PEFT directory. Its folder's name is what programs ask for." type:"model"`
	Adapter  []string      `help:"A directory with low-rank adapters for the model, which answers by its own name too: NAME=DIR, or DIR for its folder's name. Any number of times, each with the base in memory once more. Or, as for other commands, an adapter's index, part of its name, or backend:part." placeholder:"[NAME=]DIR|SEL" sep:"none"`
	Listen   string        `help:"Address of this machine to answer at, such as 127.0.0.1:8080; :0 for a free port." default:":8080" placeholder:"ADDR"`
	Host     string        `help:"Name or address at which other machines may ask too, with --token-file; by default only this machine can." placeholder:"HOST"`
	Token    string        `name:"token-file" help:"A file with a token of 16 or more characters, which every request has to have (Authorization: Bearer)." type:"path" placeholder:"FILE"`
	Rows     int           `help:"Answers under way at once." default:"4"`
	Waiting  int           `help:"Requests that wait for their turn, at most; those beyond are refused (429)." default:"64"`
	Patience time.Duration `help:"A request that has no token after this time is refused (503)." default:"1m"`
	Window   int           `help:"Tokens that the model sees at most, prompt and answer together. 0 = its context, and at most 4096." default:"0"`
	Tokens   int           `help:"Most tokens of an answer; 0 = as many as the window has room for." default:"0"`
	Template string        `help:"Chat template: a .jinja file, one of those that the model has, or chatml or alpaca; none = the model's own." placeholder:"NAME|FILE"`
}

// Bounds of what a request may take, beside the flags.
const (
	mostWaiting   = 10_000
	leastToken    = 16
	slowest       = 30 * time.Second // for a read of a body, and for a write
	endpointGrace = 10 * time.Second
)

func (c *endpointCmd) check() error {
	for _, flag := range []struct {
		name               string
		found, least, most int
	}{{"rows", c.Rows, 1, atOnce}, {"waiting", c.Waiting, 0, mostWaiting}, {"window", c.Window, 0, 1 << 30}, {"tokens", c.Tokens, 0, 1 << 30}} {
		if flag.found < flag.least || flag.found > flag.most {
			return usageError{fmt.Errorf("endpoint: --%s: found %d, wanted %d to %d", flag.name, flag.found, flag.least, flag.most)}
		}
	}
	if c.Patience <= 0 {
		return usageError{fmt.Errorf("endpoint: --patience: found %v, wanted more than 0", c.Patience)}
	}
	if c.Host != "" && c.Token == "" {
		return usageError{fmt.Errorf("endpoint: --host %s: found no --token-file, wanted one: others may ask only with a token", c.Host)}
	}
	_, err := c.sampling("endpoint", nil, "-", 1)
	return err
}

// token is what is in its file; "" where none is wanted.
func (c *endpointCmd) token() (string, error) {
	if c.Token == "" {
		return "", nil
	}
	raw, err := os.ReadFile(c.Token)
	if err != nil {
		return "", usageError{fmt.Errorf("endpoint: --token-file: %w", err)}
	}
	token := strings.TrimSpace(string(raw))
	if len(token) < leastToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", usageError{fmt.Errorf("endpoint: --token-file: %s: found %d bytes, wanted one word of %d or more printable ASCII characters", c.Token, len(token), leastToken)}
	}
	return token, nil
}

// A named model, in its files.
type named struct {
	name  string
	flags modelFlags
}

// models are the model, and those that adapters make of it.
func (c *endpointCmd) models() (all []named, err error) {
	all = []named{{nameOf(c.Model), modelFlags{Model: c.Model, baseFlag: c.baseFlag}}}
	var selector []string
	for _, given := range c.Adapter {
		name, dir, ok := strings.Cut(given, "=")
		switch {
		case hasAdapters(given):
			name, dir = nameOf(given), given
		case ok && name != "" && hasAdapters(dir):
		case ok || selector != nil:
			return nil, usageError{fmt.Errorf("endpoint: --adapter: found %s, wanted NAME=DIR with adapters (%s), or one selector of a device", given, model.AdapterConfigFile)}
		default:
			selector = []string{given}
			continue
		}
		all = append(all, named{name, modelFlags{Model: dir, baseFlag: baseFlag{Base: c.Model}}})
	}
	if len(all) > 1 && c.Base != "" {
		return nil, usageError{errors.New("endpoint: --base: found a model before the adapters too, wanted one base")}
	}
	for i := range all {
		all[i].flags.Adapter = selector
		if slices.ContainsFunc(all[:i], func(n named) bool { return n.name == all[i].name }) {
			return nil, usageError{fmt.Errorf("endpoint: --adapter: found the name %s twice, wanted NAME=DIR with another one", all[i].name)}
		}
	}
	return all, nil
}

// nameOf is the name of a model's folder, or of its file.
func nameOf(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return strings.TrimSuffix(filepath.Base(path), ".gguf")
}

func (c *endpointCmd) Run(ctx context.Context) (err error) {
	if err := c.check(); err != nil {
		return err
	}
	token, err := c.token()
	if err != nil {
		return err
	}
	all, err := c.models()
	if err != nil {
		return err
	}
	server := endpoint.Config{Token: token, Waiting: c.Waiting, Patience: c.Patience, Slow: slowest, Grace: endpointGrace, Say: say}
	running, end := context.WithCancelCause(ctx)
	var services sync.WaitGroup
	var releases []func()
	defer func() {
		end(nil)
		services.Wait() // they use the models
		for _, release := range releases {
			release()
		}
	}()
	for _, n := range all {
		m, err := c.open(ctx, n)
		if err != nil {
			return err
		}
		releases = append(releases, m.release)
		services.Go(func() {
			if err := caught.Do(func() error { return m.service.Run(running) }); running.Err() == nil {
				end(err)
			}
		})
		if err := c.warm(ctx, m); err != nil {
			return err
		}
		server.Models = append(server.Models, &m.Model)
	}
	l, err := listen.Open(c.Listen, c.Host)
	if err != nil {
		return usageError{err}
	}
	serving, stop := signal.NotifyContext(running, train.StopSignals()...)
	defer stop()
	context.AfterFunc(serving, stop) // the next signal ends the process
	c.announce(l, server.Models)
	err = endpoint.New(server).Serve(serving, l)
	if failed := context.Cause(running); failed != nil { // nobody else ends it before
		err = failed
	}
	return err
}

// servedModel is one on its device.
type servedModel struct {
	endpoint.Model
	service *rollout.Service
	device  *gpu.Device
	release func()
}

// open puts a model on its device, with room for as many answers at once as there are rows.
func (c *endpointCmd) open(ctx context.Context, n named) (_ *servedModel, err error) {
	of := &n.flags
	m, release, err := of.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			release()
		}
	}()
	def := m.Definition()
	if err := writesText("endpoint", of.Model, def); err != nil {
		return nil, err
	}
	if err := of.spells("endpoint", def); err != nil {
		return nil, err
	}
	window := c.Window
	switch {
	case window > def.Context():
		return nil, usageError{fmt.Errorf("endpoint: --window: found %d, wanted at most the context of %d", window, def.Context())}
	case window == 0:
		window = min(def.Context(), mostWindow)
	}
	tokens := c.Tokens
	if tokens == 0 {
		tokens = window
	}
	s, err := c.sampling("endpoint", m.drawn, "-", tokens)
	if err != nil {
		return nil, err
	}
	if p := s.RepetitionPenalty; p != 0 && p != 1 {
		return nil, usageError{fmt.Errorf("endpoint: found a repetition penalty of %v, wanted none for several texts (--repetition-penalty 1)", p)}
	}
	if err := m.Narrow(model.Window(def, window)); err != nil {
		return nil, err
	}
	if err := m.Widen(c.Rows); err != nil {
		return nil, err
	}
	text := of.tokens.Text()
	service := rollout.NewService(m, rollout.ServiceConfig{Vocab: text.Size(), Waiting: c.Waiting})
	out := &servedModel{service: service, device: m.Params().Device(), release: release}
	out.Model = endpoint.Model{
		Name: n.name, Since: time.Now(), Completer: service, Rows: c.Rows, Window: m.Window(), Tokens: tokens, Vocab: def.Vocab(), Text: text,
		Draw: rollout.Request{Temperature: s.Temperature, TopK: s.TopK, TopP: s.TopP, MinP: s.MinP, Seed: s.Seed, Stop: append(s.Stop, of.tokens.Ends()...)},
		Ends: func(stop []string) func(tokens []int32) bool { return setup.EndsWith(stop, text) },
	}
	if out.Chat, err = (&chatCmd{Template: c.Template}).encoder(of); err != nil {
		if c.Template != "" || of.tokens.Tokenizer != nil && !errors.Is(err, chat.ErrNone) {
			return nil, err
		}
		out.NoChat = err
		say("gputrain: endpoint: %s answers /v1/completions alone: %v\n", n.name, err)
	}
	return out, nil
}

// warm draws a token, for which all that an answer takes is allocated and compiled.
func (c *endpointCmd) warm(ctx context.Context, m *servedModel) error {
	_, err := m.service.Complete(ctx, rollout.Request{Prompt: []int32{0}, Tokens: 1, Temperature: 1}, nil)
	if _, beyond := errors.AsType[*gpu.LimitError](err); beyond || errors.Is(err, gpu.ErrOutOfMemory) {
		err = fmt.Errorf("%w; --rows (%d) and --window (%d) lower what it takes", err, c.Rows, m.Window)
	}
	if err != nil {
		return fmt.Errorf("endpoint: %s: %w", m.Name, err)
	}
	say("gputrain: endpoint: %s takes %s: answers at once: %d, of %d tokens each\n", m.Name, gpu.SizeText(m.device.Counters().LiveBytes), m.Rows, m.Window)
	return nil
}

// announce says where to ask.
func (c *endpointCmd) announce(l *listen.Listener, all []*endpoint.Model) {
	var names []string
	for _, m := range all {
		names = append(names, m.Name)
	}
	key, header := "any", ""
	if c.Token != "" {
		key, header = "what is in "+c.Token, fmt.Sprintf(` -H "Authorization: Bearer $(cat '%s')"`, c.Token)
	}
	if l.Outside {
		say("warning: everybody who reaches %s and has the token can use the models; what is said goes unencrypted\n", l.Addr())
	}
	path, ask := "chat/completions", `"messages": [{"role": "user", "content": "Hello"}]`
	if all[0].Chat == nil {
		path, ask = "completions", `"prompt": "Hello"`
	}
	say("answers OpenAI's protocol at %sv1; models: %s\n", l.URL, strings.Join(names, ", "))
	say("  curl %sv1/%s -H 'Content-Type: application/json'%s -d '{\"model\": \"%s\", %s}'\n", l.URL, path, header, names[0], ask)
	say("  in an editor or a client of OpenAI: base URL %sv1, key %s, model %s\n", l.URL, key, names[0])
}
