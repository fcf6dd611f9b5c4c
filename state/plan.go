package state

import (
	"context"
	"fmt"
	"strings"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/graph/compile"
)

// MemoryPlan is what a training state takes of its device, in bytes, known before anything is taken.
type MemoryPlan struct {
	Params               uint64 // that are trained
	Frozen               uint64 // parameters that are not
	Gradients, Optimizer uint64
	Step                 uint64 // inputs, activations and workspace of a microbatch
	Evaluation, Sampling uint64 // the same of these, where they are planned for
	Transfer             uint64 // buffers for reading back
	Texels               uint64 // textures that operands are read from, on software adapters
	Largest              []compile.TensorBytes
}

// Total is the sum.
func (p MemoryPlan) Total() uint64 {
	return p.Params + p.Frozen + p.Gradients + p.Optimizer + p.Step + p.Evaluation + p.Sampling + p.Transfer + p.Texels
}

// String is the plan in one line.
func (p MemoryPlan) String() string {
	parts := []string{}
	for _, f := range []struct {
		name  string
		bytes uint64
	}{
		{"params", p.Params},
		{"frozen", p.Frozen},
		{"gradients", p.Gradients},
		{"optimizer", p.Optimizer},
		{"activations and workspace", p.Step},
		{"evaluation", p.Evaluation},
		{"sampling", p.Sampling},
		{"transfer", p.Transfer},
		{"texels", p.Texels},
	} {
		if f.bytes > 0 {
			parts = append(parts, f.name+" "+gpu.SizeText(f.bytes))
		}
	}
	return strings.Join(parts, ", ")
}

// Plan computes what Create would take on a device with these limits; it needs none. A tensor that no binding of the device can hold
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
	p.Gradients, p.Transfer = p.Params, layout.StagingBytes(buffers.F32)
	if frozen != nil {
		p.Frozen, p.Transfer = frozen.Bytes(c.FrozenDType), max(p.Transfer, frozen.StagingBytes(c.FrozenDType))
	}
	if p.Optimizer, err = tx.Bytes(layout, lim); err != nil {
		return p, err
	}
	step, err := c.planned(lim)(c.step())
	if err != nil {
		return p, err
	}
	p.Step, p.Largest = step.Total(), step.Largest
	if c.Evaluation > 0 {
		e, err := c.planned(lim)(evaluation(c.Definition, c.Evaluation, c.Sequence))
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

// MemoryError says that a training state does not fit the memory of its device. Nothing was taken.
type MemoryError struct {
	Plan      MemoryPlan
	Available uint64 // bytes
	Bound     string // what bounds them
	Hint      string // what to lower, with figures
}

// Error gives the plan's figures and what to lower.
func (e *MemoryError) Error() string {
	return fmt.Sprintf("state: memory: %s wanted (%s), %s is %s: %s", gpu.SizeText(e.Plan.Total()), e.Plan, e.Bound, gpu.SizeText(e.Available), e.Hint)
}

// Unwrap is gpu.ErrOutOfMemory.
func (e *MemoryError) Unwrap() error { return gpu.ErrOutOfMemory }

// fits compares the plan with the device before anything is taken, but for bytes that the plan has too.
func (c Config) fits(dev *gpu.Device, taken uint64) (MemoryPlan, error) {
	p, err := Plan(c, dev.Limits())
	if err != nil {
		return p, err
	}
	available, bound, known := dev.Available()
	available += taken
	if !known || p.Total() <= available {
		return p, nil
	}
	return p, &MemoryError{Plan: p, Available: available, Bound: bound, Hint: c.WithDefaults().hint(p, available, dev.Limits())}
}

// hint finds what would fit: a smaller microbatch with the same update, else a shorter sequence beside it.
func (c Config) hint(p MemoryPlan, available uint64, lim gpu.Limits) string {
	rest := p.Params + p.Frozen + p.Gradients + p.Optimizer
	if rest >= available {
		return fmt.Sprintf("params, gradients and optimizer alone take %s: choose a smaller model", gpu.SizeText(rest))
	}
	smaller := c
	for smaller.Sequence = c.Sequence; smaller.Sequence >= 1; smaller.Sequence /= 2 {
		for batch := c.Batch; batch >= 1; batch-- {
			if c.Batch%batch != 0 || batch == c.Batch && smaller.Sequence == c.Sequence {
				continue
			}
			smaller.Batch = batch
			q, err := smaller.plan(lim)
			if err != nil || q.Total() > available {
				continue
			}
			text := fmt.Sprintf("lower batch from %d to %d", c.Batch, batch)
			if k := c.Batch / batch; k > 1 {
				text += fmt.Sprintf(" (and raise accumulate from %d to %d for the same updates)", c.Microbatches, c.Microbatches*k)
			} else {
				text = ""
			}
			if smaller.Sequence < c.Sequence {
				if text != "" {
					text += " and "
				}
				text += fmt.Sprintf("lower context from %d to %d", c.Sequence, smaller.Sequence)
			}
			return text + ", which takes " + gpu.SizeText(q.Total())
		}
	}
	return "choose a smaller model"
}
