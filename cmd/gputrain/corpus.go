package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"gputrain/checkpoint"
	"gputrain/data"
	"gputrain/gpu"
	"gputrain/model"
	"gputrain/state"
	"gputrain/train"
	"gputrain/train/runfile"
)

// dataConfig is what a run file says to read for a model, in windows of context tokens.
func dataConfig(cfg *runfile.Config, def model.Definition, context int) data.Config {
	d, vocab := cfg.Data, def.Vocab()
	if d.Tokens == "u16" {
		vocab = min(vocab, 1<<16)
	}
	out := data.Config{
		Text: d.Text, JSONL: d.JSONL, MixtureEnd: d.MixtureEnd, Tokens: d.Tokens, Vocab: vocab,
		Fields: data.Fields{Text: d.Field, Prompt: d.PromptField, Mask: d.MaskField},
		Layout: data.Layout{End: d.EOS, Packing: d.Packing, Long: d.Long}, Validation: d.Validation, Context: context,
	}
	for _, s := range d.Mixture {
		out.Mixture = append(out.Mixture, data.Part{
			Text: s.Text, JSONL: s.JSONL, Fields: data.Fields{Text: s.Field, Prompt: s.PromptField, Mask: s.MaskField}, Weight: s.Weight,
		})
	}
	return out
}

// openText opens text; what the user can mend is a usage error, the end of ctx and a disk that hangs are not.
func openText(ctx context.Context, c data.Config) (*data.Corpus, error) {
	text, err := data.Open(ctx, c)
	var late *data.TimeoutError
	if err == nil || ctx.Err() != nil || errors.As(err, &late) {
		return text, err
	}
	return nil, usageError{err}
}

// readingProgress tells on w of reading that takes its time: after 2 seconds, 4, 8 and so on.
func readingProgress(w io.Writer) func(read int64, took time.Duration) {
	next := 2 * time.Second
	return func(read int64, took time.Duration) {
		if took >= next {
			fmt.Fprintf(w, "reading data: %s in %.0f s\n", size(uint64(read)), took.Seconds())
			next *= 2
		}
	}
}

// fitsMachine refuses so many batches of rows and columns of tokens and labels that are more than the machine can give.
func fitsMachine(what string, count, rows, columns int) error {
	const each = 4 + 4
	wanted := float64(count) * float64(rows) * float64(columns) * each
	if free, known := gpu.MachineMemory(); known && wanted > float64(free) {
		return fmt.Errorf("%s: %s wanted, the machine has %s: %w", what, size(uint64(wanted)), size(free), gpu.ErrOutOfMemory)
	}
	return nil
}

// layEpochs puts the steps that data.epochs come to into train.steps.
func layEpochs(cfg *runfile.Config, text *data.Corpus, c state.Config) error {
	if cfg.Data.Epochs == 0 {
		return nil
	}
	steps, err := data.Steps(text.Train, c.Sequence, c.Batch*c.Accumulate, c.Seed, cfg.Data.Epochs)
	if err != nil {
		return err
	}
	if from := cfg.Origin("train.steps"); from != "default" && int64(cfg.Train.Steps) != steps {
		return fmt.Errorf("run file: train.steps (%s): found %d, wanted nothing beside data.epochs (%s): %d epochs are %d steps",
			from, cfg.Train.Steps, cfg.Origin("data.epochs"), cfg.Data.Epochs, steps)
	}
	return cfg.Lay("train.steps", strconv.FormatInt(steps, 10), "data.epochs")
}

// textFlags name what a model is measured on.
type textFlags struct {
	Text        []string `help:"Text files or globs; none = the validation part of the run's own text." placeholder:"GLOB" xor:"text"`
	JSONL       []string `name:"jsonl" help:"Files or globs of documents, a JSON object a line, instead of text." placeholder:"GLOB" xor:"text"`
	Field       string   `help:"Of --jsonl: field of the document; none = as the run has it." placeholder:"NAME"`
	PromptField string   `help:"Of --jsonl: field that stands before it and does not count." placeholder:"NAME"`
	MaskField   string   `help:"Of --jsonl: field with a list of 1 and 0 for the tokens that count and those that do not." placeholder:"NAME"`
	ChangedText bool     `help:"Measure the run's own text also where it is no longer what the run has learned from."`
}

// open opens what the flags name, else the text that the run at path learned from. Files are read as the run reads its own, as far as
// it has such.
func (f *textFlags) open(ctx context.Context, path string, def model.Definition) (text *data.Corpus, tokens data.Source, err error) {
	cfg := runfile.New()
	err = cfg.File(filepath.Join(path, "run.yaml"))
	given := len(f.Text)+len(f.JSONL) > 0
	switch {
	case errors.Is(err, os.ErrNotExist) && given:
	case errors.Is(err, os.ErrNotExist):
		return nil, nil, usageError{fmt.Errorf("eval: %s: found no run.yaml that names a text, wanted --text or --jsonl", path)}
	case err != nil:
		return nil, nil, err
	}
	config := dataConfig(cfg, def, def.Context())
	config.Progress = readingProgress(os.Stderr)
	if fields := (data.Fields{Text: f.Field, Prompt: f.PromptField, Mask: f.MaskField}); fields != (data.Fields{}) {
		if len(f.JSONL) == 0 {
			return nil, nil, usageError{fmt.Errorf("eval: found --field, --prompt-field or --mask-field, wanted --jsonl with them")}
		}
		config.Fields = fields
	}
	if given {
		config.Text, config.JSONL, config.Mixture, config.Validation = f.Text, f.JSONL, nil, 0
		text, err = openText(ctx, config)
	} else {
		text, err = f.openOwn(ctx, path, config)
	}
	if err != nil {
		return nil, nil, err
	}
	tokens = text.Validation
	if given {
		tokens = text.Train
	}
	if tokens == nil {
		text.Close()
		return nil, nil, usageError{fmt.Errorf("eval: %s: the run kept nothing for validation, wanted --text or --jsonl", path)}
	}
	return text, tokens, nil
}

// openOwn opens the text that the run at path learned from: where the run has found it, else, told, seen from here. Whether it is that text is
// known by its content.
func (f *textFlags) openOwn(ctx context.Context, path string, config data.Config) (*data.Corpus, error) {
	marker, err := train.ReadMarker(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	config.Dir = marker.From
	text, err := openText(ctx, config)
	if errors.Is(err, os.ErrNotExist) && config.Dir != "" {
		fmt.Fprintf(os.Stderr, "gputrain: eval: the text of %s is not where the run has found it, in %s: looked for from here\n", path, config.Dir)
		config.Dir = ""
		text, err = openText(ctx, config)
	}
	if err != nil {
		return nil, err
	}
	wanted, err := fingerprintOf(path)
	if err == nil && wanted != "" && wanted != text.Fingerprint && wanted != text.Former && !f.ChangedText {
		err = usageError{fmt.Errorf("eval: %s: fingerprint of the text: found %s, wanted %s: it is not what the run has learned from; --changed-text measures it all the same, --text another one",
			path, text.Fingerprint, wanted)}
	}
	if err != nil {
		return nil, errors.Join(err, text.Close())
	}
	return text, nil
}

// fingerprintOf is that of the text which the run at path has learned from, as its newest checkpoint has it; "" without one.
func fingerprintOf(path string) (string, error) {
	store := checkpoints(path)
	steps, err := store.Steps()
	for _, step := range steps {
		record, err := checkpoint.ReadRecord(checkpoint.OS, filepath.Join(store.Dir, checkpoint.DirName(step)))
		if err == nil { // of damaged ones the model says more
			return record.Run.Fingerprint, nil
		}
	}
	return "", err
}
