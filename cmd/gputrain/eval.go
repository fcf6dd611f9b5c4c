package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"gputrain/internal/formats"
	"gputrain/model"
	"gputrain/run/data"
	"gputrain/run/data/texts"
	"gputrain/run/plan"
	"gputrain/run/runfile"
	"gputrain/run/setup"
	"gputrain/run/train"
	"gputrain/state"
)

type evalCmd struct {
	modelFlags
	textFlags
	Batch  int  `help:"Sequences at once; the loss does not depend on it, but that of vectors does: each query is held against the rows of its batch, of a run as many as in its steps." default:"8"`
	Limit  int  `help:"Most tokens to read, evenly spaced, in windows of at most as many; 0 = all." default:"0"`
	Window int  `help:"Tokens that the model sees at once; 0 = as many as in its run; its context, but at most 2048, for a model that is no run of gputrain." default:"0"`
	Stride int  `help:"Tokens from the start of one window of text to the start of the next, so that each token has at least the window less this before it; 0 = windows side by side, each of which predicts the first token of the next." default:"0"`
	JSON   bool `help:"One JSON object on standard output; with --jsonl one for each answer before it."`

	NoAnswers bool `help:"With --jsonl: only the loss. Else the model also answers what the rows ask, by its likeliest tokens, and the share of answers that are exactly right is told."`
}

// defaultBatch is the default of --batch.
const defaultBatch = 8

// strangersWindow is the default for models that may have been made for texts of any length, which take memory.
const strangersWindow = 2048

func (c *evalCmd) Run(ctx context.Context) error {
	if c.Batch < 1 || c.Limit < 0 {
		return usageError{fmt.Errorf("eval: --batch %d, --limit %d: wanted 1 sequence or more, and no limit below 0", c.Batch, c.Limit)}
	}
	if c.NoAnswers && len(c.JSONL) == 0 {
		return usageError{errors.New("eval: --no-answers: found no --jsonl, wanted rows with it")}
	}
	m, release, err := c.modelFlags.open(ctx)
	if err != nil {
		return err
	}
	defer release()
	run, err := setup.OfRun(c.Model)
	if err != nil {
		return err
	}
	window, err := c.window(run, m.Definition())
	if err != nil {
		return usageError{fmt.Errorf("eval: %w", err)}
	}
	cfg, err := c.learned(ctx, run, m.Definition())
	if err != nil {
		return err
	}
	loss := model.Objective{}.Row()
	if c.compares(cfg) || model.HeadOf(m.Definition()).Kind != "" {
		record, err := recordOf(c.Model)
		if err != nil {
			return err
		}
		if err := m.Measure(cfg.Objective(), record.Memory); err != nil {
			return err
		}
		loss = cfg.Objective().Row()
		if loss.Whole && run != nil && c.Batch == defaultBatch { // each is held against the others of its batch
			c.Batch = cfg.Train.Batch / cfg.Pipeline.Microbatches
		}
		c.Batch = max(1, c.Batch/loss.Group) * loss.Group
	}
	if len(c.Text) > 0 && cfg.DrawsRollouts() { // a text has no rewards
		cfg.Put("rollout.loss", "none", "--text")
		cfg.Rewards = nil
	}
	text, tokens, err := c.textFlags.open(ctx, &c.modelFlags, cfg, run != nil, m.Definition(), window)
	if err != nil {
		return err
	}
	defer text.Close()
	if tokens.Vocab() > m.Definition().Vocab() {
		return usageError{fmt.Errorf("eval: text has tokens up to %d, the model %d", tokens.Vocab()-1, m.Definition().Vocab()-1)}
	}
	if cfg.DrawsRollouts() {
		return c.rewards(ctx, m, cfg, text, tokens, window)
	}
	if c.compares(cfg) {
		if tokens, err = c.referred(cfg, m.Definition(), text, tokens, window); err != nil {
			return err
		}
	}
	whole := &wholeText{}
	if len(c.Text) > 0 {
		if whole, err = c.whole(text); err != nil {
			return err
		}
		tokens = whole.source
	} else if c.Stride > 0 {
		return usageError{fmt.Errorf("eval: --stride %d: wanted --text with it", c.Stride)}
	}
	windows := 0
	if c.Limit > 0 {
		windows = c.Limit / window
	}
	evaluation, err := batches(tokens, window, c.Batch, loss.Group, windows)
	if err != nil {
		return err
	}
	start := time.Now()
	r, err := m.Evaluate(ctx, evaluation)
	if err != nil {
		return err
	}
	if found := m.NotFinite(); math.IsNaN(r.Loss) || math.IsInf(r.Loss, 0) {
		err = fmt.Errorf("eval: found a loss of %v, wanted a finite one", r.Loss)
		if len(found) > 0 {
			return &setup.ModelError{Err: fmt.Errorf("%w: %w", err, found[0])}
		}
		return err
	}
	seconds := time.Since(start).Seconds()
	if loss.Form != "" {
		return c.tellFigures(r, loss, window, seconds)
	}
	if c.Limit > 0 || c.Stride == window {
		whole.bytes = 0 // those of some tokens are not known
	}
	bits := r.Loss * float64(r.Tokens) / math.Ln2 / float64(whole.bytes)
	rows, are := tokens.(*texts.Documents)
	asks := are && len(c.JSONL) > 0 && !c.NoAnswers && c.tokens.Text() != nil && cfg.Objective().Row().Form == ""
	if c.JSON {
		figures := map[string]any{
			"eval_loss": r.Loss, "perplexity": math.Exp(r.Loss), "tokens": r.Tokens, "tokens_per_second": float64(r.Tokens) / seconds, "window": window,
		}
		if c.Stride > 0 {
			figures["stride"] = c.Stride
		}
		if whole.bytes > 0 {
			figures["bytes"], figures["bits_per_byte"], figures["byte_perplexity"] = whole.bytes, bits, math.Exp2(bits)
		}
		if asks {
			right, all, err := c.answers(ctx, m, rows, window)
			if err != nil {
				return err
			}
			figures["answers"], figures["answers_right"] = all, right
		}
		return json.NewEncoder(os.Stdout).Encode(figures)
	}
	fmt.Printf("loss %.4f nats a token, perplexity %.3f, %d tokens in windows of %d, in %.1f s\n", r.Loss, math.Exp(r.Loss), r.Tokens, window, seconds)
	if whole.bytes > 0 {
		fmt.Printf("%.4f bits a byte, perplexity %.4f a byte, %d bytes\n", bits, math.Exp2(bits), whole.bytes)
	}
	if !asks {
		return nil
	}
	right, all, err := c.answers(ctx, m, rows, window)
	if err == nil && all > 0 {
		fmt.Printf("%d of %d answers are exactly right (%.1f %%), by the likeliest tokens\n", right, all, 100*float64(right)/float64(all))
	}
	return err
}

// learned is the run file by which rows are read and measured: that of the model's run, or one for the head of the model.
func (c *evalCmd) learned(ctx context.Context, run *runfile.Config, def model.Definition) (*runfile.Config, error) {
	cfg, h := runfile.New(), model.HeadOf(def)
	if run != nil {
		cfg = run.Clone()
	}
	switch {
	case h.Kind == "":
		return cfg, nil
	case len(c.Text) > 0:
		return nil, usageError{fmt.Errorf("eval: %s: found --text, wanted --jsonl with rows of which its head gives something (docs/heads.md): it has %s in place of logits", c.Model, headOf(h))}
	case cfg.Objective().Row().Head == h.Kind:
		return cfg, nil
	}
	objective := "classes"
	switch {
	case h.Kind == model.HeadVectors:
		objective = "embed"
	case h.Labels == 1:
		objective = "reward"
	}
	cfg.Put("head.objective", objective, "the model")
	if objective == "embed" && len(c.JSONL) > 0 {
		n, err := texts.NegativesOf(ctx, texts.Config{JSONL: c.JSONL})
		if err != nil {
			return nil, usageError{err}
		}
		cfg.Put("head.negatives", n, "--jsonl")
	}
	return cfg, nil
}

// compares tells whether rows of the run have completions that are preferred to others, or are good or bad, of which its loss is.
func (c *evalCmd) compares(cfg *runfile.Config) bool {
	form := cfg.Objective().Row().Form
	return len(c.Text) == 0 && (form == formats.Pairs || form == formats.Labelled)
}

// referred lays what the run's reference says beside its own rows, where that is neither in the model nor the model without its adapters.
func (c *evalCmd) referred(cfg *runfile.Config, def model.Definition, text *texts.Corpus, rows data.Source, window int) (data.Source, error) {
	o, elsewhere := cfg.Objective(), func(what string) error {
		return usageError{fmt.Errorf("eval: %s: found %s, wanted %s: evaluations in metrics.jsonl have what it gave; --text measures the loss of a text", c.Model, what,
			"adapters beside the model that they are compared with, or a run that keeps what its reference says of its own rows (reference.safetensors)")}
	}
	switch {
	case o.Row().Reference && cfg.Preference.Reference == runfile.ReferenceStart:
		return nil, elsewhere("preference.reference start, which is in no checkpoint")
	case !o.ReadsReference(def):
		return rows, nil
	case o.WantsReference(def):
		return nil, elsewhere(fmt.Sprintf("%s of a model that is trained whole, whose reference is in no checkpoint", o.Loss))
	case len(c.JSONL) > 0:
		return nil, elsewhere("--jsonl and a model that is trained whole, whose reference has said nothing of these rows")
	}
	return train.Referred(c.Model, text.Fingerprint, window, rows)
}

// tellFigures prints the loss and the figures of an objective.
func (c *evalCmd) tellFigures(r state.EvalResult, loss model.Loss, window int, seconds float64) error {
	figures := loss.Figures(r.Means)
	if c.JSON {
		all := map[string]any{"eval_loss": r.Loss, loss.Counts: r.Tokens, loss.Counts + "_per_second": float64(r.Tokens) / seconds, "window": window}
		for name, v := range figures {
			all[name] = v
		}
		return json.NewEncoder(os.Stdout).Encode(all)
	}
	line := fmt.Sprintf("loss %.4f", r.Loss)
	told := slices.Clone(loss.Shown) // these first
	for _, name := range loss.Sums {
		if !slices.Contains(told, name) {
			told = append(told, name)
		}
	}
	for _, name := range told {
		if v, there := figures[name]; there { // else all rows are good, or bad
			line += fmt.Sprintf(", %s %.4f", name, v)
		}
	}
	_, err := fmt.Printf("%s, %d %s, in %.1f s\n", line, r.Tokens, loss.Counts, seconds)
	return err
}

// seen is how many tokens a model sees at once: as many as in its run, nil where it is no run's.
func seen(run *runfile.Config, def model.Definition) int {
	if run == nil {
		return min(def.Context(), strangersWindow)
	}
	return plan.Context(run, def)
}

// window is how many tokens the model sees at once: as many as in its run, and no more than are to be read.
func (c *evalCmd) window(run *runfile.Config, def model.Definition) (int, error) {
	most, window := def.Context(), seen(run, def)
	if c.Limit > 0 {
		window = min(window, c.Limit)
	}
	window = cmp.Or(c.Window, window)
	switch {
	case window < 0 || window > most || c.Stride < 0:
		return 0, fmt.Errorf("--window %d, --stride %d: wanted at most the context %d, and nothing below 0", c.Window, c.Stride, most)
	case c.Limit > 0 && window > c.Limit:
		return 0, fmt.Errorf("--limit: found %d tokens, wanted at least --window, %d", c.Limit, window)
	case c.Stride > window && len(c.Text) > 0:
		return 0, fmt.Errorf("--stride: found %d, wanted at most the window of %d", c.Stride, window)
	}
	return window, nil
}

// wholeText is a text of which every token counts, but for the first where nothing stands before it.
type wholeText struct {
	source data.Source
	bytes  int64 // of the tokens that count; 0: not known
}

// whole puts before a text what its tokenizer does, and lays its windows.
func (c *evalCmd) whole(text *texts.Corpus) (*wholeText, error) {
	tokens, ok := text.Train.(*data.Tokens)
	if !ok {
		return nil, usageError{errors.New("eval: --text: found no text, wanted one")}
	}
	w := &wholeText{bytes: text.Bytes}
	var before []int32
	first := 1
	if t := c.tokens.Tokenizer; t != nil && w.bytes > 0 {
		before, _ = t.Around()
		var ids [1]int32
		if err := tokens.Read(ids[:], 0); err != nil {
			return nil, err
		}
		said, err := t.Decode(ids[:], false)
		if err != nil {
			return nil, err
		}
		first = len(said)
	}
	if w.bytes > 0 && len(before) == 0 {
		w.bytes -= int64(first)
	}
	tokens = tokens.After(before)
	w.source = tokens
	if c.Stride > 0 {
		w.source = data.Strided{Tokens: tokens, Stride: c.Stride}
	}
	return w, nil
}

// batches lays a source into batches of at most batch windows, which have to fit the machine's memory.
func batches(source data.Source, window, batch, group, limit int) (*data.Evaluation, error) {
	one, err := data.NewEvaluation(source, window, 1, limit)
	if err != nil {
		return nil, err
	}
	batch = int(min(int64(batch), max(int64(group), one.Windows())))
	if err := setup.FitsMachine(fmt.Sprintf("eval: --batch: batches of %d sequences", batch), 2, batch, window); err != nil {
		return nil, err
	}
	return data.NewEvaluation(source, window, batch, limit)
}
