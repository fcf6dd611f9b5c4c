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
	j, err := newJob(c)
	if err != nil {
		return nil, err
	}
	return j.dry(ctx, devices)
}

func (j job) dry(ctx context.Context, devices []*gpu.Device) (*State, error) {
	dry := make([]*gpu.Device, len(devices))
	for i, d := range devices {
		if dry[i] = dry[slices.Index(devices, d)]; dry[i] == nil {
			dry[i] = d.AsDry()
		}
	}
	if err := j.checkDevices(dry); err != nil {
		return nil, err
	}
	s, err := j.build(ctx, dry, nil, nil)
	if err != nil {
		return nil, fmt.Errorf("pipeline: plan: %w", err)
	}
	return s, nil
}

// fits compares what everything takes with the devices before anything is taken of them. It returns the first of the configuration's choices that
// fits, and the kernels of each stage.
func (j job) fits(ctx context.Context, devices []*gpu.Device) (_ job, kernels [][]*gpu.Kernel, err error) {
	var memory []state.MemoryPlan
	for _, j.State = range j.State.Choices() {
		rehearsal, err := j.dry(ctx, devices)
		if err == nil {
			kernels, memory = rehearsal.passes.kernels(), j.own(rehearsal.Memory())
			rehearsal.Release()
		}
		fits, err := j.agree(ctx, err == nil && state.FitsMemory(devices, memory, 0), err)
		if err != nil || fits {
			return j, kernels, err
		}
	}
	err = j.State.CheckMemory(devices, memory, 0, func(smaller state.Job) ([]state.MemoryPlan, error) {
		other := j
		other.State = smaller
		rehearsal, err := other.dry(ctx, devices)
		if err != nil {
			return nil, err
		}
		defer rehearsal.Release()
		return j.own(rehearsal.Memory()), nil
	})
	_, err = j.agree(ctx, true, err)
	return j, nil, err
}

// own is what the stages of this rank take: the others' is for their ranks to judge.
func (j job) own(memory []state.MemoryPlan) []state.MemoryPlan {
	memory = slices.Clone(memory)
	for i := range memory {
		if !j.State.Mesh.Here(i) {
			memory[i] = state.MemoryPlan{}
		}
	}
	return memory
}

// Plan is what everything takes of each stage's device, and of this rank's host, and whether these have it.
func Plan(ctx context.Context, c Config, devices []*gpu.Device) (memory []state.MemoryPlan, host state.HostPlan, fits bool, err error) {
	var copied uint64
	var s *State
	j, err := newJob(c)
	if err == nil {
		s, err = j.dry(ctx, devices)
	}
	if err == nil {
		memory = s.Memory()
		copied, err = s.CopyBytes()
		s.Release()
	}
	fits, err = j.agree(ctx, err == nil && state.FitsMemory(devices, j.own(memory), 0), err)
	return memory, state.PlanHost(devices, j.own(memory), copied), fits, err
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
