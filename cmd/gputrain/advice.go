package main

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"gputrain/gpu"
	"gputrain/internal/suggest"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/state"
	"gputrain/train/runfile"
	"gputrain/train/setup"
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
		other, err := (&runFlags{Files: c.Files, Set: slices.Concat(c.Set, way.Set)}).load()
		if err != nil {
			continue // the key is not one of this run's
		}
		on := devices
		if n := other.Pipeline.Stages; n != len(devices) {
			if on, err = devicesOn(other, c.Memory); err != nil {
				return nil, err
			}
		}
		memory, err := least(ctx, other, on)
		if err != nil {
			continue // such as adapters in a network that has no linear layers
		}
		for _, m := range memory {
			way.Planned = max(way.Planned, m.Total())
		}
		way.Fits = state.FitsMemory(on, memory, 0)
		if n := len(out); n > 0 && out[n-1].means == way.means && !out[n-1].Fits {
			out = out[:n-1] // the larger one of the kind
		}
		out = append(out, way)
	}
	return out, nil
}

// mostCards is how many are advised at most: their stages are planned one by one.
const mostCards = 8

// ways are what to try.
func (c *planCmd) ways(cfg *runfile.Config, st state.Config, short *state.MemoryError) (out []advised) {
	kept := short.Kept() < short.Available // so a smaller microbatch may fit
	add := func(means string, set ...string) { out = append(out, advised{Set: set, means: means}) }
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
	for _, base := range []string{"f32", "bf16", "nf4"} {
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
func least(ctx context.Context, cfg *runfile.Config, devices []*gpu.Device) ([]state.MemoryPlan, error) {
	st, err := plannedState(ctx, cfg, io.Discard)
	if err != nil {
		return nil, err
	}
	units, err := setup.Units(cfg, st)
	if err != nil {
		return nil, err
	}
	cut, _, err := setup.Cut(ctx, cfg, st, units, devices)
	if err != nil {
		return nil, err
	}
	run, choices := setup.Pipeline(cfg, cut), st.Choices()
	run.State = choices[len(choices)-1]
	return memoryOf(ctx, run, devices)
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

// card is an adapter by its published figures.
type card struct {
	Name string `json:"name"`
	gpu.Speed
	memory  uint64 // bytes
	unified bool   // with the processor
}

// cards have the speeds that docs/benchmarks.md derives; those without one are known by their memory alone. Speeds of matrix units are published ones, of
// those that products have tiles for.
var cards = []card{
	{"AMD RX 6800 XT", gpu.Speed{FLOPS: 20.7e12, BytesPerSecond: 512e9}, 16 << 30, false},
	{"Intel Arc A770", gpu.Speed{FLOPS: 19.7e12, BytesPerSecond: 560e9}, 16 << 30, false},
	{"NVIDIA RTX 3060", gpu.Speed{FLOPS: 12.7e12, UnitFLOPS: 25.4e12, BytesPerSecond: 360e9}, 12 << 30, false},
	{"Apple M2", gpu.Speed{FLOPS: 3.6e12, BytesPerSecond: 100e9}, 8 << 30, true},
	{"AMD RX 7600", gpu.Speed{}, 8 << 30, false},
	{"AMD RX 7900 XTX", gpu.Speed{FLOPS: 61.4e12, UnitFLOPS: 122.8e12, BytesPerSecond: 960e9}, 24 << 30, false},
	{"AMD RX 9070 XT", gpu.Speed{}, 16 << 30, false},
	{"Intel Arc B580", gpu.Speed{FLOPS: 13.7e12, BytesPerSecond: 456e9}, 12 << 30, false},
	{"NVIDIA RTX 3090", gpu.Speed{}, 24 << 30, false},
	{"NVIDIA RTX 4060", gpu.Speed{}, 8 << 30, false},
	{"NVIDIA RTX 4070", gpu.Speed{}, 12 << 30, false},
	{"NVIDIA RTX 4080", gpu.Speed{}, 16 << 30, false},
	{"NVIDIA RTX 4090", gpu.Speed{FLOPS: 82.6e12, UnitFLOPS: 165.2e12, BytesPerSecond: 1008e9}, 24 << 30, false},
	{"NVIDIA RTX 5090", gpu.Speed{}, 32 << 30, false},
	{"NVIDIA A100 80GB", gpu.Speed{}, 80 << 30, false},
	{"NVIDIA H100 80GB", gpu.Speed{FLOPS: 66.9e12, UnitFLOPS: 989e12, BytesPerSecond: 3350e9}, 80 << 30, false},
	{"Apple M1", gpu.Speed{}, 8 << 30, true},
}

// rated are the cards whose speeds are known.
func rated() (out []card) {
	for _, c := range cards {
		if c.FLOPS > 0 {
			out = append(out, c)
		}
	}
	return out
}

// room is what buffers get of a card's memory: the driver and the screen take some, and Metal advises two thirds of memory that is the processor's too.
func (c card) room() uint64 {
	if c.unified {
		return c.memory / 3 * 2
	}
	return c.memory / 16 * 15
}

// wantedCard is what --memory stands for: an adapter like the discrete cards of the last years, or a card of the table, and the bytes that buffers get of it.
func wantedCard(text string) (a gpu.Adapter, bytes uint64, err error) {
	a = someCard()
	a.Backend = "not here"
	if bytes, err = runfile.ParseBytes(text); err == nil && bytes == 0 {
		return a, 0, usageError{fmt.Errorf("--memory: found %q, wanted more than no memory, such as 24GiB; "+
			"without it the plan is for the adapters that are here", text)}
	}
	if err == nil {
		a.Name = "a card with " + gpu.SizeText(bytes)
		return a, bytes, nil
	}
	var names, known []string
	for _, c := range cards {
		if strings.HasSuffix(squashed(c.Name), squashed(text)) {
			if c.unified {
				a.Type = "integrated"
			}
			a.Name = fmt.Sprintf("%s with %s", c.Name, gpu.SizeText(c.memory))
			return a, c.room(), nil
		}
		_, name, _ := strings.Cut(strings.ToLower(c.Name), " ")
		names, known = append(names, name), append(known, fmt.Sprintf("%s (%s)", name, gpu.SizeText(c.memory)))
	}
	return a, 0, usageError{fmt.Errorf("--memory: found %q%s: wanted bytes, such as 24GiB, or one of %s", text, suggest.DidYouMean(text, names), strings.Join(known, ", "))}
}

// squashed is a name without blanks and capitals.
func squashed(name string) string { return strings.ToLower(strings.ReplaceAll(name, " ", "")) }

// devicesOn are devices of a plan on such cards: each stage has one of its own.
func devicesOn(cfg *runfile.Config, memory string) (devices []*gpu.Device, err error) {
	a, bytes, err := wantedCard(memory)
	if err != nil {
		return nil, err
	}
	if limit, err := runfile.ParseBytes(cfg.Train.MemoryLimit); err == nil && limit > 0 {
		bytes = min(bytes, limit)
	}
	for a.Index = range cfg.Pipeline.Stages {
		d := gpu.DryOf(a, a.Limits)
		d.AssumeMemory(bytes)
		devices = append(devices, d)
	}
	return devices, nil
}
