package setup

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"gputrain/buffers"
	"gputrain/model"
	"gputrain/train/runfile"
)

// adapted is def with the adapters that a run file describes, and w with their parameters; without any both are as they were.
func adapted(cfg *runfile.Config, def model.Definition, w *Weights, out io.Writer) (model.Definition, error) {
	switch {
	case cfg.LoRA.From != "":
		return continued(cfg, def, w, out)
	case cfg.LoRA.Rank == 0:
		return def, nil
	}
	def, err := model.WithLoRA(def, cfg.LoRA.LoRA)
	if err != nil {
		return nil, ofLoRA(cfg, err)
	}
	w.fresh(def, cfg.Train.Seed)
	return def, nil
}

// ofLoRA names the key that an error of the package model is about, "model: lora: target: ...", and where that has its value from.
func ofLoRA(cfg *runfile.Config, err error) error {
	said, _ := strings.CutPrefix(err.Error(), "model: lora: ")
	key, _, _ := strings.Cut(said, ":")
	if key = "lora." + key; runfile.IsKey(key) {
		return fmt.Errorf("run file: %s (%s): %w", key, cfg.Origin(key), err)
	}
	return fmt.Errorf("run file: lora (%s): %w", cfg.Origin("lora.rank"), err)
}

// continued is adapted with the adapters in a directory.
func continued(cfg *runfile.Config, def model.Definition, w *Weights, out io.Writer) (model.Definition, error) {
	b, err := Open(cfg.LoRA.From, out)
	if err != nil {
		return nil, err
	}
	def, stored, err := b.Adapters(def)
	if err != nil {
		_ = b.Close() // nothing was written
		return nil, cfg.Wrong("lora.from", err)
	}
	w.files = append(w.files, b)
	w.fresh(def, cfg.Train.Seed)
	for _, h := range stored.Adapters() {
		i := slices.IndexFunc(w.Params, func(p buffers.Host) bool { return p.Path == h.Path })
		w.Params[i] = h
	}
	w.LoRA.From = b.Path(".")
	w.LoRA.Upon, w.LoRA.Err = b.Upon()
	if base, err := b.Base(); err == nil {
		w.LoRA.Named = base.Path(".")
	}
	return def, nil
}

// fresh gives def, a network with adapters around that of w, the parameters of that and new ones of its adapters.
func (w *Weights) fresh(def model.Definition, seed uint64) {
	if w.stored == nil { // a plan, by config.json alone
		w.Params = model.Drawn(def, seed)
		return
	}
	own := model.AdapterParams(def)
	w.Params, w.Drawn = w.stored.ParamsOf(def, seed)
	w.Drawn = slices.DeleteFunc(w.Drawn, func(path string) bool { return slices.Contains(own, path) }) // as adapters begin
}
