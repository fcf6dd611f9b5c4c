package pipeline

import (
	"context"
	"fmt"
	"slices"

	"gputrain/gpu"
	"gputrain/state"
)

// PlanMemory is what Create would take of each stage's device: it builds everything on dry devices of the same adapters and limits. A value
// that a device can hold neither in one binding nor in parts is a *gpu.LimitError.
func PlanMemory(ctx context.Context, c Config, devices []*gpu.Device) ([]state.MemoryPlan, error) {
	s, err := c.rehearse(ctx, devices)
	if err != nil {
		return nil, err
	}
	defer s.Release()
	return s.Memory(), nil
}

// PlanSubmits are the submits of an update, by stage, of a pipeline on these devices; it takes nothing of them.
func PlanSubmits(ctx context.Context, c Config, devices []*gpu.Device) ([][]gpu.Planned, error) {
	dry := make([]*gpu.Device, len(devices))
	for i, d := range devices {
		if first := slices.Index(devices, d); first < i {
			dry[i] = dry[first]
			continue
		}
		speed, _ := d.Speed()
		dry[i] = gpu.DryOf(d.Adapter(), d.Limits())
		dry[i].Assume(speed, d.SubmitLimit())
	}
	s, err := c.rehearseOn(ctx, dry)
	if err != nil {
		return nil, err
	}
	defer s.Release()
	return s.Submits(), nil
}

// rehearse builds everything on dry devices.
func (c Config) rehearse(ctx context.Context, devices []*gpu.Device) (*State, error) {
	dry := make([]*gpu.Device, len(devices))
	for i, d := range devices {
		dry[i] = gpu.DryOf(d.Adapter(), d.Limits())
	}
	return c.rehearseOn(ctx, dry)
}

func (c Config) rehearseOn(ctx context.Context, dry []*gpu.Device) (*State, error) {
	if err := c.check(dry); err != nil {
		return nil, err
	}
	s, err := c.withDefaults().build(ctx, dry, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("pipeline: plan: %w", err)
	}
	return s, nil
}

// fits compares what everything takes with the devices before anything is taken of them. It returns the kernels of each stage.
func (c Config) fits(ctx context.Context, devices []*gpu.Device) ([][]*gpu.Kernel, error) {
	rehearsal, err := c.rehearse(ctx, devices)
	if err != nil {
		return nil, err
	}
	defer rehearsal.Release()
	return rehearsal.passes.kernels(), c.CheckMemory(ctx, devices, rehearsal.Memory())
}

// CheckMemory refuses what PlanMemory says if the devices have no room for it: a *state.MemoryError, which advises what fits.
func (c Config) CheckMemory(ctx context.Context, devices []*gpu.Device, memory []state.MemoryPlan) error {
	way := func(note string, c Config) state.Way {
		return state.Way{Note: note, Plan: func(smaller state.Config) ([]state.MemoryPlan, error) {
			c.State = smaller
			return PlanMemory(ctx, c, devices)
		}}
	}
	ways := []state.Way{way("", c)}
	if !c.Recompute {
		again := c
		again.Recompute = true
		ways = append(ways, way("set pipeline.recompute", again))
	}
	return c.State.CheckMemory(devices, memory, 0, ways...)
}
