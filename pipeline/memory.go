package pipeline

import (
	"context"
	"fmt"
	"slices"

	"gputrain/gpu"
	"gputrain/state"
)

// Dry is a state on devices without hardware that are otherwise like these, for plans: Memory is what Create would take of each stage's device, and Submits
// those of an update. It takes nothing of the devices. A value that a device can hold neither in one binding nor in parts is a *gpu.LimitError.
func Dry(ctx context.Context, c Config, devices []*gpu.Device) (*State, error) {
	dry := make([]*gpu.Device, len(devices))
	for i, d := range devices {
		if dry[i] = dry[slices.Index(devices, d)]; dry[i] == nil {
			dry[i] = d.AsDry()
		}
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

// fits compares what everything takes with the devices before anything is taken of them. It returns the first of the configuration's choices that
// fits, and the kernels of each stage.
func (c Config) fits(ctx context.Context, devices []*gpu.Device) (_ Config, kernels [][]*gpu.Kernel, err error) {
	var memory []state.MemoryPlan
	for _, c.State = range c.State.Choices() {
		rehearsal, err := Dry(ctx, c, devices)
		if err == nil {
			kernels, memory = rehearsal.passes.kernels(), c.own(rehearsal.Memory())
			rehearsal.Release()
		}
		fits, err := c.agree(ctx, err == nil && state.FitsMemory(devices, memory, 0), err)
		if err != nil || fits {
			return c, kernels, err
		}
	}
	err = c.State.CheckMemory(devices, memory, 0, func(smaller state.Config) ([]state.MemoryPlan, error) {
		other := c
		other.State = smaller
		memory, err := planned(ctx, other, devices)
		return c.own(memory), err
	})
	_, err = c.agree(ctx, true, err)
	return c, nil, err
}

// own is what the stages of this rank take: the others' is for their ranks to judge.
func (c Config) own(memory []state.MemoryPlan) []state.MemoryPlan {
	memory = slices.Clone(memory)
	for i := range memory {
		if !c.State.Mesh.Here(i) {
			memory[i] = state.MemoryPlan{}
		}
	}
	return memory
}

// Plan is what everything takes of each stage's device, and of this rank's host, and whether these have it.
func Plan(ctx context.Context, c Config, devices []*gpu.Device) (memory []state.MemoryPlan, host state.HostPlan, fits bool, err error) {
	var copied uint64
	s, err := Dry(ctx, c, devices)
	if err == nil {
		memory = s.Memory()
		copied, err = s.CopyBytes()
		s.Release()
	}
	fits, err = c.agree(ctx, err == nil && state.FitsMemory(devices, c.own(memory), 0), err)
	return memory, state.PlanHost(devices, c.own(memory), copied), fits, err
}

// planned is what everything takes of each stage's device.
func planned(ctx context.Context, c Config, devices []*gpu.Device) ([]state.MemoryPlan, error) {
	s, err := Dry(ctx, c, devices)
	if err != nil {
		return nil, err
	}
	defer s.Release()
	return s.Memory(), nil
}

// peakTrials is how often the peak of an adapter is measured before the best figure is taken for what it can do.
const peakTrials = 5

// Peak is the number of operations a second that devices make in f32 products, all together. An adapter counts once, however many of the
// devices are its. The best figure is kept beside those of Powers. A busy machine gives low figures, so the first few calls measure again,
// each for less than half a second an adapter.
func Peak(ctx context.Context, devices []*gpu.Device) (float64, error) {
	seen, sum := map[int]bool{}, 0.0
	for _, d := range devices {
		a := d.Adapter()
		if seen[a.Index] {
			continue
		}
		seen[a.Index] = true
		f, err := figures(a, peakTrials, func() (gpu.Speed, error) { return measureAdapter(ctx, a) })
		if err != nil {
			return 0, fmt.Errorf("pipeline: peak of adapter %s: %w", a, err)
		}
		sum += f.Peak
	}
	return sum, nil
}
