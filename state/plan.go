package state

import (
	"context"
	"fmt"
	"strings"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/graph/compile"
	"gputrain/model"
)

// MemoryPlan is what a training state takes of its device, or a stage of one of the stage's device, in bytes. It is known before anything
// is taken.
type MemoryPlan struct {
	Params               uint64 // that are trained
	Frozen               uint64 // parameters that are not
	Mirrors              uint64 // copies of what other stages own
	Gradients, Optimizer uint64
	Sums                 uint64 // of gradients, which wait while further microbatches are computed
	Step                 uint64 // inputs, activations and workspace of a microbatch, where a step is one program
	Activations          uint64 // elsewhere: of all microbatches in flight, and what stages hand on,
	Scratch              uint64 // what all programs of a stage share,
	Inputs               uint64 // their inputs and results in training and updates, and buffers for reading back
	Evaluation, Sampling uint64 // what these take beside that, where they are planned for
	Transfer             uint64 // for reading back a parameter, or logits
	Texels               uint64 // textures that operands are read from, on software adapters; of the first stage on a device
}

// rows are the parts of the plan by name.
func (p MemoryPlan) rows() []memoryRow {
	return []memoryRow{
		{"params", p.Params + p.Mirrors},
		{"frozen", p.Frozen},
		{"gradients", p.Gradients},
		{"sums of gradients", p.Sums},
		{"optimizer", p.Optimizer},
		{"activations and workspace", p.Step},
		{"activations", p.Activations},
		{"scratch", p.Scratch},
		{"inputs and results", p.Inputs},
		{"evaluation", p.Evaluation},
		{"sampling", p.Sampling},
		{"transfer", p.Transfer},
		{"texels", p.Texels},
	}
}

type memoryRow struct {
	name  string
	bytes uint64
}

// kept is what is there from step to step, however small the microbatches and however they are added up.
func (p MemoryPlan) kept() uint64 { return p.Params + p.Mirrors + p.Frozen + p.Gradients + p.Optimizer }

// Total is the sum.
func (p MemoryPlan) Total() (bytes uint64) {
	for _, r := range p.rows() {
		bytes += r.bytes
	}
	return bytes
}

// String is the plan in one line.
func (p MemoryPlan) String() string {
	var parts []string
	for _, r := range p.rows() {
		if r.bytes > 0 {
			parts = append(parts, r.name+" "+gpu.SizeText(r.bytes))
		}
	}
	return strings.Join(parts, ", ")
}

// Plan computes what Create would take on a device with these limits; it needs no device. A tensor that no binding of the device can hold
// is a *gpu.LimitError.
func Plan(c Config, lim gpu.Limits) (MemoryPlan, error) {
	if err := c.Validate(); err != nil {
		return MemoryPlan{}, err
	}
	p, err := c.WithDefaults().plan(lim)
	if err != nil {
		return MemoryPlan{}, fmt.Errorf("state: plan: %w", err)
	}
	return p, nil
}

func (c Config) plan(lim gpu.Limits) (p MemoryPlan, err error) {
	layout, frozen, err := c.layouts(lim)
	if err != nil {
		return p, err
	}
	tx, err := c.Transform()
	if err != nil {
		return p, err
	}
	p.Params = layout.Bytes(buffers.F32)
	p.Sums = uint64(c.PartialSums()) * p.Params
	p.Gradients, p.Transfer = p.Params, layout.StagingBytes(buffers.F32)
	if frozen != nil {
		p.Frozen, p.Transfer = frozen.Bytes(c.FrozenDType), max(p.Transfer, frozen.StagingBytes(c.FrozenDType))
	}
	if p.Optimizer, err = tx.StageBytes(c.ownLayout(layout), model.Specs(c.Definition), lim); err != nil {
		return p, err
	}
	step, err := c.planned(lim)(c.step())
	if err != nil {
		return p, err
	}
	p.Step = step.Total()
	if c.Evaluation > 0 {
		e, err := c.planned(lim)(evaluation(c.Definition, c.Evaluation, c.Sequence, c.Documents))
		if err != nil {
			return p, err
		}
		p.Evaluation = e.Total()
	}
	if c.Sampling {
		if p.Sampling, err = c.generationBytes(lim); err != nil {
			return p, err
		}
	}
	p.Texels, err = c.texelBytes(layout, frozen, lim)
	return p, err
}

// texelBytes is what the programs of a training state take in textures: what those of one on a dry device take.
func (c Config) texelBytes(layout, frozen *buffers.Layout, lim gpu.Limits) (uint64, error) {
	if lim.TexelBindings == 0 || lim.Texels == gpu.TexelsOff {
		return 0, nil
	}
	dev := gpu.Dry(lim)
	s, err := c.dry(context.Background(), layout, frozen, dev)
	if err != nil {
		return 0, err
	}
	defer s.Release()
	return dev.TexelBytes(), nil
}

// dry is a training state on a device without hardware, with all programs of a step.
func (c Config) dry(ctx context.Context, layout, frozen *buffers.Layout, dev *gpu.Device) (*TrainState, error) {
	params, err := buffers.NewTree(dev, "params", layout, buffers.F32)
	if err != nil {
		return nil, err
	}
	f := Fields{Definition: c.Definition, Params: params}
	if frozen != nil {
		if f.Frozen, err = buffers.NewTree(dev, frozenLabel, frozen, c.FrozenDType); err != nil {
			return nil, err
		}
	}
	v, err := New(f)
	if err != nil {
		return nil, err
	}
	return start(ctx, v, c, MemoryPlan{})
}

// planned plans what a function that makes a graph returns.
func (c Config) planned(lim gpu.Limits) func(*graph.Graph, []compile.Target, error) (compile.Plan, error) {
	return func(g *graph.Graph, targets []compile.Target, err error) (compile.Plan, error) {
		if err != nil {
			return compile.Plan{}, err
		}
		return compile.PlanNarrow(g, targets, c.narrow(), lim)
	}
}

// Fits tells whether the plan of the configuration fits what a device has.
func (c Config) Fits(dev *gpu.Device) (bool, error) {
	p, err := Plan(c, dev.Limits())
	return err == nil && FitsMemory([]*gpu.Device{dev}, []MemoryPlan{p}), err
}

// fits is the first of the choices whose plan fits the device before anything is taken, but for bytes that the plan has too.
func (c Config) fits(dev *gpu.Device, taken uint64) (_ Config, p MemoryPlan, err error) {
	devices := []*gpu.Device{dev}
	for _, c = range c.Choices() {
		if p, err = Plan(c, dev.Limits()); err != nil || comparison(devices, taken)([]MemoryPlan{p}) == nil {
			return c, p, err
		}
	}
	return c, p, c.CheckMemory(devices, []MemoryPlan{p}, taken, func(c Config) ([]MemoryPlan, error) {
		p, err := c.plan(dev.Limits())
		return []MemoryPlan{p}, err
	})
}
