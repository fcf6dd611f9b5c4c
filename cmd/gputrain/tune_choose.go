package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"gputrain/buffers/array"
	"gputrain/cmd/gputrain/tuning"
	"gputrain/gpu"
	"gputrain/hub"
	"gputrain/internal/stranger"
	"gputrain/internal/terminal"
	"gputrain/model"
	"gputrain/run/fit"
	"gputrain/run/runfile"
	"gputrain/run/setup"
	"gputrain/run/train"
	"gputrain/state"
)

// choosing is what tune knows when it chooses.
type choosing struct {
	set         []string
	method      string // that the user names; "": the rows tell
	before      string // by which the adapters were tuned that it goes on from, if the rows suit it; "": nobody knows
	card        string // that is not here, to choose for
	given       tuning.Given
	device      *gpu.Device
	planned     state.Config // what was last asked about
	takes       fit.Takes    // and what it takes
	begun       time.Time
	progress    train.Progress // nil: none is shown
	lasts, each string         // how long all takes, as far as is known, and each
	model       *hub.Bundle
	definition  model.Definition
	description string   // of the conversations
	sets        []string // what is said of the data sets that they are of
}

// choose chooses, says so, and makes the run file, which the run writes once it has its directory; for a card that is not here it only says so.
func (c *tuneCmd) choose(ctx context.Context, path, model string, rows []string) ([]byte, error) {
	p, err := train.NewProgress(c.Progress, os.Stderr, 10*time.Second)
	if err != nil {
		return nil, usageError{err}
	}
	h := &choosing{set: c.Set, method: c.Method, before: c.method, card: c.Memory, begun: time.Now(), progress: p, given: tuning.Given{Model: model, Rows: rows, Held: c.Held, From: c.begin, Rewards: c.rewards}, sets: c.sets}
	p.Busy("choose", 0, 0)
	recipe, cfg, err := h.chosen(ctx, c.Adapter)
	p.Close()
	_ = h.model.Close() // nothing was written
	if err != nil {
		return nil, err
	}
	defer h.device.Release()
	choices := recipe.Choices(cfg)
	if err := h.tell(os.Stdout, c.Model, recipe, cfg, choices); err != nil || !c.trains() {
		return nil, cmp.Or(err, c.dry(os.Stdout, path))
	}
	var file bytes.Buffer
	if err := tuning.Write(&file, choices); err != nil {
		return nil, err
	}
	fmt.Printf("run file   %s\n\n", terminal.Text(path))
	return file.Bytes(), nil
}

// dry says that nothing was written, and what the command would do.
func (c *tuneCmd) dry(out io.Writer, path string) error {
	if !c.DryRun {
		return nil
	}
	does := "the same command without --dry-run trains"
	if _, err := os.Stat(path); err == nil && !c.Fresh {
		does += " with what was chosen before, " + path + "; with --fresh by this"
	}
	_, err := fmt.Fprintf(out, "dry run    nothing was written; %s\n", terminal.Text(does))
	return err
}

// Write tells what there is to say meanwhile.
func (h *choosing) Write(text []byte) (int, error) {
	if h.progress != nil {
		h.progress.Clear()
	}
	return told.Write(text)
}

// chosen is the recipe, and the run file in force with it. The device is open then, if there is no error.
func (h *choosing) chosen(ctx context.Context, sel string) (r tuning.Recipe, cfg *runfile.Config, err error) {
	text, begun, err := h.read(ctx)
	if err != nil {
		return r, nil, err
	}
	defer text.Close()
	facts, err := h.measure(text, begun)
	if err != nil {
		return r, nil, err
	}
	if err := h.weights(begun); err != nil {
		return r, nil, err
	}
	if err := h.open(ctx, sel, &facts); err != nil {
		return r, nil, err
	}
	defer func() {
		if err != nil {
			h.device.Release()
		}
	}()
	if r, err = tuning.Choose(facts, func(r tuning.Recipe) (bool, error) { return h.fits(ctx, r) }); err != nil {
		var large *tuning.TooLargeError
		if errors.As(err, &large) {
			err = cmp.Or(h.advise(ctx, large), err)
		}
		return r, nil, err
	}
	if cfg, err = h.config(&r); err != nil {
		return r, nil, err
	}
	steps := cfg.Train.Steps
	if cfg.Data.Epochs > 0 {
		if steps, err = setup.Steps(cfg, h.planned, text.Train); err != nil {
			return r, nil, usageError{err}
		}
		r.Last(steps)
		if cfg, err = h.config(&r); err != nil {
			return r, nil, err
		}
	}
	h.lasts, h.each, err = h.expected(ctx, cfg, text, steps)
	return r, cfg, err
}

// weights makes sure that the model has its weights, once for all recipes: plans need none, and neither does a card that is not here.
func (h *choosing) weights(cfg *runfile.Config) error {
	if h.card != "" {
		return nil
	}
	_, begin, err := setup.State(cfg, io.Discard)
	if err == nil {
		begin.Release()
	}
	return err
}

// replaceable refuses to choose anew in the place of a file that this command has not written, and of a run that another process trains.
func (c *tuneCmd) replaceable(path string) error {
	text, err := stranger.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && !tuning.Wrote(text) {
		err = usageError{fmt.Errorf("tune: --fresh: %s: found a file of others, wanted one that tune has written: name another directory with --run-dir, or move the file", path)}
	}
	if err != nil {
		return err
	}
	return train.CheckFree(c.RunDir)
}

// config is the run file of a recipe, nil for none yet, with what the user sets over it.
func (h *choosing) config(r *tuning.Recipe) (*runfile.Config, error) {
	cfg, err := tuning.Config(h.given, r, os.Environ(), h.set)
	if err == nil {
		err = h.own(cfg)
	}
	if err != nil {
		return nil, usageError{err}
	}
	return cfg, nil
}

// own refuses what tune does not leave to --set.
func (h *choosing) own(cfg *runfile.Config) error {
	switch {
	case tuning.Named(cfg, "model.from"):
		return fmt.Errorf("tune: %s: found %s, wanted nothing: the model is the first argument", cfg.At("model.from"), cfg.Model.From)
	case tuning.Named(cfg, "data.jsonl"):
		return fmt.Errorf("tune: %s: found %s, wanted nothing: files of rows are arguments",
			cfg.At("data.jsonl"), strings.Join(cfg.Data.JSONL, ", "))
	case tuning.Named(cfg, "data.held"):
		return fmt.Errorf("tune: %s: found %s, wanted nothing: --held names files that are held out",
			cfg.At("data.held"), strings.Join(cfg.Data.Held, ", "))
	case !cfg.LoRA.On():
		return fmt.Errorf("tune: %s: found 0, wanted 1 or more: gputrain train --set model.from=%s trains all of a model",
			cfg.At("lora.rank"), shellWord(h.given.Model))
	case cfg.Pipeline.Stages > 1:
		return errors.New("tune: pipeline.stages: found more than 1, wanted 1: gputrain train takes a run file with stages")
	}
	return nil
}

// open opens the adapter, and says what it can give.
func (h *choosing) open(ctx context.Context, sel string, f *tuning.Facts) error {
	cfg, err := h.config(nil)
	if err != nil {
		return err
	}
	if h.card != "" {
		devices, err := devicesOn(cfg, h.card)
		if err != nil {
			return err
		}
		h.device = devices[0]
	} else if h.device, err = opened(ctx, cfg, sel); err != nil {
		return err
	}
	f.Machine.Memory, _, _ = h.device.Available()
	f.Machine.Software = !h.device.Adapter().Hardware()
	for _, base := range array.Names(array.Bases) {
		if cfg.Set("model.base="+base) == nil && cfg.Validate() == nil {
			f.Machine.Bases = append(f.Machine.Bases, base)
		}
	}
	return nil
}

// opened is the adapter of a run file.
func opened(ctx context.Context, cfg *runfile.Config, sel string) (*gpu.Device, error) {
	adapters, err := setup.Adapters(cfg, sel)
	if err != nil {
		return nil, err
	}
	options, err := setup.DeviceOptions(cfg, adapters...)
	if err != nil {
		return nil, err
	}
	return gpu.Open(ctx, adapters[0], options)
}

// fits tells whether the plan of a recipe fits the adapter.
func (h *choosing) fits(ctx context.Context, r tuning.Recipe) (bool, error) {
	cfg, err := h.config(&r)
	if err != nil {
		return false, err
	}
	if h.planned, err = plannedState(ctx, cfg, io.Discard); err != nil {
		return false, err
	}
	j, err := state.NewJob(h.planned)
	if err != nil {
		return false, err
	}
	h.takes, err = fit.On{Devices: []*gpu.Device{h.device}}.Takes(ctx, j)
	return h.takes.Fits, err
}

// memory is what was last asked about: of the device, and of the machine beside where the device is a processor.
func (h *choosing) memory(cfg *runfile.Config) (device, host uint64) {
	if device = h.takes.Bytes(); h.device.Adapter().Hardware() {
		return device, 0
	}
	return device, h.takes.Host.Bytes(cfg.Train.SaveAsync)
}
