package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"regexp"
	"strings"
	"text/tabwriter"

	"gputrain/buffers/array"
	"gputrain/gpu"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/run/fit"
	"gputrain/run/runfile"
	"gputrain/run/setup"
	"gputrain/state"
)

// advised is another way to train a model that does not fit, and what it takes.
type advised struct {
	Set     []string `json:"set"`           // of the run file
	Planned uint64   `json:"planned_bytes"` // of the stage that takes most, with as much as possible computed again
	Fits    bool     `json:"fits"`

	means string
}

// advice plans other ways to train, from those that change least. Those that the run file leaves no room for are not there.
func (c *planCmd) advice(ctx context.Context, cfg *runfile.Config, st state.Config, devices []*gpu.Device, short *state.MemoryError) (out []advised, err error) {
	for _, way := range c.ways(cfg, st, short) {
		if n := len(out); n > 0 && out[n-1].means == way.means && out[n-1].Fits {
			continue // a larger one of the kind fits
		}
		other, err := cfg.With(way.Set...)
		if err != nil {
			continue // the key is not one of this run's
		}
		on := devices
		if n := other.Pipeline.Stages; n != len(devices) {
			if on, err = devicesOn(other, c.Memory); err != nil {
				return nil, err
			}
		}
		takes, err := least(ctx, other, on)
		if err != nil {
			continue // such as adapters in a network that has no linear layers
		}
		way.Planned, way.Fits = takes.Most(), takes.Fits
		if n := len(out); n > 0 && out[n-1].means == way.means && !out[n-1].Fits {
			out = out[:n-1] // the larger one of the kind
		}
		out = append(out, way)
	}
	return out, nil
}

// noSamples leaves out the keys and values of sampling.
const noSamples = "train.sample_tokens=0"

// mostCards is how many are advised at most: their stages are planned one by one.
const mostCards = 8

// ways are what to try.
func (c *planCmd) ways(cfg *runfile.Config, st state.Config, short *state.MemoryError) (out []advised) {
	kept := short.Kept() < short.Available // so a smaller microbatch may fit
	add := func(means string, set ...string) { out = append(out, advised{Set: set, means: means}) }
	if st.Sampling {
		add("no samples", noSamples)
	}
	if kept && st.Batch > 1 {
		add("one sequence at once", "train.batch=1", fmt.Sprintf("train.accumulate=%d", cfg.Train.Batch*cfg.Train.Accumulate), "pipeline.microbatches=1")
	}
	if kept {
		for n := st.Sequence / 2; n >= 64; n /= 2 {
			add("a smaller context", fmt.Sprintf("model.context=%d", n))
		}
	}
	narrow := func(name string) (half, eight []string) {
		d, err := optim.Describe(name)
		if err != nil {
			return nil, nil
		}
		for _, p := range d.Parameters {
			switch {
			case p.Name == "state_dtype":
				eight = []string{"optimizer.parameters.state_dtype=8bit"}
			case strings.Contains(p.Name, "dtype"):
				half = append(half, "optimizer.parameters."+p.Name+"=bf16")
			}
		}
		return half, eight
	}
	half, eight := narrow(cfg.Optimizer.Name)
	if cfg.Optimizer.Parameters["state_dtype"] == "8bit" {
		half, eight = nil, nil
	}
	if len(half) > 0 {
		add("state of the optimizer in bf16", half...)
	}
	if eight != nil {
		if cfg.Optimizer.Parameters["mu_dtype"] == "bf16" { // which is not for state in eight bits
			eight = append(eight, "optimizer.parameters.mu_dtype=f32")
		}
		add("state of the optimizer in eight bits", eight...)
	}
	if cfg.Optimizer.Name != "lion" && cfg.Optimizer.Name != "sgd" {
		add("one moment a parameter", "optimizer.name=lion", "optimizer.parameters={}")
		add("one moment a parameter, in bf16", "optimizer.name=lion", "optimizer.parameters={mu_dtype: bf16}")
	}
	if st.Frozen == nil {
		if last := lastLayers(st.Definition); last != "" {
			add("all but two layers frozen, in bf16", "optimizer.rates=[{match: '"+last+"', multiplier: 1}, {match: '.', multiplier: 0}]", "model.base=bf16")
		}
	}
	for _, base := range array.Names(array.Bases) {
		if cfg.Model.From != "" && !cfg.LoRA.On() {
			add("adapters, beside a base in "+base, "lora.rank=8", "model.base="+base)
		} else if cfg.LoRA.On() && base != cfg.Model.Base {
			add("the base in "+base, "model.base="+base)
		}
	}
	if c.Memory == "" {
		return out
	}
	for n := 2 * cfg.Pipeline.Stages; n <= mostCards; n *= 2 {
		if short.Kept()/uint64(n) < short.Available { // else all the cards together have too little
			add("more cards", fmt.Sprintf("pipeline.stages=%d", n))
		}
	}
	return out
}

// lastLayers is a pattern of the parameters of the last two layers; "" where there are fewer than three.
func lastLayers(def model.Definition) string {
	built, err := def.Build(1, 1, model.Options{Loss: true})
	if err != nil {
		return ""
	}
	pieces, _, _ := model.Units(built)
	var layers []string
	for _, p := range pieces {
		if p.Layer != "" {
			layers = append(layers, p.Layer)
		}
	}
	n := len(layers)
	if n < 3 {
		return ""
	}
	return "^" + regexp.QuoteMeta(layers[n-2]) + `\.|^` + regexp.QuoteMeta(layers[n-1]) + `\.`
}

// least is what a run takes where as much is computed again as the run file allows.
func least(ctx context.Context, cfg *runfile.Config, devices []*gpu.Device) (t fit.Takes, err error) {
	st, err := plannedState(ctx, cfg, io.Discard)
	if err != nil {
		return t, err
	}
	units, err := setup.Units(cfg, st)
	if err != nil {
		return t, err
	}
	cut, _, err := setup.Cut(ctx, cfg, st, units, devices)
	if err != nil {
		return t, err
	}
	j, err := state.NewJob(st)
	if err != nil {
		return t, err
	}
	choices := j.Choices()
	return fit.On{Config: setup.Pipeline(cfg, cut), Devices: devices}.Takes(ctx, choices[len(choices)-1])
}

// holding says which are the smallest cards that have as much memory as a run takes at least, with the kernels of the largest card, which take most.
func holding(ctx context.Context, cfg *runfile.Config) (string, error) {
	devices, err := devicesOn(cfg, "h100 80gb")
	if err != nil {
		return "", err
	}
	takes, err := least(ctx, cfg, devices)
	if err != nil {
		return "", err
	}
	most := takes.Most()
	least, names := uint64(math.MaxUint64), []string(nil)
	for _, c := range cards {
		if c.room() < most || c.memory > least {
			continue
		}
		if c.memory < least {
			least, names = c.memory, nil
		}
		names = append(names, c.Name)
	}
	if names == nil {
		return fmt.Sprintf("no card of the list of --memory has the %s that it takes", gpu.SizeText(most)), nil
	}
	if n := len(names) - 2; n > 1 {
		names = append(names[:2], fmt.Sprintf("and %d more", n))
	}
	return fmt.Sprintf("the smallest cards of the list of --memory that hold it have %s: %s", gpu.SizeText(least), strings.Join(names, ", ")), nil
}

// writeAdvice prints what to set.
func writeAdvice(out io.Writer, all []advised) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "INSTEAD\tPLANNED\tFITS\tWITH")
	for _, a := range all {
		fits := "no"
		if a.Fits {
			fits = "yes"
		}
		row(w, 60, a.means, gpu.SizeText(a.Planned), fits, strings.Join(a.Set, " "))
	}
	return w.Flush()
}
