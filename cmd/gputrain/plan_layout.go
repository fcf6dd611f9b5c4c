package main

import (
	"context"

	"gputrain/gpu"
	"gputrain/model"
	"gputrain/pipeline"
	"gputrain/pipeline/partition"
	"gputrain/pipeline/schedule"
	"gputrain/state"
	"gputrain/train/runfile"
	"gputrain/train/setup"
)

const pictureWidth = 120

// layOut says what each stage has of the model and how busy it should be.
func layOut(cfg *runfile.Config, c state.Config, units []partition.Unit, cut partition.Assignment, powers []partition.Power) (*planned, error) {
	order, err := schedule.New(schedule.Config{
		Name: cfg.Pipeline.Schedule, Stages: cut.Stages, Chunks: cut.Parts / cut.Stages, Microbatches: c.Microbatches, Ahead: cfg.Pipeline.Ahead,
	})
	if err != nil {
		return nil, err
	}
	out := &planned{
		Model: c.Definition.Kind(), Parameters: model.Parameters(c.Definition), Schedule: order.Name, Microbatches: c.Microbatches, Rows: c.Batch,
		Sequence: c.Sequence, Picture: order.Picture(pictureWidth),
	}
	played := cut.Expect(order, units, powers, cfg.Pipeline.Recompute)
	parts := cut.Units(units)
	for i := range cut.Stages {
		s := plannedStage{Stage: i, Busy: 1 - played.Idle[i]}
		for part := i; part < cut.Parts; part += cut.Stages {
			names := []string{}
			for _, u := range parts[part] {
				names = append(names, u.Name)
				s.Params += int64(u.Bytes / 4)
			}
			s.Parts = append(s.Parts, names)
		}
		out.Bubble += played.Idle[i] / float64(cut.Stages)
		out.Stages = append(out.Stages, s)
	}
	return out, nil
}

// addMemory says where each stage lives, what training would take there and what there is.
func (p *planned) addMemory(ctx context.Context, cfg *runfile.Config, c state.Config, cut partition.Assignment, devices []*gpu.Device) (err error) {
	run := setup.Pipeline(cfg, cut)
	run.State = c
	var memory []state.MemoryPlan
	if len(devices) == 1 {
		memory = make([]state.MemoryPlan, 1)
		if memory[0], err = state.Plan(c, devices[0].Limits()); err == nil {
			p.refused = c.CheckMemory(devices, memory, 0)
		}
	} else if memory, err = pipeline.PlanMemory(ctx, run, devices); err == nil {
		p.refused = run.CheckMemory(ctx, devices, memory)
	}
	if err != nil {
		return err
	}
	for i, m := range memory {
		s := &p.Stages[i]
		s.Adapter, s.Index, s.Planned, s.Memory = devices[i].Adapter().String(), devices[i].Adapter().Index, m.Total(), m.String()
		if bytes, _, known := devices[i].Available(); known {
			s.Available = &bytes
		}
	}
	return p.addSubmits(ctx, run, devices)
}
