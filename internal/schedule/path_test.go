package schedule

import "math"

// event is something that happens once: an action's taking or sending over a wire, or its computing.
type event struct {
	Action
	wire int // -1: computes
	send bool
}

// longestPath is Check's verdict and Simulate's makespan in another way, without an order of time: events are nodes, and arcs say what
// comes how long after what. Relaxing all arcs as often as there are events finds the longest paths, unless there is a circle. Capacity 0 is any.
func longestPath(s *Schedule, capacity int, extra []Edge, cost func(Action) float64, transfer func(from, to int, k Kind) float64) (float64, bool) {
	type wire struct {
		from, to int
		kind     Kind
	}
	var wires []wire
	for p := range s.Parts - 1 {
		wires = append(wires, wire{p, p + 1, Forward}, wire{p + 1, p, Backward})
	}
	for _, e := range extra {
		wires = append(wires, wire{e.From, e.To, e.Kind})
	}
	type arc struct {
		from, to int
		length   float64
	}
	var arcs []arc
	number := map[event]int{}
	for _, actions := range s.Actions {
		last := -1
		add := func(e event, length float64) {
			number[e] = len(number)
			if last >= 0 {
				arcs = append(arcs, arc{last, number[e], length})
			}
			last = number[e]
		}
		for _, a := range actions {
			for i, w := range wires {
				if w.kind == a.Kind && w.to == a.Part {
					add(event{a, i, false}, 0)
				}
			}
			add(event{a, -1, false}, 0) // its start
			length := cost(a)
			for i, w := range wires {
				if w.kind == a.Kind && w.from == a.Part {
					add(event{a, i, true}, length)
					length = 0
				}
			}
			if length > 0 {
				add(event{a, -1, true}, length) // its end
			}
		}
	}
	for i, w := range wires {
		length := 0.0
		if w.from%s.Stages != w.to%s.Stages {
			length = transfer(w.from, w.to, w.kind)
		}
		for m := range s.Microbatches {
			sent, taken := number[event{Action{w.kind, w.from, m}, i, true}], number[event{Action{w.kind, w.to, m}, i, false}]
			for n := m; n < s.Microbatches; n++ { // a transfer follows those before it
				later := number[event{Action{w.kind, w.to, n}, i, false}]
				arcs = append(arcs, arc{sent, later, float64(n-m+1) * length})
			}
			if room := m + max(capacity, w.from-w.to, w.to-w.from); capacity > 0 && room < s.Microbatches {
				arcs = append(arcs, arc{taken, number[event{Action{w.kind, w.from, room}, i, true}], 0})
			}
		}
	}
	at := make([]float64, len(number))
	depth := make([]int, len(number))
	for range len(number) + 1 {
		moved := false
		for _, a := range arcs {
			if at[a.from]+a.length > at[a.to] || depth[a.from]+1 > depth[a.to] {
				at[a.to] = max(at[a.to], at[a.from]+a.length)
				depth[a.to] = max(depth[a.to], depth[a.from]+1)
				moved = true
			}
		}
		if !moved {
			makespan := 0.0
			for _, time := range at {
				makespan = max(makespan, time)
			}
			return makespan, true
		}
	}
	return math.Inf(1), false
}
