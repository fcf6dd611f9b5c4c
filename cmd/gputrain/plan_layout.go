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
	"gputrain/pipeline/partition"
	"gputrain/run/fit"
	"gputrain/run/runfile"
	"gputrain/state"
)

const pictureWidth = 120

// layOut says what each stage has of the model.
func layOut(order *schedule.Schedule, c state.Config, units []partition.Unit, cut partition.Assignment) *planned {
	out := &planned{
		Model: c.Definition.Kind(), Parameters: model.Parameters(model.Student(c.Definition)), Schedule: order.Name, Microbatches: c.Microbatches, Rows: c.Batch,
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
func (p *planned) addMemory(ctx context.Context, cfg *runfile.Config, c state.Config, on fit.On) error {
	j, err := state.NewJob(c)
	if err != nil {
		return err
	}
	var chosen fit.Takes
	for _, j := range j.Pools() {
		if chosen, err = p.choose(ctx, j, on); err != nil {
			return err
		}
		if chosen.Fits {
			break
		}
	}
	p.Short = chosen.Job.ShortPool()
	p.addSubmits(chosen.Submits, on.Devices)
	for i, m := range chosen.Memory {
		s, d := &p.Stages[i], on.Devices[i]
		s.Adapter, s.Index, s.Planned, s.Memory = d.Adapter().String(), d.Adapter().Index, m.Total(), m.String()
		if bytes, _, known := d.Available(); known {
			s.Available = &bytes
		}
	}
	p.Host = hostOf(chosen.Host, cfg.Train.SaveAsync)
	p.refused = chosen.Job.CheckMemory(on.Devices, chosen.Memory, 0, func(smaller state.Job) ([]state.MemoryPlan, error) {
		return on.Memory(ctx, smaller)
	})
	return nil
}

// choose plans a job with each choice of what is computed again, and finds the one that it stands for.
func (p *planned) choose(ctx context.Context, j state.Job, on fit.On) (chosen fit.Takes, err error) {
	var choices []state.Job
	wanted := j.Recompute
	for _, j.Recompute = range model.Recomputes {
		choices = append(choices, j)
	}
	p.Choices = nil
	err = on.Choices(ctx, choices, func(t fit.Takes) (more bool, err error) {
		choice := plannedChoice{Recompute: t.Job.Recompute, Fits: t.Fits, Planned: t.Bytes()}
		for _, m := range t.Memory {
			choice.Activations += m.Step + m.Activations + m.Scratch
		}
		if choice.Again, err = t.Job.Again(); err != nil {
			return false, err
		}
		p.Choices = append(p.Choices, choice)
		if wanted == choice.Recompute || wanted == state.RecomputeAuto && !chosen.Fits {
			p.Recompute, p.again, chosen = choice.Recompute, choice.Again, t
		}
		return true, nil
	})
	return chosen, err
}

// onRanks says on which ranks the stages are, if these are several, and which adapters of this machine they are planned with.
func (p *planned) onRanks(ranks []int, adapters []gpu.Adapter) {
	for i, rank := range ranks {
		p.Stages[i].Rank, p.Stages[i].Adapter, p.Stages[i].Index = rank, adapters[i].String(), adapters[i].Index
		p.Note = "adapters of this machine stand for those of other ranks, by which the ranks cut the model, and what memory these have is not known here"
	}
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
