package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"gputrain/cmd/gputrain/lab/compare"
	"gputrain/gpu"
	"gputrain/internal/system"
	"gputrain/run/runfile"
	"gputrain/run/setup"
	"gputrain/run/train"
)

type compareCmd struct {
	runFlags
	Optimizers []string `help:"Optimizers, each as NAME with built-in settings, or as NAME=FILE with any name and a run file that has nothing but the optimizer. NAME@0.7 makes 0.7 of the steps, in a schedule of its own." default:"adamw,lion,muon,mars,quad,skew" placeholder:"NAME,..."`
	Rate       []string `help:"Peak learning rates by name; they override all others." placeholder:"NAME=RATE"`
	Seeds      int      `help:"Runs of each optimizer, with seeds from train.seed upwards." default:"3"`
	Steps      int      `help:"Updates of each run; 0 = train.steps." default:"0"`
	EvalEvery  int      `help:"Updates between evaluations; 0 = train.eval_every, or a twentieth of the steps if nothing sets that." default:"0"`
	Out        string   `help:"Folder for the table, the picture and the run directories." default:"runs/compare" type:"path" placeholder:"DIR"`
	Adapter    string   `help:"Index, part of a name, or backend:part." placeholder:"SEL"`
	Progress   string   `help:"auto, bar, plain, json or none." default:"auto" enum:"auto,bar,plain,json,none"`
	Fresh      bool     `help:"Start over: remove earlier runs' files from their run directories."`
}

// Run trains one run after the other, all optimizers with the first seed before the second, and writes what is known after each. A run
// that is finished is not repeated, one that was interrupted goes on.
func (c *compareCmd) Run(ctx context.Context) error {
	ctx, stop := train.Signals(ctx, os.Stderr, os.Exit)
	defer stop()
	return train.Stopping(ctx, c.run(ctx))
}

func (c *compareCmd) run(ctx context.Context) error {
	all, common, configs, err := c.entrants()
	if err != nil {
		return usageError{err}
	}
	result, err := c.comparison(ctx, all, common, configs)
	if err != nil {
		return err
	}
	if err := compare.Check(c.Out); err != nil {
		return usageError{err}
	}
	dev, err := (&trainCmd{Adapter: c.Adapter}).device(ctx, configs[0])
	if err != nil {
		return err
	}
	defer dev.Release()
	result.Adapter = fmt.Sprintf("%s, driver %s", dev.Adapter(), dev.Adapter().Driver)
	if err := system.MkdirAll(c.Out); errors.Is(err, fs.ErrExist) {
		return usageError{fmt.Errorf("compare: --out: %w", err)}
	} else if err != nil {
		return err
	}
	for i, seed := range result.Seeds {
		for k, e := range all {
			fmt.Fprintf(os.Stderr, "gputrain: compare: run %d of %d: %s, seed %d\n", i*len(all)+k+1, len(all)*len(result.Seeds), e.label, seed)
			run, err := c.one(ctx, dev, configs[k], filepath.Join(c.Out, fmt.Sprintf("%s-%d", e.label, seed)), seed)
			if err != nil {
				return err
			}
			result.Entrants[k].Runs = append(result.Entrants[k].Runs, run)
			if err := result.Write(c.Out); err != nil {
				return err
			}
		}
	}
	if err := result.Table(os.Stdout); err != nil {
		return err
	}
	_, err = fmt.Printf("picture and settings in %s, curves in %s\n", filepath.Join(c.Out, "compare.md"), filepath.Join(c.Out, "compare.json"))
	return err
}

// entrants reads the command line: every run is checked, as far as it can be without a device, before the first begins.
func (c *compareCmd) entrants() (all []entrant, common *runfile.Config, configs []*runfile.Config, err error) {
	if c.Seeds < 1 || c.Steps < 0 || c.EvalEvery < 0 {
		return nil, nil, nil, fmt.Errorf("compare: --seeds %d, --steps %d, --eval-every %d: wanted 1 seed or more, and nothing below 0", c.Seeds, c.Steps, c.EvalEvery)
	}
	if all, err = entrants(c.Optimizers, c.Rate); err != nil {
		return nil, nil, nil, err
	}
	if len(all) == 0 {
		return nil, nil, nil, errNoOptimizers
	}
	if common, err = c.common(); err != nil {
		return nil, nil, nil, err
	}
	for _, e := range all {
		cfg, err := c.with(common, e)
		if err == nil {
			_, err = cfg.OptimizerConfig()
		}
		if err != nil {
			return nil, nil, nil, err
		}
		configs = append(configs, cfg)
	}
	return all, common, configs, nil
}

// comparison is the frame of the result, without runs.
func (c *compareCmd) comparison(ctx context.Context, all []entrant, common *runfile.Config, configs []*runfile.Config) (*compare.Comparison, error) {
	run, release, err := setup.Train(ctx, configs[0], told)
	if err != nil {
		return nil, err
	}
	release()
	result := &compare.Comparison{
		Title: run.Title, Steps: common.Train.Steps, EvalEvery: run.EvalEvery, Baseline: all[0].label,
		Settings: map[string]any{}, Origins: map[string]string{},
	}
	for i := range c.Seeds {
		result.Seeds = append(result.Seeds, common.Train.Seed+uint64(i))
	}
	for i, e := range all {
		if e.label == "adamw" {
			result.Baseline = e.label
		}
		result.Entrants = append(result.Entrants, e.describe(configs[i]))
	}
	for key, value := range common.Values() {
		if own(key) || strings.HasPrefix(key, endKey) {
			continue
		}
		result.Settings[key] = value
		if common.Given(key) {
			result.Origins[key] = string(common.Origin(key))
		}
	}
	return result, nil
}

// one makes one run, or what is left of it, and reads its curve. Divergence is a result.
func (c *compareCmd) one(ctx context.Context, dev *gpu.Device, cfg *runfile.Config, dir string, seed uint64) (compare.Run, error) {
	cfg.Put("train.seed", seed, "--seeds")
	run, release, err := setup.Train(ctx, cfg, told)
	if err != nil {
		return compare.Run{}, err
	}
	defer release()
	run.Dir, run.Fresh, run.Progress = dir, c.Fresh, c.Progress
	_, err = train.Run(ctx, dev, run)
	var diverged *train.DivergedError
	switch {
	case errors.As(err, &diverged):
		say("gputrain: %v\n", err)
	case err != nil:
		return compare.Run{}, notRescheduled(err)
	}
	return compare.ReadRun(dir, seed, diverged)
}
