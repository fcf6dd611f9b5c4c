package main

import (
	"context"
	"os"

	"gputrain/train"
	"gputrain/train/runfile"
	"gputrain/train/setup"
)

type configCmd struct {
	Template configTemplateCmd `cmd:"" help:"Write a run file with every key, its default and what it means."`
	Explain  configExplainCmd  `cmd:"" help:"Show every value in force and where it came from."`
	Record   configRecordCmd   `cmd:"" help:"Write what run.yaml of a run directory would say: for one whose run.yaml was lost, with the settings that its run was made with."`
	Schema   configSchemaCmd   `cmd:"" help:"Write the JSON schema of run files. Editors that know it complete keys and mark what is wrong: put '# yaml-language-server: $$schema=FILE' first in a run file."`
}

type configTemplateCmd struct{}

func (*configTemplateCmd) Run() error { return runfile.Template(os.Stdout) }

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
	run, release, err := setup.Train(ctx, cfg, os.Stderr)
	if err != nil {
		return err
	}
	defer release()
	return train.WriteSettings(os.Stdout, run.Settings)
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
	Files []string `arg:"" optional:"" name:"run.yaml" help:"Run files, later ones over earlier ones; none = the built-in default run."`
	Set   []string `help:"Lay one value over the run file, such as --set train.steps=100." placeholder:"KEY=VALUE" sep:"none"`
}

func (f *runFlags) load() (*runfile.Config, error) {
	cfg, err := runfile.ReadAll(f.Files, os.Environ(), f.Set)
	if err != nil {
		return nil, usageError{err}
	}
	return cfg, nil
}
