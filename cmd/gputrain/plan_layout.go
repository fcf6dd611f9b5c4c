package main

import (
	"context"
	"fmt"
	"regexp"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/schedule"
	"gputrain/kron"
	"gputrain/model"
	"gputrain/optim"
	"gputrain/pipeline"
	"gputrain/pipeline/partition"
	"gputrain/run/runfile"
	"gputrain/run/setup"
	"gputrain/state"
)

const pictureWidth = 120

// layOut says what each stage has of the model.
func layOut(order *schedule.Schedule, c state.Config, units []partition.Unit, cut partition.Assignment) *planned {
	out := &planned{
		Model: c.Definition.Kind(), Parameters: model.Parameters(c.Definition), Schedule: order.Name, Microbatches: c.Microbatches, Rows: c.Batch,
		Sequence: c.Sequence, Picture: order.Picture(pictureWidth),
	}
	parts := cut.Units(units)
	for i := range cut.Stages {
		s := plannedStage{Stage: i}
		for part := i; part < cut.Parts; part += cut.Stages {
			names := []string{}
			for _, u := range parts[part] {
				names = append(names, u.Name)
				s.Params += int64(u.Bytes / 4)
			}
			s.Parts = append(s.Parts, names)
		}
		out.Stages = append(out.Stages, s)
	}
	return out
}

// addMemory says where each stage lives, what training would take there with each choice of what is computed again, what there is, and how each is given
// its work.
func (p *planned) addMemory(ctx context.Context, cfg *runfile.Config, c state.Config, cut partition.Assignment, devices []*gpu.Device) error {
	run, wanted := setup.Pipeline(cfg, cut), c.Recompute
	run.State = c
	var chosen []state.MemoryPlan
	var copied uint64
	fits := false
	err := dryChoices(ctx, run, devices, func(c state.Job, s dryState) (err error) {
		memory := s.Memory()
		choice := plannedChoice{Recompute: c.Recompute, Fits: state.FitsMemory(devices, memory, 0)}
		for _, m := range memory {
			choice.Activations += m.Step + m.Activations + m.Scratch
			choice.Planned += m.Total()
		}
		if choice.Again, err = c.Again(); err != nil {
			return err
		}
		p.Choices = append(p.Choices, choice)
		if wanted == choice.Recompute || wanted == state.RecomputeAuto && !fits {
			p.Recompute, p.again, chosen, fits = choice.Recompute, choice.Again, memory, choice.Fits
			p.addSubmits(s.Submits(), devices)
			if copied, err = s.CopyBytes(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i, m := range chosen {
		s := &p.Stages[i]
		s.Adapter, s.Index, s.Planned, s.Memory = devices[i].Adapter().String(), devices[i].Adapter().Index, m.Total(), m.String()
		if bytes, _, known := devices[i].Available(); known {
			s.Available = &bytes
		}
	}
	p.Host = hostOf(state.PlanHost(devices, chosen, copied), cfg.Train.SaveAsync)
	c.Recompute = p.Recompute
	j, err := state.NewJob(c)
	if err != nil {
		return err
	}
	p.refused = j.CheckMemory(devices, chosen, 0, func(smaller state.Job) ([]state.MemoryPlan, error) {
		other := run
		other.State = smaller.Config
		return memoryOf(ctx, other, devices)
	})
	return nil
}

// onRanks says on which ranks the stages are, if these are several, and which adapters of this machine they are planned with.
func (p *planned) onRanks(ranks []int, adapters []gpu.Adapter) {
	for i, rank := range ranks {
		p.Stages[i].Rank, p.Stages[i].Adapter, p.Stages[i].Index = rank, adapters[i].String(), adapters[i].Index
		p.Note = "adapters of this machine stand for those of other ranks, by which the ranks cut the model, and what memory these have is not known here"
	}
}

// dryState is a training state on devices without hardware.
type dryState interface {
	Memory() []state.MemoryPlan
	Submits() [][]gpu.Planned
	CopyBytes() (uint64, error)
	Release()
}

// dry makes the state of a run as it would be on these devices.
func dry(ctx context.Context, run pipeline.Config, devices []*gpu.Device) (dryState, error) {
	if len(devices) > 1 {
		return pipeline.Dry(ctx, run, devices)
	}
	j, err := state.NewJob(run.State)
	if err != nil {
		return nil, err
	}
	return state.Dry(ctx, j, devices[0].AsDry())
}

// dryChoices is dry with each choice of what is computed again in turn.
func dryChoices(ctx context.Context, run pipeline.Config, devices []*gpu.Device, visit func(j state.Job, s dryState) error) error {
	var choices []state.Job
	for _, run.State.Recompute = range model.Recomputes {
		j, err := state.NewJob(run.State)
		if err != nil {
			return err
		}
		choices = append(choices, j)
	}
	if len(devices) == 1 {
		return state.DryChoices(ctx, choices, devices[0], func(j state.Job, s *state.TrainState) (bool, error) { return true, visit(j, s) })
	}
	for _, j := range choices {
		run.State = j.Config
		s, err := pipeline.Dry(ctx, run, devices)
		if err != nil {
			return err
		}
		err = visit(j, s)
		s.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// memoryOf is what each stage takes.
func memoryOf(ctx context.Context, run pipeline.Config, devices []*gpu.Device) ([]state.MemoryPlan, error) {
	s, err := dry(ctx, run, devices)
	if err != nil {
		return nil, err
	}
	defer s.Release()
	return s.Memory(), nil
}

// expect plays the schedule, to tell how busy the stages are.
func (p *planned) expect(order *schedule.Schedule, units []partition.Unit, cut partition.Assignment, powers []partition.Power) {
	for i, idle := range cut.Expect(order, units, powers, p.again).Idle {
		p.Stages[i].Busy = 1 - idle
		p.Bubble += idle / float64(cut.Stages)
	}
}

// kronPlan is the blocks of a model's parameters under an optimizer; nil where it has no Kronecker factors.
func kronPlan(c optim.Config, params []buffers.Spec) (*kron.Plan, error) {
	parameters, err := c.Decode()
	if err != nil {
		return nil, fmt.Errorf("inspect: %w", err)
	}
	p, ok := parameters.(*optim.Kron)
	if !ok {
		return nil, nil
	}
	var leaves []kron.Leaf
	for _, s := range params {
		scanned, err := inMask(p.ScannedLayers, s)
		if err != nil {
			return nil, fmt.Errorf("inspect: optimizer %s: scanned_layers: %w", c.Name, err)
		}
		leaves = append(leaves, kron.Leaf{Path: s.Path, Shape: s.Shape, Scanned: scanned})
	}
	engine, err := p.Config(c.Options)
	if err != nil {
		return nil, fmt.Errorf("inspect: optimizer %s: %w", c.Name, err)
	}
	return kron.NewPlan(leaves, engine)
}

// inMask tells whether a mask chooses a leaf; nil chooses none.
func inMask(m *optim.Mask, s buffers.Spec) (bool, error) {
	switch {
	case m == nil:
		return false, nil
	case m.Matrices:
		return len(s.Shape) >= 2, nil
	case m.Paths != nil:
		return m.Paths[s.Path], nil
	}
	for _, pattern := range m.Patterns {
		if match, err := regexp.MatchString(pattern, s.Path); match || err != nil {
			return match, err
		}
	}
	return false, nil
}
