package main

import (
	"context"
	"fmt"
	"time"

	"gputrain/gpu"
	"gputrain/pipeline"
	"gputrain/train"
)

// plannedSubmits is what a step is submitted in, to one device.
type plannedSubmits struct {
	Submits       int     `json:"submits"`
	LongestSubmit float64 `json:"longest_submit_s"`          // as expected
	TooLong       string  `json:"submit_too_long,omitempty"` // the command that is beyond device.submit_limit by itself, and what to do
}

// summed is what submits planned with a limit come to.
func summed(all []gpu.Planned, limit time.Duration) (out plannedSubmits) {
	out.Submits = len(all)
	for _, s := range all {
		out.LongestSubmit = max(out.LongestSubmit, s.Takes.Seconds())
	}
	if command, takes := gpu.Longest(all); limit > 0 && takes > limit {
		out.TooLong = fmt.Sprintf("%s is expected to take %.2g s, wanted at most %.2g s (device.submit_limit), and is not to be cut: %s",
			command, takes.Seconds(), limit.Seconds(), train.FewerRows)
	}
	return out
}

// addSubmits says how each stage is given its work, at the speed that its device is taken for until training measures it.
func (p *planned) addSubmits(ctx context.Context, run pipeline.Config, devices []*gpu.Device) (err error) {
	var all [][]gpu.Planned
	if d := devices[0]; len(devices) == 1 {
		speed, _ := d.Speed()
		all, err = run.State.Submits(ctx, d.Adapter(), d.Limits(), d.SubmitLimit(), speed)
	} else {
		all, err = pipeline.PlanSubmits(ctx, run, devices)
	}
	for i, submits := range all {
		speed, _ := devices[i].Speed()
		limit := devices[i].SubmitLimit()
		if devices[i].Limits().Software {
			limit = -1 // nothing resets a processor
		}
		p.Stages[i].plannedSubmits = summed(submits, limit)
		p.Stages[i].FLOPS, p.Stages[i].BytesPerSecond = speed.FLOPS, speed.BytesPerSecond
	}
	return err
}

func (s plannedStage) submitsText() string {
	text := fmt.Sprintf("%d submits a step, the longest of %.2g s at %.3g TFLOP/s and %.0f GB/s, which training measures", s.Submits, s.LongestSubmit, s.FLOPS/1e12, s.BytesPerSecond/1e9)
	if s.TooLong != "" {
		text += "; " + s.TooLong
	}
	return text
}
