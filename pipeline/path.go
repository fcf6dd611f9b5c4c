package pipeline

import (
	"time"

	"gputrain/internal/schedule"
	"gputrain/internal/timeline"
)

// OffPath is the share of the newest step's transfer time that did not lengthen it: the step is played again (Schedule.Simulate) with the times that
// its actions and transfers took, and with links that take no time; what the links cost is the difference. 1 where nothing was carried.
//
// It differs from Use.Hidden in that a stage with time to spare may wait for a message without harm.
func (s *State) OffPath() float64 {
	spans, _ := s.passes.notes.recorder.Spans()
	compute := map[schedule.Action]time.Duration{}
	carried := map[schedule.Edge]time.Duration{}
	total := time.Duration(0)
	for _, span := range spans {
		switch span.Kind {
		case timeline.Compute:
			kind := schedule.Backward
			if span.Name == schedule.Forward.String() {
				kind = schedule.Forward
			}
			compute[schedule.Action{Kind: kind, Part: span.Part, Microbatch: span.Microbatch}] += span.End - span.Start
		case timeline.Transfer:
			e := s.passes.notes.wires[span.Link].Edge
			carried[e] += span.End - span.Start
			total += span.End - span.Start
		}
	}
	if total == 0 {
		return 1
	}
	cost := func(a schedule.Action) float64 { return compute[a].Seconds() }
	transfer := func(from, to int, k schedule.Kind) float64 {
		return carried[schedule.Edge{From: from, To: to, Kind: k}].Seconds() / float64(s.passes.training.schedule.Microbatches)
	}
	detours := s.passes.training.cut.Detours()
	with := s.passes.training.schedule.Simulate(cost, transfer, detours...)
	without := s.passes.training.schedule.Simulate(cost, nil, detours...)
	return 1 - (with.Makespan-without.Makespan)/total.Seconds()
}
