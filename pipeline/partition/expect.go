package partition

import (
	"gputrain/internal/schedule"
)

// Expect plays a schedule with the times that units and powers tell: a forward takes that of a part's FLOPs and a backward that of the rest of its
// work, and again times a forward, which it computes again; what crosses a cut takes its bytes' time on the slower of its two ends. The unit is the
// second.
func (a Assignment) Expect(s *schedule.Schedule, units []Unit, powers []Power, again float64) schedule.Simulation {
	forward, backward, last := make([]float64, a.Parts), make([]float64, a.Parts), make([]Unit, a.Parts)
	for p, part := range a.Units(units) {
		ahead, both := int64(0), int64(0)
		for _, u := range part {
			ahead, both, last[p] = ahead+u.FLOPs, both+u.work(), u
		}
		power := powers[p%a.Stages].FLOPS
		forward[p], backward[p] = float64(ahead)/power, float64(both-ahead)/power
	}
	cost := func(act schedule.Action) float64 {
		switch {
		case act.Kind == schedule.Forward:
			return forward[act.Part]
		case backward[act.Part] > 0:
			return again*forward[act.Part] + backward[act.Part]
		}
		return 0
	}
	transfer := func(from, to int, kind schedule.Kind) float64 {
		if from%a.Stages == to%a.Stages {
			return 0
		}
		bytes := last[min(from, to)].Activation
		if kind == schedule.Backward {
			bytes -= last[min(from, to)].OneWay
		}
		return float64(bytes) / min(powers[from%a.Stages].BytesPerSecond, powers[to%a.Stages].BytesPerSecond)
	}
	return s.Simulate(cost, transfer)
}
