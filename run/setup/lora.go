package setup

import (
	"io"
	"slices"

	"gputrain/buffers"
	"gputrain/model"
	"gputrain/run/runfile"
	"gputrain/state"
)

// readAdapters is def with the adapters of lora.from, whose parameters are among those that training begins with.
func (w *Weights) readAdapters(cfg *runfile.Config, def model.Definition, out io.Writer) (model.Definition, error) {
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

// adapt gives def, which a run file describes, the parameters of its new adapters and of its new head, if it has any, and a new model zeros where it is to
// begin with some.
func (w *Weights) adapt(cfg *runfile.Config, def model.Definition) (err error) {
	if cfg.Model.ZeroOutputs {
		if w.Params, err = model.ZeroOutputs(def, cfg.Train.Seed); err != nil {
			return &UsageError{cfg.Wrong("model.zero_outputs", err)}
		}
	}
	if w.Dir != "" && w.LoRA.From == "" && (cfg.LoRA.On() || model.HeadOf(def).Kind != "") {
		w.fresh(def, cfg.Train.Seed)
	}
	return nil
}

// reference are the parameters of a reference in the network: those that training begins with.
func (w *Weights) reference(c state.Config) []buffers.Host {
	from := w.Params
	if from == nil {
		from = model.Drawn(model.Student(c.Definition), c.Seed)
	}
	return model.ReferenceOf(c.Definition, from)
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
