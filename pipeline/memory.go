package pipeline

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/model"
)

// StageMemory is what a stage takes of its device, in bytes.
type StageMemory struct {
	Params, Mirrors, Gradients, Optimizer uint64
	Activations                           uint64 // of all microbatches in flight, and what is handed on
	Scratch                               uint64 // shared by all programs of the stage
	Step                                  uint64 // inputs and results of training and updates, and buffers for reading back
	Forward                               uint64 // the same of evaluation and sampling
	Transfer                              uint64 // for reading back a parameter, or logits
}

// Total is the sum.
func (m StageMemory) Total() uint64 {
	return m.Params + m.Mirrors + m.Gradients + m.Optimizer + m.Activations + m.Scratch + m.Step + m.Forward + m.Transfer
}

// String is the memory in one line.
func (m StageMemory) String() string {
	var parts []string
	for _, f := range []struct {
		name  string
		bytes uint64
	}{
		{"params", m.Params + m.Mirrors},
		{"gradients", m.Gradients},
		{"optimizer", m.Optimizer},
		{"activations", m.Activations},
		{"scratch", m.Scratch},
		{"step", m.Step},
		{"evaluation and sampling", m.Forward},
		{"transfer", m.Transfer},
	} {
		if f.bytes > 0 {
			parts = append(parts, f.name+" "+bytesText(f.bytes))
		}
	}
	return strings.Join(parts, ", ")
}

// PlanMemory is what Create would take of each stage's device: it builds everything on dry devices of the same adapters and limits. A tensor
// that no binding of a device can hold is a *gpu.LimitError.
func PlanMemory(ctx context.Context, c Config, adapters []gpu.Adapter, limits []gpu.Limits) ([]StageMemory, error) {
	dry := make([]*gpu.Device, len(adapters))
	for i, a := range adapters {
		dry[i] = gpu.DryOf(a, limits[i])
	}
	if err := c.check(dry); err != nil {
		return nil, err
	}
	c = c.withDefaults()
	c.State.Progress = nil
	s := &State{config: c, devices: dry, specs: model.Specs(c.State.Definition)}
	defer s.Release()
	if err := s.build(ctx, nil); err != nil {
		return nil, fmt.Errorf("pipeline: plan: %w", err)
	}
	return s.Memory(), nil
}

// transferBytes is the buffer that a device keeps for reading the largest part of a parameter.
func transferBytes(layout *buffers.Layout) uint64 {
	largest := uint64(0)
	for _, leaf := range layout.Leaves() {
		for _, part := range leaf.Parts {
			largest = max(largest, 4*uint64(part.Count))
		}
	}
	return gpu.StagingBytes(largest)
}

// bytesText is a size for people.
func bytesText(n uint64) string {
	if n >= 1<<30 {
		return fmt.Sprintf("%.2f GiB", float64(n)/(1<<30))
	}
	if n >= 1<<20 {
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
}

// MemoryError says that the stages on one device do not fit its memory. Nothing was taken.
type MemoryError struct {
	Stages    []int // on the device
	Adapter   string
	Memory    []StageMemory // of these stages
	Available uint64
	Bound     string // what bounds it
}

// Error gives the figures and what to change.
func (e *MemoryError) Error() string {
	total := uint64(0)
	var each []string
	for i, m := range e.Memory {
		total += m.Total()
		each = append(each, fmt.Sprintf("stage %d: %s (%s)", e.Stages[i], bytesText(m.Total()), m))
	}
	hint := "lower train.batch, raise pipeline.microbatches, set pipeline.recompute, or use more stages"
	if len(e.Stages) > 1 {
		hint = "give one of the stages another adapter (pipeline.adapters), or " + hint
	}
	return fmt.Sprintf("pipeline: memory of %s: %s wanted for %d stages, %s is %s; %s: %s",
		e.Adapter, bytesText(total), len(e.Stages), e.Bound, bytesText(e.Available), strings.Join(each, "; "), hint)
}

// Unwrap is gpu.ErrOutOfMemory.
func (e *MemoryError) Unwrap() error { return gpu.ErrOutOfMemory }

// fits compares the plan with the devices before anything is taken.
func (c Config) fits(devices []*gpu.Device) error {
	var adapters []gpu.Adapter
	var limits []gpu.Limits
	for _, d := range devices {
		adapters, limits = append(adapters, d.Adapter()), append(limits, d.Limits())
	}
	memory, err := PlanMemory(context.Background(), c, adapters, limits)
	if err != nil {
		return err
	}
	return compare(devices, memory)
}

// compare finds a device that its stages do not fit. Devices of one adapter share what it has.
func compare(devices []*gpu.Device, memory []StageMemory) error {
	var done []int
	for i, d := range devices {
		if slices.Contains(done, i) {
			continue
		}
		e := &MemoryError{Adapter: d.Adapter().String()}
		total := uint64(0)
		for j, other := range devices {
			if other.Adapter().Index == d.Adapter().Index {
				e.Stages, e.Memory = append(e.Stages, j), append(e.Memory, memory[j])
				total += memory[j].Total()
				done = append(done, j)
			}
		}
		var known bool
		if e.Available, e.Bound, known = d.Available(); known && total > e.Available {
			return e
		}
	}
	return nil
}
