package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"gputrain/hub"
	"gputrain/internal/suggest"
	"gputrain/model"
	"gputrain/run/record"
	"gputrain/run/runfile"
	"gputrain/run/setup"
)

type configCmd struct {
	Template configTemplateCmd `cmd:"" help:"Write a run file with every key, its default and what it means, or one for a new model of a family and size."`
	Explain  configExplainCmd  `cmd:"" help:"Show every value in force and where it came from."`
	Record   configRecordCmd   `cmd:"" help:"Write the run.yaml of a run directory that has lost it, from the settings that its run was made with."`
	Schema   configSchemaCmd   `cmd:"" help:"Write the JSON schema of run files. Editors then complete keys and mark errors: put '# yaml-language-server: $$schema=FILE' first in a run file."`
}

type configTemplateCmd struct {
	Family    string `help:"Write a run file for a new model of this family instead. With --size." placeholder:"KIND"`
	Size      string `help:"Approximate number of parameters, such as 0.1B, 100M or 500K." placeholder:"SIZE"`
	Vocab     int    `help:"Size of the vocabulary." placeholder:"256" xor:"vocab"`
	Tokenizer string `help:"Take the size of this tokenizer's vocabulary, rounded up to a multiple of 64." placeholder:"TOKENIZER" xor:"vocab"`
	Context   int    `help:"Tokens in a sequence." default:"1024"`
}

// Help lists the families that there are.
func (*configTemplateCmd) Help() string {
	return "Families: " + strings.Join(model.Kinds(), ", ") + "."
}

func (c *configTemplateCmd) Run() error {
	if c.Family == "" && c.Size == "" {
		return runfile.Template(os.Stdout)
	}
	if c.Family == "" || c.Size == "" {
		return usageError{errors.New("config template: found one of --family and --size, wanted both")}
	}
	parameters, err := parameterCount(c.Size)
	if err != nil {
		return usageError{fmt.Errorf("config template: --size: %w", err)}
	}
	vocab := cmp.Or(c.Vocab, 256)
	if c.Tokenizer != "" {
		t, err := setup.OpenTokenizer(c.Tokenizer)
		if err != nil {
			return usageError{err}
		}
		vocab = (t.VocabSize() + 63) / 64 * 64
	}
	if !slices.Contains(model.Kinds(), c.Family) {
		return usageError{fmt.Errorf("config template: --family: found %q, wanted one of %s%s", c.Family, strings.Join(model.Kinds(), ", "), suggest.DidYouMean(c.Family, model.Kinds()))}
	}
	keys, def, err := model.Sized(c.Family, parameters, vocab, c.Context, hub.Exports)
	if err != nil {
		return usageError{err}
	}
	return runfile.TemplateOf(os.Stdout, c.Family, keys, def, c.Tokenizer)
}

// parameterCount reads 0.1B, 100M, 500K or a plain number.
func parameterCount(size string) (float64, error) {
	digits := strings.TrimRight(size, "kKmMbB")
	n, err := strconv.ParseFloat(digits, 64)
	by, known := map[string]float64{"": 1, "K": 1e3, "M": 1e6, "B": 1e9}[strings.ToUpper(size[len(digits):])]
	if err != nil || !known || !(n > 0) || n*by > 1e12 {
		return 0, fmt.Errorf("found %q, wanted a number of parameters up to 1000B, such as 0.1B, 100M or 500K", size)
	}
	return n * by, nil
}

type configSchemaCmd struct{}

func (*configSchemaCmd) Run() error { return runfile.Schema(os.Stdout) }

type configRecordCmd struct {
	runFlags
}

func (c *configRecordCmd) Run(ctx context.Context) error {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	run, release, err := setup.Resume(ctx, cfg, setup.Resumed{AllowCommand: true}, told) // nothing runs, and so no command starts
	if err != nil {
		return err
	}
	defer release()
	return record.Write(os.Stdout, run.Settings)
}

type configExplainCmd struct {
	runFlags
}

func (c *configExplainCmd) Run() error {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	return cfg.Explain(os.Stdout)
}

// runFlags are the layers of a run's values.
type runFlags struct {
	Files []string `arg:"" optional:"" name:"run.yaml" help:"Run files; later ones override earlier ones. None = the built-in default run."`
	Set   []string `help:"Override one value of the run file, such as --set train.steps=100." placeholder:"KEY=VALUE" sep:"none"`
}

func (f *runFlags) load() (*runfile.Config, error) {
	cfg, err := runfile.ReadAll(f.Files, os.Environ(), f.Set)
	if err != nil {
		return nil, usageError{err}
	}
	return cfg, nil
}
