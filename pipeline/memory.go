package pipeline

import (
	"context"
	"fmt"
	"strings"

	"gputrain/gpu"
)

// StageMemory is what a stage takes of its device, in bytes.
type StageMemory struct {
	Params, Mirrors, Gradients, Optimizer uint64 // of what is trained; Mirrors are all copies of what other stages own
	Frozen                                uint64 // parameters that are not trained
	Activations                           uint64 // of all microbatches in flight, and what is handed on
	Scratch                               uint64 // shared by all programs of the stage
	Step                                  uint64 // inputs and results of training and updates, and buffers for reading back
	Forward                               uint64 // the same of evaluation and sampling
	Transfer                              uint64 // for reading back a parameter, or logits
	Texels                                uint64 // textures that operands are read from, on software adapters; of the first stage on a device
}

// Total is the sum.
func (m StageMemory) Total() uint64 {
	return m.Params + m.Frozen + m.Mirrors + m.Gradients + m.Optimizer + m.Activations + m.Scratch + m.Step + m.Forward + m.Transfer + m.Texels
}

// String is the memory in one line.
func (m StageMemory) String() string {
	var parts []string
	for _, f := range []struct {
		name  string
		bytes uint64
	}{
		{"params", m.Params + m.Mirrors},
		{"frozen", m.Frozen},
		{"gradients", m.Gradients},
		{"optimizer", m.Optimizer},
		{"activations", m.Activations},
		{"scratch", m.Scratch},
		{"step", m.Step},
		{"evaluation and sampling", m.Forward},
		{"transfer", m.Transfer},
		{"texels", m.Texels},
	} {
		if f.bytes > 0 {
			parts = append(parts, f.name+" "+gpu.SizeText(f.bytes))
		}
	}
	return strings.Join(parts, ", ")
}

// PlanMemory is what Create would take of each stage's device: it builds everything on dry devices of the same adapters and limits. A tensor
// that no binding of a device can hold is a *gpu.LimitError.
func PlanMemory(ctx context.Context, c Config, adapters []gpu.Adapter, limits []gpu.Limits) ([]StageMemory, error) {
	s, err := c.rehearse(ctx, adapters, limits)
	if err != nil {
		return nil, err
	}
	defer s.Release()
	return s.Memory(), nil
}

// rehearse builds everything on dry devices.
func (c Config) rehearse(ctx context.Context, adapters []gpu.Adapter, limits []gpu.Limits) (*State, error) {
	dry := make([]*gpu.Device, len(adapters))
	for i, a := range adapters {
		dry[i] = gpu.DryOf(a, limits[i])
	}
	if err := c.check(dry); err != nil {
		return nil, err
	}
	s, err := c.withDefaults().build(ctx, dry, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("pipeline: plan: %w", err)
	}
	return s, nil
}
