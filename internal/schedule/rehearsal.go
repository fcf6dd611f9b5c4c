package schedule

import "fmt"

// rehearsal plays a schedule: each stage goes through the steps of its actions, and wires hold what was sent. Stages meet only at wires that
// keep order, so that it does not matter in which order they are played: they come as far as they would at any speed.
type rehearsal struct {
	schedule *Schedule
	wires    []wire
	in, out  [2][][]int // the wires of each part by kind of action, in the order in which it uses them
	cost     func(Action) float64
	transfer func(from, to int, k Kind) float64

	at         []int     // the action that a stage is at
	step       []int     // its step: taking from wires, computing, sending to wires
	now        []float64 // the stage's time
	start, end [][]float64
}

// wire is one direction of a link.
type wire struct {
	from, to int
	kind     Kind
	capacity int       // 0 for any number
	arrived  []float64 // when each message so far is there
	taken    []float64 // when each was taken
}

func (s *Schedule) rehearse(extra []Edge) *rehearsal {
	r := &rehearsal{
		schedule: s, cost: func(Action) float64 { return 1 },
		at: make([]int, s.Stages), step: make([]int, s.Stages), now: make([]float64, s.Stages),
		start: make([][]float64, s.Stages), end: make([][]float64, s.Stages),
	}
	for kind := range r.in {
		r.in[kind], r.out[kind] = make([][]int, s.Parts), make([][]int, s.Parts)
	}
	for p := range s.Parts - 1 {
		r.connect(Edge{p, p + 1, Forward})
		r.connect(Edge{p + 1, p, Backward}) // without backwards nothing goes this way
	}
	for _, e := range extra {
		r.connect(e)
	}
	return r
}

// connect puts a wire from one part to another.
func (r *rehearsal) connect(e Edge) {
	r.out[e.Kind][e.From] = append(r.out[e.Kind][e.From], len(r.wires))
	r.in[e.Kind][e.To] = append(r.in[e.Kind][e.To], len(r.wires))
	r.wires = append(r.wires, wire{from: e.From, to: e.To, kind: e.Kind})
}

// toEnd plays until no stage comes further.
func (r *rehearsal) toEnd() {
	for moved := true; moved; {
		moved = false
		for stage := range r.at {
			for r.advance(stage) {
				moved = true
			}
		}
	}
}

// advance does the next step of a stage, unless it has to wait or is at its end.
func (r *rehearsal) advance(stage int) bool {
	if r.at[stage] == len(r.schedule.Actions[stage]) {
		return false
	}
	a, w, sending := r.next(stage)
	switch {
	case w == nil:
		r.start[stage] = append(r.start[stage], r.now[stage])
		r.now[stage] += r.cost(a)
		r.end[stage] = append(r.end[stage], r.now[stage])
	case sending:
		k := len(w.arrived)
		if w.capacity > 0 && k >= w.capacity {
			if k-w.capacity >= len(w.taken) {
				return false
			}
			r.now[stage] = max(r.now[stage], w.taken[k-w.capacity])
		}
		leaves := r.now[stage]
		if k > 0 {
			leaves = max(leaves, w.arrived[k-1])
		}
		if r.transfer != nil && w.from%r.schedule.Stages != w.to%r.schedule.Stages {
			leaves += r.transfer(w.from, w.to, w.kind)
		}
		w.arrived = append(w.arrived, leaves)
	default:
		k := len(w.taken)
		if k >= len(w.arrived) {
			return false
		}
		r.now[stage] = max(r.now[stage], w.arrived[k])
		w.taken = append(w.taken, r.now[stage])
	}
	r.step[stage]++
	if r.step[stage] == len(r.in[a.Kind][a.Part])+1+len(r.out[a.Kind][a.Part]) {
		r.at[stage]++
		r.step[stage] = 0
	}
	return true
}

// next is the action that a stage is at and the wire of its next step, nil when that is to compute.
func (r *rehearsal) next(stage int) (a Action, w *wire, sending bool) {
	a = r.schedule.Actions[stage][r.at[stage]]
	in, step := r.in[a.Kind][a.Part], r.step[stage]
	switch {
	case step < len(in):
		return a, &r.wires[in[step]], false
	case step == len(in):
		return a, nil, false
	}
	return a, &r.wires[r.out[a.Kind][a.Part][step-len(in)-1]], true
}

// stuck says of each stage that is not at its end what it waits for.
func (r *rehearsal) stuck() []string {
	var stages []string
	for stage, at := range r.at {
		if at == len(r.schedule.Actions[stage]) {
			continue
		}
		if a, w, sending := r.next(stage); sending {
			stages = append(stages, fmt.Sprintf("stage %d waits to send %s, to part %d", stage, a, w.to))
		} else {
			stages = append(stages, fmt.Sprintf("stage %d waits in %s, for part %d", stage, a, w.from))
		}
	}
	return stages
}
