package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"gputrain/cmd/gputrain/tuning"
	"gputrain/hub"
	"gputrain/internal/terminal"
	"gputrain/model"
	"gputrain/run/runfile"
	"gputrain/run/setup"
	"gputrain/state/checkpoint"
)

// AfterApply holds the first argument to what it is: with --from all arguments are data.
func (c *tuneCmd) AfterApply() error {
	if c.Model == "" {
		return errors.New("MODEL: found nothing, wanted a path; . is the directory at hand")
	}
	if c.From != "" {
		return nil
	}
	given := c.Model
	c.Model = kong.ExpandPath(given)
	return isModel(c.Model, given)
}

// arguments tell the model and the data: with --from the model is the base of the adapters that are there.
func (c *tuneCmd) arguments() error {
	if c.From != "" {
		return c.onward()
	}
	if len(c.Data) == 0 {
		return errors.New("tune: DATA: found nothing, wanted files of rows behind the model")
	}
	return nil
}

// onward makes of --from and the data the base, where the adapters begin, and the method that they were tuned by.
func (c *tuneCmd) onward() error {
	refused := func(format string, args ...any) error {
		return fmt.Errorf("tune: --from %s: "+format, append([]any{c.From}, args...)...)
	}
	if hub.Has(c.Model, "config.json") || strings.HasSuffix(c.Model, ggufSuffix) {
		return refused("found a model, %s, too, wanted DATA alone: the adapters say their base", c.Model)
	}
	c.Data = append([]string{c.Model}, c.Data...)
	for _, set := range c.Set {
		if key, _, _ := strings.Cut(set, "="); key == "lora.from" {
			return refused("found --set %s, too, wanted one of them", set)
		}
	}
	var from *hub.Bundle
	var err error
	if c.begin, err = bestOf(c.From); err == nil {
		from, err = setup.Open(c.begin, io.Discard)
	}
	if err != nil {
		return fmt.Errorf("tune: --from: %w", err)
	}
	defer from.Close()
	if !from.Has(model.AdapterConfigFile) {
		return refused("found a whole model, wanted adapters, or a run with some: gputrain export %s --to DIR, and gputrain tune DIR DATA", shellWord(c.From))
	}
	base, err := from.Base()
	if err != nil {
		return refused("%w", err)
	}
	c.Model = base.Path(".")
	if run, err := setup.OfRun(c.From); err == nil && run != nil {
		c.method = tuning.MethodOf(run.Objective().Row().Form).Name
	}
	return nil
}

// bestOf is the best checkpoint of a run that has evaluations, or what else a path names.
func bestOf(path string) (string, error) {
	path = kong.ExpandPath(path)
	store := setup.Checkpoints(path)
	if found, err := store.Newest(); err == nil && found.Path != "" {
		record, err := checkpoint.ReadRecord(checkpoint.OS, found.Path)
		if err != nil {
			return "", err
		}
		if steps, err := store.Steps(); err == nil && slices.Contains(steps, record.Run.BestStep) {
			return filepath.Join(store.Dir, checkpoint.DirName(record.Run.BestStep)), nil
		}
		return found.Path, nil
	}
	return path, nil
}

// within tells whether a path is another, or below it.
func within(path, root string) bool {
	relative, err := filepath.Rel(root, path)
	return err == nil && relative != ".." && !strings.HasPrefix(relative, ".."+string(os.PathSeparator))
}

// wentOn holds a run that goes on from others' adapters to --from.
func (c *tuneCmd) wentOn(cfg *runfile.Config) error {
	if found := cfg.LoRA.From; c.From != "" && (found == "" || !within(found, kong.ExpandPath(c.From))) {
		of := "adapters of its own"
		if found != "" {
			of = "those of " + terminal.Text(found)
		}
		return fmt.Errorf("tune: run directory %q: found a run that began with %s, wanted those of %s: name another directory with --run-dir", c.RunDir, of, c.From)
	}
	return nil
}
