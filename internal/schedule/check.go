package schedule

import (
	"fmt"
	"strings"
)

// Edge says that part From hands something to part To in passes of a kind, where they are no neighbours: forward to a later part,
// backward to an earlier one.
type Edge struct {
	From, To int
	Kind     Kind
}

// Hops is how many parts an edge goes: so many microbatches may lie between what both ends are at, and a link has to hold.
func Hops(from, to int) int { return max(from-to, to-from) }

// Check reports what would keep a schedule from running to its end with the results of an unpipelined step: an action that is
// missing, on a wrong stage, or there twice; microbatches of a part and kind that do not ascend, whose gradients would add up in
// another order; a backward before its forward; stages that wait for each other for ever. A link runs each way between neighbouring
// parts, and one for each extra edge, on one stage too; it keeps order and holds capacity messages, that of an edge as many as it spans parts if
// they are more. An action first takes its
// messages, that of the neighbour before those of the extra edges in the order given, then computes, then sends in the same order,
// and waits where a link is full.
func (s *Schedule) Check(capacity int, extra ...Edge) error {
	if capacity < 1 {
		return fmt.Errorf("pipeline: schedule %s: capacity of links: found %d, wanted 1 or more", s.Name, capacity)
	}
	if err := s.checkActions(); err != nil {
		return fmt.Errorf("pipeline: schedule %s: %w", s.Name, err)
	}
	for _, e := range extra {
		low, high := e.From, e.To
		if e.Kind == Backward {
			low, high = high, low
		}
		if low < 0 || low >= high || high >= s.Parts {
			return fmt.Errorf("pipeline: schedule %s: edge: found %s from part %d to part %d, wanted a later one forward, an earlier one backward, of %d", s.Name, e.Kind, e.From, e.To, s.Parts)
		}
	}
	r := s.rehearse(extra)
	for i := range r.wires {
		r.wires[i].capacity = max(capacity, Hops(r.wires[i].from, r.wires[i].to))
	}
	r.toEnd()
	if stuck := r.stuck(); len(stuck) > 0 {
		return fmt.Errorf("pipeline: schedule %s: deadlock with links of %d: %s", s.Name, capacity, strings.Join(stuck, "; "))
	}
	return nil
}

// checkActions holds the actions against what each part has to do.
func (s *Schedule) checkActions() error {
	if s.Stages < 1 || s.Parts < 1 || s.Microbatches < 1 {
		return fmt.Errorf("found %d stages, %d parts, %d microbatches, wanted 1 or more of each", s.Stages, s.Parts, s.Microbatches)
	}
	if len(s.Actions) != s.Stages {
		return fmt.Errorf("found actions of %d stages, wanted %d", len(s.Actions), s.Stages)
	}
	done := [2][]int{make([]int, s.Parts), make([]int, s.Parts)}
	for stage, actions := range s.Actions {
		for i, a := range actions {
			if err := s.checkAction(stage, a, done); err != nil {
				return fmt.Errorf("stage %d: action %d: %w", stage, i, err)
			}
			done[a.Kind][a.Part]++
		}
	}
	for kind, parts := range done {
		if s.Name == forwardOnly && Kind(kind) == Backward {
			break
		}
		for part, n := range parts {
			if n < s.Microbatches {
				return fmt.Errorf("stage %d: %s not found", part%s.Stages, Action{Kind(kind), part, n})
			}
		}
	}
	return nil
}

// checkAction holds one action against those that its part has done, of each kind.
func (s *Schedule) checkAction(stage int, a Action, done [2][]int) error {
	if a.Kind > Backward || a.Kind == Backward && s.Name == forwardOnly {
		return fmt.Errorf("found an action of kind %d, wanted one of this schedule", a.Kind)
	}
	if a.Part < 0 || a.Part >= s.Parts {
		return fmt.Errorf("found %s, wanted a part of %d", a, s.Parts)
	}
	if want := a.Part % s.Stages; want != stage {
		return fmt.Errorf("found %s, wanted it on stage %d", a, want)
	}
	next := done[a.Kind][a.Part]
	if next == s.Microbatches {
		return fmt.Errorf("found %s after all %d", a, s.Microbatches)
	}
	if a.Microbatch != next {
		return fmt.Errorf("found %s, wanted microbatch %d", a, next)
	}
	if a.Kind == Backward && done[Forward][a.Part] <= next {
		return fmt.Errorf("found %s before its forward", a)
	}
	return nil
}
