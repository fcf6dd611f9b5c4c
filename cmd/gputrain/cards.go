package main

import (
	"fmt"
	"slices"
	"strings"

	"gputrain/gpu"
	"gputrain/graph/compile"
	"gputrain/internal/suggest"
	"gputrain/run/runfile"
	"gputrain/run/setup"
)

// card is an adapter by its published figures.
type card struct {
	Name string `json:"name"`
	gpu.Speed
	memory  uint64 // bytes
	unified bool   // with the processor
}

// cards have published figures: f32, the units' f16 with sums in f32 where products have tiles for them, bandwidth, memory. TFLOP/s of Apple's are cores by
// lanes by clock, which Apple does not publish. An H100's units are counted as mma.sync uses them, 0.62 of 989, for Vulkan has no other instruction. Those
// without a speed are known by their memory alone.
var cards = []card{
	{"AMD RX 6800 XT", gpu.Speed{FLOPS: 20.7e12, BytesPerSecond: 512e9}, 16 << 30, false},
	{"Intel Arc A770", gpu.Speed{FLOPS: 19.7e12, BytesPerSecond: 560e9}, 16 << 30, false},
	{"NVIDIA RTX 3060", gpu.Speed{FLOPS: 12.7e12, UnitFLOPS: 25.4e12, BytesPerSecond: 360e9}, 12 << 30, false},
	{"Apple M2", gpu.Speed{FLOPS: 3.6e12, BytesPerSecond: 100e9}, 8 << 30, true},
	{"AMD RX 5700 XT", gpu.Speed{FLOPS: 9.75e12, BytesPerSecond: 448e9}, 8 << 30, false},
	{"AMD RX 6600", gpu.Speed{FLOPS: 8.9e12, BytesPerSecond: 224e9}, 8 << 30, false},
	{"AMD RX 7600", gpu.Speed{FLOPS: 21.7e12, UnitFLOPS: 43.5e12, BytesPerSecond: 288e9}, 8 << 30, false},
	{"AMD RX 7900 XTX", gpu.Speed{FLOPS: 61.4e12, UnitFLOPS: 122.8e12, BytesPerSecond: 960e9}, 24 << 30, false},
	{"AMD RX 9070 XT", gpu.Speed{FLOPS: 48.7e12, UnitFLOPS: 195e12, BytesPerSecond: 640e9}, 16 << 30, false},
	{"AMD Radeon 780M", gpu.Speed{FLOPS: 8.3e12, UnitFLOPS: 16.6e12, BytesPerSecond: 90e9}, 16 << 30, true},
	{"Intel Arc B580", gpu.Speed{FLOPS: 13.7e12, BytesPerSecond: 456e9}, 12 << 30, false},
	{"Intel Iris Xe", gpu.Speed{FLOPS: 2.1e12, BytesPerSecond: 51e9}, 16 << 30, true},
	{"NVIDIA RTX 3070", gpu.Speed{FLOPS: 20.3e12, UnitFLOPS: 40.6e12, BytesPerSecond: 448e9}, 8 << 30, false},
	{"NVIDIA RTX 3080", gpu.Speed{FLOPS: 29.8e12, UnitFLOPS: 59.5e12, BytesPerSecond: 760e9}, 10 << 30, false},
	{"NVIDIA RTX 3090", gpu.Speed{FLOPS: 35.6e12, UnitFLOPS: 71.2e12, BytesPerSecond: 936e9}, 24 << 30, false},
	{"NVIDIA RTX 4060", gpu.Speed{FLOPS: 15.1e12, UnitFLOPS: 30.2e12, BytesPerSecond: 272e9}, 8 << 30, false},
	{"NVIDIA RTX 4070", gpu.Speed{FLOPS: 29.1e12, UnitFLOPS: 58.3e12, BytesPerSecond: 504e9}, 12 << 30, false},
	{"NVIDIA RTX 4080", gpu.Speed{FLOPS: 48.7e12, UnitFLOPS: 97.5e12, BytesPerSecond: 717e9}, 16 << 30, false},
	{"NVIDIA RTX 4090", gpu.Speed{FLOPS: 82.6e12, UnitFLOPS: 165.2e12, BytesPerSecond: 1008e9}, 24 << 30, false},
	{"NVIDIA RTX 5060", gpu.Speed{FLOPS: 19.2e12, UnitFLOPS: 38.4e12, BytesPerSecond: 448e9}, 8 << 30, false},
	{"NVIDIA RTX 5070", gpu.Speed{FLOPS: 30.9e12, UnitFLOPS: 61.7e12, BytesPerSecond: 672e9}, 12 << 30, false},
	{"NVIDIA RTX 5080", gpu.Speed{FLOPS: 56.3e12, UnitFLOPS: 112.6e12, BytesPerSecond: 960e9}, 16 << 30, false},
	{"NVIDIA RTX 5090", gpu.Speed{FLOPS: 104.8e12, UnitFLOPS: 209.5e12, BytesPerSecond: 1792e9}, 32 << 30, false},
	{"NVIDIA A100 80GB", gpu.Speed{FLOPS: 19.5e12, UnitFLOPS: 312e12, BytesPerSecond: 2039e9}, 80 << 30, false},
	{"NVIDIA H100 80GB", gpu.Speed{FLOPS: 66.9e12, UnitFLOPS: 613e12, BytesPerSecond: 3350e9}, 80 << 30, false},
	{"Apple M1", gpu.Speed{FLOPS: 2.6e12, BytesPerSecond: 68e9}, 8 << 30, true},
	{"Apple M3", gpu.Speed{FLOPS: 3.6e12, BytesPerSecond: 100e9}, 8 << 30, true},
	{"Apple M4", gpu.Speed{FLOPS: 4.3e12, BytesPerSecond: 120e9}, 16 << 30, true},
}

// reach is the share of a card's limits that kernels reach, in f32 and by matrix units.
type reach struct{ f32, units float64 }

// reaches are those of an H100's page, GPT-2 124M at 4 x 1,024 tokens, which TestReached reckons anew: one number a kind of kernel. Other cards are expected to
// reach as much of theirs.
var reaches = map[string]reach{
	compile.Products:  {0.37, 0.18},
	compile.Attention: {0.20, 0.20}, // by units not measured yet
	compile.Head:      {0.33, 0.29},
	compile.Rest:      {0.30, 0.30},
	"optimizer":       {0.86, 0.86},
}

// reached is the share for work, by units where the card has some and the work uses them.
func reached(w compile.Work, units bool) float64 {
	r := reaches[w.Group]
	if units && w.Units > 0 {
		return r.units
	}
	return r.f32
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

// adapter is a card as kernels are chosen for it: with its limits, its multiprocessors, and its matrix units where it has some that a run asks for. A card
// without a name is like the discrete cards of the last years: it binds 2 GiB, and more buffers than a kernel has, it has units, and nobody knows its
// multiprocessors.
func (c card) adapter(units bool) gpu.Adapter {
	l := gpu.DefaultLimits()
	l.BufferBytes, l.BindingBytes, l.StorageBuffers, l.Invocations, l.WorkgroupBytes = 2<<30, 2<<30, 64, 1024, 32<<10
	a := gpu.Adapter{Index: -1, Name: "a discrete card", Backend: "none", Type: "discrete"}
	if c.unified {
		a.Type = "integrated"
	}
	if c.Name != "" {
		a.Name, l = fmt.Sprintf("%s with %s", c.Name, gpu.SizeText(c.memory)), l.Named(c.Name)
	}
	if units && (c.Name == "" || c.UnitFLOPS > 0) { // as NVIDIA's and AMD's drivers list them
		l.WorkgroupBytes = 48 << 10
		l.Matrix = gpu.MatrixUnits{Shapes: []gpu.MatrixShape{{M: 16, N: 16, K: 16}}, Lanes: 32, Subgroups: 32}
	}
	if units {
		a.Name += fmt.Sprintf(", matrix units: %s", l.Matrix)
	}
	a.Limits = l
	return a
}

// wantedCard is what --memory stands for, a card of the table or one of which nothing but its memory is known, and the bytes that buffers get of it.
func wantedCard(text string, units bool) (a gpu.Adapter, bytes uint64, err error) {
	if bytes, err = runfile.ParseBytes(text); err == nil && bytes == 0 {
		return a, 0, usageError{fmt.Errorf("--memory: found %q, wanted more than no memory, such as 24GiB; "+
			"without it the plan is for the adapters that are here", text)}
	}
	if err == nil {
		a = card{}.adapter(units)
		a.Backend, a.Name = "not here", strings.Replace(a.Name, "a discrete card", fmt.Sprintf("a card with %s, multiprocessors unknown", gpu.SizeText(bytes)), 1)
		return a, bytes, nil
	}
	if c, ok := namedCard(text); ok {
		a = c.adapter(units)
		a.Backend = "not here"
		return a, c.room(), nil
	}
	var names, known []string
	for _, c := range cards {
		_, name, _ := strings.Cut(strings.ToLower(c.Name), " ")
		names, known = append(names, name), append(known, fmt.Sprintf("%s (%s)", name, gpu.SizeText(c.memory)))
	}
	return a, 0, usageError{fmt.Errorf("--memory: found %q%s: wanted bytes, such as 24GiB, or one of %s", text, suggest.DidYouMean(text, names), strings.Join(known, ", "))}
}

// namedCard is the card of the table whose name ends so.
func namedCard(text string) (card, bool) {
	i := slices.IndexFunc(cards, func(c card) bool { return strings.HasSuffix(squashed(c.Name), squashed(text)) })
	if i < 0 {
		return card{}, false
	}
	return cards[i], true
}

// squashed is a name without blanks and capitals.
func squashed(name string) string { return strings.ToLower(strings.ReplaceAll(name, " ", "")) }

// devicesOn are devices of a plan on such cards: each stage has one of its own.
func devicesOn(cfg *runfile.Config, memory string) (devices []*gpu.Device, err error) {
	options, err := setup.DeviceOptions(cfg)
	if err != nil {
		return nil, err
	}
	a, bytes, err := wantedCard(memory, options.Matrix)
	if err != nil {
		return nil, err
	}
	if options.MemoryLimit > 0 {
		bytes = min(bytes, options.MemoryLimit)
	}
	for a.Index = range cfg.Pipeline.Stages {
		d := gpu.DryOf(a, a.Limits)
		d.AssumeMemory(bytes)
		devices = append(devices, d)
	}
	return devices, nil
}
