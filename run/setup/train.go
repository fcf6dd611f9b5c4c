package setup

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"gputrain/internal/ranks/cluster"
	"gputrain/model"
	"gputrain/run/data"
	"gputrain/run/data/texts"
	"gputrain/run/plan"
	"gputrain/run/runfile"
	"gputrain/run/train"
	"gputrain/state"
)

// Resumed is what is known of a run that goes on: its record, and where model.from, lora.from and data.tokenizer are that are no longer where its run file
// says; "": they are there.
type Resumed struct {
	Earlier                    *plan.Earlier // nil: the run begins
	Model, Adapters, Tokenizer string
	// AllowCommand lets commands of rewards start that nobody typed.
	AllowCommand bool
}

// over puts places into a run file, and gives back what it said.
func (r Resumed) over(cfg *runfile.Config) (said Resumed) {
	said = Resumed{Model: cfg.Model.From, Adapters: cfg.LoRA.From, Tokenizer: cfg.Data.Tokenizer}
	cfg.Model.From, cfg.LoRA.From, cfg.Data.Tokenizer = cmp.Or(r.Model, said.Model), cmp.Or(r.Adapters, said.Adapters), cmp.Or(r.Tokenizer, said.Tokenizer)
	return said
}

// Train turns a run file into a run: its text is opened until release, its model and optimizer are checked. Nothing is taken of a device yet.
// The caller says where the run is kept (Dir), and what else a run file does not. What there is to say meanwhile is written to out.
func Train(ctx context.Context, cfg *runfile.Config, out io.Writer) (run train.Config, release func(), err error) {
	return Resume(ctx, cfg, Resumed{}, out)
}

// Resume is Train of a run that may go on.
func Resume(ctx context.Context, spec *runfile.Config, r Resumed, out io.Writer) (run train.Config, release func(), err error) {
	begun := time.Now()
	spec = spec.Clone()
	said := r.over(spec)
	p, w, begin, err := described(spec, r.Earlier, out, from)
	if err != nil {
		return run, nil, err
	}
	undo := begin.Release
	defer func() {
		if err != nil {
			undo()
		}
	}()
	cfg, c := p.Spec, p.State
	if err := train.CheckNames(cfg.Train.HistogramMatch, c); err != nil {
		return run, nil, &UsageError{cfg.Wrong("train.histogram_match", err)}
	}
	ahead := fmt.Sprintf("run file: %s: %d batches of %d sequences of %d tokens", cfg.At("data.prefetch"), cfg.Data.Prefetch, c.Batch*c.Microbatches, c.Sequence)
	if err := FitsMachine(ahead, cfg.Data.Prefetch, c.Batch*c.Microbatches, c.Sequence); err != nil {
		return run, nil, err
	}
	from := within(cfg, Data(cfg, begin.Tokens, c.Definition, c.Sequence))
	described := time.Now()
	text, err := OpenText(ctx, from, out)
	if err != nil {
		return run, nil, err
	}
	read := time.Now()
	undo = func() {
		begin.Release()
		_ = text.Close()
	}
	if found, rows := text.Train.Vocab(), c.Definition.Vocab(); found > rows {
		return run, nil, &UsageError{cfg.Wrong("data.tokens", fmt.Errorf("found %s, a vocabulary of %d, wanted at most %d, the rows of the model",
			cfg.Data.Tokens, found, rows))}
	}
	if err := begin.Tokens.sayEnds(&c, text, begin.from()); err != nil {
		return run, nil, err
	}
	if begin.teacher != nil {
		if err = begin.teacher.ready(spec, text, c.Sequence, c.Definition.Vocab()); err != nil {
			return run, nil, &UsageError{err}
		}
	}
	w.Text = &plan.Text{Ends: c.Ends}
	if cfg.Data.Epochs > 0 {
		if w.Text.Steps, err = Steps(cfg, c, text.Train); err != nil {
			return run, nil, &UsageError{err}
		}
	}
	told := len(p.Told)
	if p, err = plan.Resolve(spec, w); err != nil {
		return run, nil, &UsageError{err}
	}
	tell(out, p.Told[told:])
	if pad, there := model.Padding(p.State.Definition); there && model.HeadOf(p.State.Definition).Kind == model.HeadScores {
		for _, rows := range []data.Source{text.Train, text.Validation} {
			if rows, are := rows.(*texts.Documents); are && rows != nil {
				if err := rows.Ends(pad); err != nil {
					return run, nil, &UsageError{fmt.Errorf("data: %w", err)}
				}
			}
		}
	}
	p.State.Companions, p.State.Consulted, p.State.Scorers = c.Companions, c.Consulted, c.Scorers
	cfg, c = p.Spec, p.State
	bucket, err := runfile.ParseBytes(cfg.Cluster.Bucket)
	if err != nil {
		return run, nil, &UsageError{err}
	}
	run = train.Config{
		Options: cfg.Train.Loop,
		Sums:    cluster.Sums{Wire: cluster.Wire(cfg.Cluster.Wire), Bucket: int(bucket)},
		State:   c, Params: begin.Params, From: begin.Dir, Loaded: begin.loaded, Drawn: begin.Drawn, LoRA: begin.LoRA, Reads: reads(cfg, text),
		Train: text.Train, Validation: text.Validation, Fingerprint: text.Fingerprint, Earlier: text.Earlier, Prefetch: cfg.Data.Prefetch,
		Before:      []train.Span{{Name: "read the model's description", Spent: described.Sub(begun)}, {Name: "read the text", Spent: read.Sub(described)}},
		DataTimeout: from.Timeout, Data: amounts(cfg, text), Notes: append([]string{provenance(text, begin.Tokens)}, text.Notes...),
		Given: given(cfg), Title: fmt.Sprintf("%s on %s", c.Definition.Kind(), text.Name),
	}
	run.Tokenizer = begin.Tokens.Text()
	if err := ask(&run, cfg, text, begin.Tokens); err != nil {
		return run, nil, err
	}
	if cfg.DrawsRollouts() {
		if err := rollouts(&run, cfg, text, begin.Tokens, begin.from(), r.AllowCommand, out); err != nil {
			return run, nil, &UsageError{err}
		}
	}
	if err := asked(&run, cfg, begin.Tokens); err != nil {
		return run, nil, &UsageError{err}
	}
	said.over(cfg) // a run records what its run file says
	run.Settings = begin.Tokens.explain(Settings(cfg, c.Definition))
	return run, undo, nil
}

// Steps is how many updates the epochs of a run file are.
func Steps(cfg *runfile.Config, c state.Config, text data.Source) (int64, error) {
	rows, each := c.Batch*c.Microbatches, int64(1) // windows of so many updates
	if cfg.DrawsRollouts() {
		each = int64(cfg.Rollout.Updates)
		rows = max(1, rows*cfg.Rollout.Updates/cfg.Rollout.Samples)
	}
	n, err := data.Steps(text, c.Sequence, rows, c.Seed, cfg.Data.Epochs)
	return n * each, err
}

// reads are the run files and the files that they name, besides model.from and lora.from.
func reads(cfg *runfile.Config, text *texts.Corpus) (all []train.Read) {
	d := cfg.Data
	for _, f := range cfg.Read {
		all = append(all, train.Read{Key: "run file", Path: f.Path})
	}
	if d.Tokenizer != "" {
		all = append(all, train.Read{Key: "data.tokenizer", Path: d.Tokenizer})
	}
	if cfg.Distil.Teacher != "" {
		all = append(all, train.Read{Key: "distil.teacher", Path: cfg.Distil.Teacher})
	}
	if strings.HasSuffix(d.Template, ".jinja") {
		all = append(all, train.Read{Key: "data.template", Path: d.Template})
	}
	key := ""
	switch {
	case len(d.Mixture) > 0:
		key = "data.mixture"
	case len(d.JSONL) > 0:
		key = "data.jsonl"
	case len(d.Text) > 0:
		key = "data.text"
	default:
		return all // the toolchain's source
	}
	for _, path := range text.Paths {
		all = append(all, train.Read{Key: key, Path: path})
	}
	return all
}

// provenance tells what the text is: a report says it long after.
func provenance(text *texts.Corpus, tokens Tokens) string {
	what := fmt.Sprintf("%s, files: %d, tokens: %s", text.Name, text.Files, text.Tokens)
	if tokens.Tokenizer != nil {
		what += fmt.Sprintf(" (%s, %.12s)", tokens.Path, tokens.Tokenizer.Fingerprint())
	}
	if t, ok := text.Train.(*data.Tokens); ok {
		what += fmt.Sprintf(", %d of them to train on", t.Len())
	}
	return fmt.Sprintf("%s, split %s, fingerprint %.12s", what, text.Split, text.Fingerprint)
}

// amounts are how much text there is. Of a mixture with sources of text only the files are counted.
func amounts(cfg *runfile.Config, text *texts.Corpus) *train.Amounts {
	a := &train.Amounts{Files: text.Files, Bytes: text.Bytes}
	if slices.ContainsFunc(cfg.Data.Mixture, func(s runfile.Source) bool { return len(s.Text) > 0 }) {
		return a
	}
	if t, ok := text.Train.(*data.Tokens); ok {
		a.Tokens = t.Len()
	}
	for _, t := range text.Tallies {
		a.Documents, a.Groups, a.Tokens = a.Documents+t.Documents, a.Groups+t.Groups, a.Tokens+t.Tokens
	}
	return a
}

// prompt is what samples begin with: something that the text itself has.
func prompt(cfg *runfile.Config) string {
	if cfg.Train.Sample.Prompt != "" {
		return cfg.Train.Sample.Prompt
	}
	if d := cfg.Data; len(d.Text)+len(d.JSONL)+len(d.Mixture) == 0 {
		return "func "
	}
	return "\n"
}

// known is a prompt that nobody has chosen, or the first text of a token if the tokenizer does not have what that is made of.
func known(t train.Tokenizer, prompt string) string {
	encodes := func(text string) bool {
		ids, err := t.Encode(text)
		return err == nil && len(ids) > 0
	}
	for id := int32(0); !encodes(prompt) && int(id) < t.Size(); id++ {
		if text := train.TextOf(t, nil, []int32{id}); text != "" && encodes(text) {
			return text
		}
	}
	return prompt
}

// given are the run files as they were.
func given(cfg *runfile.Config) []train.Given {
	var out []train.Given
	for _, f := range cfg.Read {
		out = append(out, train.Given{Name: f.Path, Text: f.Text})
	}
	return out
}
