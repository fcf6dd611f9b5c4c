package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"gputrain/cmd/gputrain/tuning"
	"gputrain/internal/formats"
	"gputrain/internal/stranger"
	"gputrain/model"
	"gputrain/run/data"
	"gputrain/run/data/texts"
	"gputrain/run/runfile"
	"gputrain/run/setup"
	"gputrain/run/train"
	"gputrain/text/chat"
	"gputrain/text/tokenizer"
)

// read reads the model's description and the conversations, as the run file that it gives says.
func (h *choosing) read(ctx context.Context) (*texts.Corpus, *runfile.Config, error) {
	if err := h.whole(); err != nil {
		return nil, nil, err
	}
	if err := h.recognize(ctx); err != nil {
		return nil, nil, usageError{err}
	}
	cfg, err := h.config(nil)
	if err != nil {
		return nil, nil, err
	}
	text, err := h.text(ctx, cfg, h)
	if errors.Is(err, chat.ErrRewritten) && cfg.IsDefault("data.learn_last") {
		h.given.LastOnly = true
		fmt.Fprintf(h, "gputrain: tune: %v\ngputrain: tune: so of each conversation the last answer learns alone (data.learn_last)\n", err)
		if cfg, err = h.config(nil); err == nil {
			text, err = h.text(ctx, cfg, h)
		}
	}
	if err != nil {
		return nil, nil, err
	}
	if rows := h.rows(cfg, text.Train); rows > 0 && !cfg.IsDefault("data.validation") && cfg.Data.Validation == 0 {
		h.given.Validation, err = tuning.Share(rows)
		text.Close()
		if err != nil {
			return nil, nil, usageError{err}
		}
		if cfg, err = h.config(nil); err == nil {
			text, err = h.text(ctx, cfg, io.Discard)
		}
	}
	return text, cfg, err
}

// recognize finds the method: the one that is named, that of the objective that is set, or the one that the first row tells.
func (h *choosing) recognize(ctx context.Context) error {
	set, err := tuning.Set(h.given, os.Environ(), h.set)
	if err != nil {
		return err
	}
	first, err := texts.FirstOf(ctx, texts.Config{JSONL: h.given.Rows})
	if err != nil {
		return fmt.Errorf("tune: %w", err)
	}
	row, files := tuning.Row(first), strings.Join(h.given.Rows, ", ")
	named := tuning.MethodOf(set.Objective().Row().Form)
	switch form := named.Form; {
	case h.method != "":
		if named, err = row.Named(h.method); err == nil && form != "" && form != named.Form {
			err = fmt.Errorf("found %s, which is not what --set names: a loss of %s", h.method, tuning.MethodOf(form).Name)
		}
		if err != nil {
			return fmt.Errorf("tune: --method: %s: %w", files, err)
		}
	case form != "", tuning.Named(set, "data.format"), tuning.Named(set, "data.field"), tuning.Named(set, "data.prompt_field"):
	case len(set.Rewards) > 0:
		if named, err = row.Named("grpo"); err != nil {
			return fmt.Errorf("tune: --reward: %s: %w", files, err)
		}
	default:
		if named, err = row.Named(h.before); err == nil {
			break
		}
		if named, err = row.Method(); err != nil {
			return fmt.Errorf("tune: %s: %w", files, err)
		}
	}
	if named.Draws && len(set.Rewards) == 0 {
		return fmt.Errorf("tune: %s: %w", files, row.Unrewarded())
	}
	if named.Form == formats.Queries {
		if h.given.Negatives, err = texts.NegativesOf(ctx, texts.Config{JSONL: slices.Concat(h.given.Rows, h.given.Held)}); err != nil {
			return err
		}
	}
	h.given.Method = named
	return nil
}

// rows is how many rows a source has; 0: it has none.
func (h *choosing) rows(cfg *runfile.Config, of data.Source) int {
	switch of := of.(type) {
	case *data.Prompts:
		return of.Len()
	case *texts.Documents:
		return of.Count() / max(1, h.given.Method.In(cfg).Each)
	}
	return 0
}

// measure tells what there is to learn, and by which model.
func (h *choosing) measure(text *texts.Corpus, cfg *runfile.Config) (f tuning.Facts, err error) {
	f.Held = h.rows(cfg, text.Validation)
	switch rows := text.Train.(type) {
	case *data.Prompts:
		for i := range rows.Len() {
			f.Lengths = append(f.Lengths, len(rows.At(i).Tokens))
		}
	case *texts.Documents:
		if f.Lengths, err = rows.Lengths(); err != nil {
			return f, err
		}
	default:
		return f, usageError{fmt.Errorf("tune: data: found no rows, wanted files of them")}
	}
	if held, ok := text.Validation.(*texts.Documents); ok && !h.given.Method.Head {
		shown, err := held.Show(held.Count(), h.definition.Context())
		if err != nil {
			return f, err
		}
		for _, s := range shown {
			f.Answer = max(f.Answer, longestRun(s.Learned))
		}
	}
	f.Wanted, f.Method, f.Negatives = tuning.WantedOf(cfg), h.given.Method.In(cfg), h.given.Negatives
	if f.Method.Form == formats.Labelled {
		l, err := train.LabelledOf(text.Train, h.definition.Context())
		if err != nil {
			return f, err
		}
		f.Good, f.Bad, f.Least = l.Good, l.Bad, l.Together()
	}
	if f.Model, err = h.facts(); err != nil {
		return f, err
	}
	h.description = describe(text.Tallies, h.given.Method, cfg.Data.LearnLast)
	return f, nil
}

// whole opens the model, and refuses what is not a whole one, as adapters and runs, with what makes one of it.
func (h *choosing) whole() (err error) {
	from := h.given.Model
	if h.model, err = setup.Open(from, h); err != nil {
		return err
	}
	switch {
	case h.model.Has(model.AdapterConfigFile):
		return usageError{fmt.Errorf("tune: %s: found adapters, wanted a whole model: gputrain tune --from %s DATA goes on with them, "+
			"and gputrain merge %s --to DIR writes the model that they make",
			from, shellWord(from), shellWord(from))}
	case h.model.Path(".") != from:
		return usageError{fmt.Errorf("tune: %s: found a run, wanted a model: gputrain export %s --to DIR writes what it has trained",
			from, shellWord(from))}
	}
	return nil
}

// text opens the conversations, of a model that has a tokenizer.
func (h *choosing) text(ctx context.Context, cfg *runfile.Config, out io.Writer) (*texts.Corpus, error) {
	def, err := h.model.Definition()
	if err != nil {
		return nil, &setup.ModelError{Err: err}
	}
	h.definition = def
	if cfg.Data.Tokenizer == "" && !tokenizer.Has(h.model) {
		return nil, usageError{fmt.Errorf("tune: %s: found no tokenizer, wanted tokenizer.json or tokenizer.model: copy it from where the model is from, "+
			"or name one with --set data.tokenizer=DIR", h.given.Model)}
	}
	text, _, _, err := setup.Text(ctx, cfg, out)
	return text, err
}

// longestRun is the longest stretch of what is learned.
func longestRun(learned []bool) (most int) {
	n := 0
	for _, l := range learned {
		if n++; !l {
			n = 0
		}
		most = max(most, n)
	}
	return most
}

// describe says what the conversations are, in a line.
func describe(tallies []texts.Tally, m tuning.Method, last bool) string {
	var parts []string
	for _, t := range tallies {
		text := fmt.Sprintf("%s, longest %d tokens", t.Counted(), t.Longest)
		if m.Draws {
			text = fmt.Sprintf("%d prompts (%s), longest %d tokens", t.Documents, strings.Join(t.Forms, ", "), t.Longest)
		} else if !m.Head {
			text += fmt.Sprintf(", %.0f %% of the tokens learned", 100*float64(t.Learned)/float64(max(t.Tokens, 1)))
		}
		if last {
			text += ": the last answers"
		}
		if t.Unlearned > 0 {
			text += fmt.Sprintf(", %d left out", t.Unlearned)
		}
		if unread := t.NotRead(); unread != "" {
			text += ", " + unread
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

// facts are the model's sizes.
func (h *choosing) facts() (tuning.Model, error) {
	def := h.definition
	m := tuning.Model{Parameters: model.Parameters(def), Context: def.Context(), Stored: "f32"}
	for _, p := range def.Params() {
		if len(p.Shape) != 2 {
			continue
		}
		a, b := p.Shape[0], p.Shape[1]
		if a == def.Vocab() {
			m.Width = b
			continue
		}
		if side := min(a, b); m.Side == 0 || side < m.Side {
			m.Side = side
		}
	}
	type types struct {
		Old string `json:"torch_dtype"`
		New string `json:"dtype"`
	}
	var stored struct {
		types
		Text types `json:"text_config"`
	}
	if err := stranger.Beside(h.model, "config.json", &stored); err != nil {
		return m, &setup.ModelError{Err: err}
	}
	for _, name := range []string{stored.Text.Old, stored.Text.New, stored.Old, stored.New} {
		if short, ok := map[string]string{"bfloat16": "bf16", "float16": "f16"}[name]; ok {
			m.Stored = short
		}
	}
	return m, nil
}
