package schedule

import "slices"

// arrange makes the schedule whose microbatches go through the stages' parts in groups of the given sizes. The groups may hold more
// microbatches than there are: those are left out of a schedule that has them.
func (c Config) arrange(sizes []int) *Schedule {
	s := &Schedule{Name: c.Name, Stages: c.Stages, Parts: c.Stages * max(c.Chunks, 1), Microbatches: c.Microbatches}
	for stage := range c.Stages {
		forward, backward := s.passes(stage, Forward, sizes), s.passes(stage, Backward, sizes)
		actions := alternate(forward, backward, c.warmup(stage, sizes[0]))
		s.Actions = append(s.Actions, slices.DeleteFunc(actions, func(a Action) bool { return a.Microbatch >= c.Microbatches }))
	}
	return s
}

// passes lists all actions of a kind of one stage. A group of microbatches passes through the stage's first part, then through its
// second, and so on (through the last first, backward), before the next group begins. A group of at least as many microbatches as there
// are stages comes back from the other stages before the stage has done with it.
func (s *Schedule) passes(stage int, kind Kind, sizes []int) []Action {
	var parts []int
	for p := stage; p < s.Parts; p += s.Stages {
		parts = append(parts, p)
	}
	if kind == Backward {
		slices.Reverse(parts)
	}
	var actions []Action
	first := 0
	for _, size := range sizes {
		for _, part := range parts {
			for m := first; m < first+size; m++ {
				actions = append(actions, Action{kind, part, m})
			}
		}
		first += size
	}
	return actions
}

// groups divides microbatches into as many groups of at least stages as there can be, sizes differing by one at most and the larger
// first; fewer microbatches than stages are one group. No stage waits for a group, but one much larger than there are stages
// comes back early, and more of it than a link may hold.
func groups(microbatches, stages int) []int {
	n := max(microbatches/stages, 1)
	sizes := make([]int, n)
	for i := range sizes {
		sizes[i] = microbatches / n
		if i < microbatches%n {
			sizes[i]++
		}
	}
	return sizes
}

// fullGroups are groups of as many microbatches as there are stages, the last one filled up with some that there are not. They
// ask for no more of a link than a multiple of stages does, of which they are the beginning, and stages wait for what is not there.
func fullGroups(microbatches, stages int) []int {
	return slices.Repeat([]int{stages}, (microbatches+stages-1)/stages)
}

// warmup is the number of forwards that a stage runs before it alternates. In 1F1B a stage keeps as many microbatches in flight as
// it takes to reach the last stage. With chunks its first group first has to pass through all parts but the last, and while the first
// gradient is on its way the stage runs two forwards for each stage that it passes, where 1F1B would wait (Narayanan et al., Efficient
// Large-Scale Language Model Training on GPU Clusters Using Megatron-LM, 2021).
func (c Config) warmup(stage, group int) int {
	below := c.Stages - 1 - stage
	switch {
	case c.Name == GPipe:
		return c.Microbatches
	case c.Chunks > 1:
		return (c.Chunks-1)*group + 2*below
	}
	return below + min(c.Ahead, 2*below)
}

// alternate runs the first warmup forwards, then a forward and a backward in turn, then the backwards that are left.
func alternate(forward, backward []Action, warmup int) []Action {
	warmup = min(warmup, len(forward))
	actions := slices.Clone(forward[:warmup])
	for i, f := range forward[warmup:] {
		actions = append(actions, f, backward[i])
	}
	return append(actions, backward[len(forward)-warmup:]...)
}
