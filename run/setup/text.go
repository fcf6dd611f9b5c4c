package setup

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"gputrain/gpu"
	"gputrain/model"
	"gputrain/run/data"
	"gputrain/run/data/texts"
	"gputrain/run/plan"
	"gputrain/run/runfile"
)

// Data is what a run file says to read for a model, in windows of context tokens.
func Data(cfg *runfile.Config, tokens Tokens, def model.Definition, context int) texts.Config {
	d, vocab := cfg.Data, def.Vocab()
	if tokens.Kind == "u16" {
		vocab = min(vocab, 1<<16)
	}
	out := texts.Config{
		Text: d.Text, JSONL: d.JSONL, Held: d.Held, MixtureEnd: d.MixtureEnd, Tokens: tokens.Kind, Vocab: vocab, Invalid: d.Invalid, Cache: cacheOf(cfg),
		Fields: d.Fields, Format: d.Format, Chats: tokens.Chats,
		Layout: d.Layout, Validation: d.Validation, Context: context,
	}
	if len(d.Held) > 0 {
		out.Validation = 0
	}
	out.Layout.Together = d.Documents == runfile.DocumentsTogether
	o := cfg.Objective()
	if loss := o.Row(); loss.Form != "" {
		out.Format, out.Group = loss.Form, loss.Group
	}
	if o.Packed {
		out.PerWindow = o.PerWindow(context)
	}
	if h := model.HeadOf(def); h.Kind == model.HeadScores {
		out.Labels, out.Names = h.Labels, h.Names
	}
	if tokens.Kind == plan.TokenizerTokens {
		out.Tokenizer = tokens.Tokenizer
	}
	for _, s := range d.Mixture {
		out.Mixture = append(out.Mixture, texts.Part{
			Text: s.Text, JSONL: s.JSONL, Fields: data.Fields{Text: s.Field, Prompt: s.PromptField, Mask: s.MaskField}, Weight: s.Weight,
		})
	}
	return out
}

// within bounds what is read as data.timeout says.
func within(cfg *runfile.Config, c texts.Config) texts.Config {
	c.Timeout = cfg.Data.Timeout.Time()
	if c.Chats.Template != nil {
		c.Chats.Template.Within(c.Timeout)
	}
	return c
}

// Text is what the run of a run file reads, in windows of context tokens: with the tokenizer, but without the weights of its model.
func Text(ctx context.Context, cfg *runfile.Config, out io.Writer) (text *texts.Corpus, tokens Tokens, context int, err error) {
	w, begin, err := look(cfg, out, onPaper)
	if err != nil {
		return nil, tokens, 0, err
	}
	defer begin.Release()
	def, err := plan.Network(cfg, w)
	if err == nil {
		cfg = cfg.Clone()
		err = plan.FitContext(cfg, def, nil)
	}
	if err != nil {
		return nil, tokens, 0, &UsageError{err}
	}
	context = plan.Context(cfg, def)
	from := within(cfg, Data(cfg, begin.Tokens, def, context))
	text, err = OpenText(ctx, from, out)
	return text, begin.Tokens, context, err
}

// OpenText opens text, and tells on out of reading that takes its time. What the user can mend is a usage error; the end of ctx, a disk that hangs and one
// that is full are not.
func OpenText(ctx context.Context, c texts.Config, out io.Writer) (*texts.Corpus, error) {
	c.Progress = readingProgress(out)
	text, err := texts.Open(ctx, c)
	_, late := errors.AsType[*data.TimeoutError](err)
	cache, ok := errors.AsType[*data.CacheError](err)
	if err == nil || ctx.Err() != nil || late || ok && cache.Full() {
		return text, err
	}
	return nil, &UsageError{err}
}

// readingProgress tells on w of reading that takes its time: after 2 seconds, 4, 8 and so on, and then each half minute.
func readingProgress(w io.Writer) func(texts.Progress) {
	const first, most = 2 * time.Second, 30 * time.Second
	next := first
	return func(p texts.Progress) {
		if p.Took < next {
			return
		}
		next += min(next, most)
		far, when := runfile.FormatBytes(uint64(p.Bytes)), "in"
		if p.Of > 0 {
			far, when = far+" of "+runfile.FormatBytes(uint64(p.Of)), "after"
		}
		if p.OfRows {
			far += fmt.Sprintf(", %d rows,", p.Rows)
		}
		fmt.Fprintf(w, "%s data: %s %s %.0f s\n", cmp.Or(p.Phase, "reading"), far, when, p.Took.Seconds())
	}
}

// FitsMachine refuses so many batches of rows and columns of tokens and labels that are more than the machine can give.
func FitsMachine(what string, count, rows, columns int) error {
	const each = 4 + 4
	wanted := float64(count) * float64(rows) * float64(columns) * each
	if free, known := gpu.MachineMemory(); known && wanted > float64(free) {
		return fmt.Errorf("%s: %s wanted, the machine has %s: %w", what, runfile.FormatBytes(uint64(wanted)), runfile.FormatBytes(free), gpu.ErrOutOfMemory)
	}
	return nil
}
