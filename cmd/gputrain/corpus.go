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

// measured opens the text that a model is measured on: the one given, else the
// one its run learned from.
func measured(path string, text, jsonl []string, def model.Definition) (*data.Corpus, error) {
	cfg := runfile.New()
	file := filepath.Join(path, "run.yaml")
	err := cfg.File(file)
	given := len(text)+len(jsonl) > 0
	switch {
	case errors.Is(err, os.ErrNotExist) && given:
	case errors.Is(err, os.ErrNotExist):
		return nil, usageError{fmt.Errorf("eval: %s: found no run.yaml that names a text, wanted --text or --jsonl", path)}
	case err != nil:
		return nil, err
	}
	config := dataConfig(cfg, def, def.Context())
	if given {
		// Files given are read as the run's own are, as far as it has such.
		config.Text, config.JSONL, config.Mixture, config.Validation = text, jsonl, nil, 0
	}
	return data.Open(config)
}
