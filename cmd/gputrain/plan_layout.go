package main

import (
	"context"
	"fmt"

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
func (p *planned) addMemory(ctx context.Context, cfg *runfile.Config, c state.Config, cut partition.Assignment, devices []*gpu.Device) error {
	var adapters []gpu.Adapter
	var limits []gpu.Limits
	for i, d := range devices {
		adapters, limits = append(adapters, d.Adapter()), append(limits, d.Limits())
		p.Stages[i].Adapter, p.Stages[i].Index = d.Adapter().String(), d.Adapter().Index
		if bytes, _, known := d.Available(); known {
			p.Stages[i].Available = &bytes
		}
	}
	if len(devices) == 1 {
		memory, err := state.Plan(c, limits[0])
		p.Stages[0].Planned, p.Stages[0].Memory = memory.Total(), memory.String()
		return err
	}
	run := setup.Pipeline(cfg, cut)
	run.State = c
	memory, err := pipeline.PlanMemory(ctx, run, adapters, limits)
	for i, m := range memory {
		p.Stages[i].Planned, p.Stages[i].Memory = m.Total(), m.String()
	}
	return err
}

// fits refuses a plan whose stages are too large for what their adapter has.
func (p *planned) fits() error {
	total := map[int]uint64{}
	for _, s := range p.Stages {
		total[s.Index] += s.Planned
		if s.Available != nil && total[s.Index] > *s.Available {
			way := "lower train.batch, raise pipeline.microbatches, set pipeline.recompute, or use more adapters"
			if len(p.Stages) == 1 {
				way = "lower train.batch and raise train.accumulate, or use more stages on more adapters"
			}
			return fmt.Errorf("plan: stage %d: the stages on %s take %s, wanted at most %s: %s: %w",
				s.Stage, s.Adapter, size(total[s.Index]), size(*s.Available), way, gpu.ErrOutOfMemory)
		}
	}
	return nil
}
