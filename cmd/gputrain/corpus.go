package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"

	"gputrain/model"
	"gputrain/run/data"
	"gputrain/run/data/texts"
	"gputrain/run/runfile"
	"gputrain/run/setup"
	"gputrain/run/train"
	"gputrain/state/checkpoint"
)

// textFlags name what a model is measured on.
type textFlags struct {
	Text        []string `help:"Text files or globs; none = the validation part of the run's own text." placeholder:"GLOB" xor:"text"`
	JSONL       []string `name:"jsonl" help:"Files or globs of documents, as data.jsonl, instead of text." placeholder:"GLOB" xor:"text"`
	Field       string   `help:"With --jsonl: field with the document; none = the run's field." placeholder:"NAME"`
	PromptField string   `help:"With --jsonl: field with a prompt, which precedes the document and does not count." placeholder:"NAME"`
	MaskField   string   `help:"With --jsonl: field with a list of 1 for tokens that count and 0 for the others." placeholder:"NAME"`
	Invalid     string   `help:"Treatment of text that is not UTF-8: an error that says where, or U+FFFD in its place (replace); none = as in the run." placeholder:"error|replace" enum:"error,replace," default:""`
	ChangedText bool     `help:"Measure the run's own text even if it has changed since the run learned from it."`
}

// reads is how files are read for a model in windows of so many tokens: as a run file says, whose run has begun in a directory; "": there is none.
func (f *modelFlags) reads(cfg *runfile.Config, def model.Definition, window int) (config texts.Config, began string, err error) {
	if f.unspoken != nil {
		return config, "", f.unspoken
	}
	return setup.ReadsAs(cfg, f.Model, f.tokens, def, window)
}

// open opens what the flags name, else the text that the run of a model learned from, for windows of so many tokens. Files are read as a run file says: that
// of the run, which is ours, or one without a run.
func (f *textFlags) open(ctx context.Context, of *modelFlags, cfg *runfile.Config, ours bool, def model.Definition, window int) (text *texts.Corpus, tokens data.Source, err error) {
	path, given := of.Model, len(f.Text)+len(f.JSONL) > 0
	if !ours && !given {
		return nil, nil, usageError{fmt.Errorf("eval: %s: found no run.yaml that names a text, wanted --text or --jsonl", path)}
	}
	config, began, err := of.reads(cfg, def, window)
	if err != nil {
		return nil, nil, err
	}
	config.Invalid, config.Replacing = cmp.Or(f.Invalid, config.Invalid), "--invalid replace"
	if fields := (data.Fields{Text: f.Field, Prompt: f.PromptField, Mask: f.MaskField}); fields != (data.Fields{}) {
		if len(f.JSONL) == 0 {
			return nil, nil, usageError{fmt.Errorf("eval: found --field, --prompt-field or --mask-field, wanted --jsonl with them")}
		}
		config.Fields = fields
	}
	if given {
		config.Text, config.JSONL, config.Held, config.Mixture, config.Validation = f.Text, f.JSONL, nil, nil, 0
		if len(f.Text) > 0 {
			config.Context = 1 // a text may be shorter than a window
		}
		text, err = openCorpus(ctx, config)
	} else {
		config.Dir = began
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

// openCorpus opens text; a signal meanwhile ends that, so that no file of tokens is left behind.
func openCorpus(ctx context.Context, config texts.Config) (*texts.Corpus, error) {
	ctx, stop := signal.NotifyContext(ctx, train.StopSignals()...)
	defer stop()
	return setup.OpenText(ctx, config, told)
}

// openOwn opens the text that the run at path learned from: where the run has found it, else, told, seen from here. Whether it is that text is
// known by its content.
func (f *textFlags) openOwn(ctx context.Context, path string, config texts.Config) (*texts.Corpus, error) {
	text, err := openCorpus(ctx, config)
	if errors.Is(err, os.ErrNotExist) && config.Dir != "" {
		say("gputrain: eval: the text of %s is not where the run has found it, in %s: looked for from here\n", path, config.Dir)
		config.Dir = ""
		text, err = openCorpus(ctx, config)
	}
	if err != nil {
		return nil, err
	}
	record, err := recordOf(path)
	wanted := record.Run.Fingerprint
	if err == nil && wanted != "" && wanted != text.Fingerprint && !f.ChangedText {
		why := "it is not what the run has learned from"
		if wanted == text.Earlier.Fingerprint {
			why = "a row has other tokens than the program that began the run made of it: " + text.Earlier.Why
		}
		err = usageError{fmt.Errorf("eval: %s: fingerprint of the text: found %s, wanted %s: %s; --changed-text measures it all the same, --text another one",
			path, text.Fingerprint, wanted, why)}
	}
	if err != nil {
		return nil, errors.Join(err, text.Close())
	}
	return text, nil
}

// recordOf is the record of the newest checkpoint of the run at path; the zero value without one.
func recordOf(path string) (r checkpoint.Record, err error) {
	store := setup.Checkpoints(path)
	steps, err := store.Steps()
	for _, step := range steps {
		record, err := checkpoint.ReadRecord(checkpoint.OS, filepath.Join(store.Dir, checkpoint.DirName(step)))
		if err == nil { // of damaged ones the model says more
			return record, nil
		}
	}
	return r, err
}
