// Package fit answers what training takes of its devices, and whether these have room for it, before anything is taken of them. It builds the run dry: on
// devices without hardware.
package fit

import (
	"context"

	"gputrain/gpu"
	"gputrain/pipeline"
	"gputrain/state"
)

// Takes is what training takes of the devices of its stages. It is known before anything is taken of them.
type Takes struct {
	Job     state.Job // with what is computed again
	Memory  []state.MemoryPlan
	Host    state.HostPlan
	Submits [][]gpu.Planned // of a step, to each stage's device; nil: nobody has planned them
	Holds   []string        // the part of the model that each stage has; nil: all of it
	Fits    bool            // the devices have room for it
}

// Bytes is the device memory of all stages together.
func (t Takes) Bytes() (sum uint64) {
	for _, m := range t.Memory {
		sum += m.Total()
	}
	return sum
}

// Most is the device memory of the stage that takes most.
func (t Takes) Most() (most uint64) {
	for _, m := range t.Memory {
		most = max(most, m.Total())
	}
	return most
}

// On are devices to train on, all known to this process: one, or one for each stage of a cut model, whose Config says the cut.
type On struct {
	pipeline.Config // State is left out: it is the job's
	Devices         []*gpu.Device
	Taken           uint64 // bytes of the one device that the run begins with
}

// dry is a state on devices without hardware.
type dry interface {
	Memory() []state.MemoryPlan
	Submits() [][]gpu.Planned
	CopyBytes() (uint64, error)
}

// Memory is what a job takes of each device.
func (o On) Memory(ctx context.Context, j state.Job) (memory []state.MemoryPlan, err error) {
	err = o.dry(ctx, []state.Job{j}, func(_ state.Job, s dry) (bool, error) {
		memory = s.Memory()
		return false, nil
	})
	return memory, err
}

// Takes is what a job takes of the devices, and of the host.
func (o On) Takes(ctx context.Context, j state.Job) (out Takes, err error) {
	err = o.Choices(ctx, []state.Job{j}, func(t Takes) (bool, error) {
		out = t
		return false, nil
	})
	return out, err
}

// Choices plans jobs that differ in what is computed again, in their order, until visit has seen enough.
func (o On) Choices(ctx context.Context, jobs []state.Job, visit func(t Takes) (more bool, err error)) error {
	return o.dry(ctx, jobs, func(j state.Job, s dry) (bool, error) {
		memory := s.Memory()
		copied, err := s.CopyBytes()
		if err != nil {
			return false, err
		}
		return visit(Takes{
			Job: j, Memory: memory, Submits: s.Submits(),
			Host: state.PlanHost(o.Devices, memory, copied), Fits: state.FitsMemory(o.Devices, memory, o.Taken),
		})
	})
}

// dry builds jobs, in their order, until visit has seen enough.
func (o On) dry(ctx context.Context, jobs []state.Job, visit func(j state.Job, s dry) (more bool, err error)) error {
	if len(o.Devices) == 1 {
		return state.DryChoices(ctx, jobs, o.Devices[0], func(j state.Job, s *state.TrainState) (bool, error) { return visit(j, s) })
	}
	for _, j := range jobs {
		o.State = j.Config
		s, err := pipeline.Dry(ctx, o.Config, o.Devices)
		if err != nil {
			return err
		}
		more, err := visit(j, s)
		s.Release()
		if err != nil || !more {
			return err
		}
	}
	return nil
}
