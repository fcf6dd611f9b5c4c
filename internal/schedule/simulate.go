package schedule

import "math"

// Simulation is when each action of a schedule runs, in the unit of the costs that it was given.
type Simulation struct {
	// Start and End hold a time for each action, laid out as Schedule.Actions.
	Start, End [][]float64
	// Idle is the share of Makespan in which a stage runs no action, by stage.
	Idle []float64
	// Makespan is the time from the first start to the last end; +Inf for a schedule that does not end.
	Makespan float64
}

// Simulate plays a schedule through. An action takes cost; a message from one part to another takes transfer, nil for no time, and none
// between parts of one stage. A link (see Check) carries a message at a time and keeps as many as it is given: nobody waits to
// send, and a stage computes while links carry.
func (s *Schedule) Simulate(cost func(Action) float64, transfer func(from, to int, k Kind) float64, extra ...Edge) Simulation {
	if s.checkActions() != nil {
		return Simulation{Makespan: math.Inf(1)}
	}
	r := s.rehearse(extra)
	r.cost, r.transfer = cost, transfer
	r.toEnd()
	if len(r.stuck()) > 0 {
		return Simulation{Makespan: math.Inf(1)}
	}
	result := Simulation{Start: r.start, End: r.end, Idle: make([]float64, s.Stages)}
	for _, at := range r.now {
		result.Makespan = max(result.Makespan, at)
	}
	if result.Makespan > 0 {
		for stage := range result.Idle {
			busy := 0.0
			for i := range r.start[stage] {
				busy += r.end[stage][i] - r.start[stage][i]
			}
			result.Idle[stage] = 1 - busy/result.Makespan
		}
	}
	return result
}
