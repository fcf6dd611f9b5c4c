package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"gputrain/cmd/gputrain/runfile"
	"gputrain/data"
	"gputrain/model"
	"gputrain/state"
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
}

// open opens what the flags name, else the text that the run at path learned from. Files are read as the run reads its own, as far as
// it has such.
func (f *textFlags) open(path string, def model.Definition) (text *data.Corpus, tokens data.Source, err error) {
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
	if fields := (data.Fields{Text: f.Field, Prompt: f.PromptField, Mask: f.MaskField}); fields != (data.Fields{}) {
		if len(f.JSONL) == 0 {
			return nil, nil, usageError{fmt.Errorf("eval: found --field, --prompt-field or --mask-field, wanted --jsonl with them")}
		}
		config.Fields = fields
	}
	if given {
		config.Text, config.JSONL, config.Mixture, config.Validation = f.Text, f.JSONL, nil, 0
	}
	if text, err = data.Open(config); err != nil {
		return nil, nil, usageError{err}
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
