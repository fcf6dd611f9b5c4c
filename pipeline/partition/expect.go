package partition

import (
	"gputrain/pipeline/schedule"
)

// Expect plays a schedule with the times that units and powers tell: a forward takes a third of a part's Cost.Compute and a backward the rest, or
// the whole where it computes the activations again; what crosses a cut takes its bytes' time on the slower of its two ends. The
// unit is the second.
func (a Assignment) Expect(s *schedule.Schedule, units []Unit, powers []Power, recompute bool) schedule.Simulation {
	compute, sent := make([]float64, a.Parts), make([]float64, a.Parts)
	for p, part := range a.Units(units) {
		compute[p] = a.CostOf(units, p, powers[p%a.Stages]).Compute
		sent[p] = float64(part[len(part)-1].Activation)
	}
	cost := func(act schedule.Action) float64 {
		forward := compute[act.Part] / (1 + backwardWork)
		switch {
		case act.Kind == schedule.Forward:
			return forward
		case recompute:
			return compute[act.Part]
		}
		return backwardWork * forward
	}
	transfer := func(from, to int, _ schedule.Kind) float64 {
		if from%a.Stages == to%a.Stages {
			return 0
		}
		return sent[min(from, to)] / min(powers[from%a.Stages].BytesPerSecond, powers[to%a.Stages].BytesPerSecond)
	}
	return s.Simulate(cost, transfer)
}
