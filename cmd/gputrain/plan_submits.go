package main

import (
	"fmt"
	"time"

	"gputrain/gpu"
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
	for _, s := range all {
		out.Submits += s.Times
		out.LongestSubmit = max(out.LongestSubmit, s.Takes.Seconds())
	}
	out.TooLong = train.TooLong(all, limit)
	return out
}

// addSubmits says how each stage is given its work, at the speed that its device is taken for until training measures it.
func (p *planned) addSubmits(all [][]gpu.Planned, devices []*gpu.Device) {
	for i, submits := range all {
		limit := devices[i].SubmitLimit()
		if devices[i].Limits().Software {
			limit = -1 // nothing resets a processor
		}
		p.Stages[i].plannedSubmits = summed(submits, limit)
		p.Stages[i].Speed, _ = devices[i].Speed()
	}
}

func (s plannedStage) submitsText() string {
	text := fmt.Sprintf("%d submits a step, the longest of %.2g s at %.3g TFLOP/s and %.0f GB/s, which training measures", s.Submits, s.LongestSubmit, s.FLOPS/1e12, s.BytesPerSecond/1e9)
	if s.TooLong != "" {
		text += "; " + s.TooLong
	}
	return text
}
