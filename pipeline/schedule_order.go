package pipeline

// passes lists all actions of a kind of one stage. Microbatches go in groups: a group passes through the stage's first part, then through its second, and so
// on (through the last first, backward), before the next group begins. A group of at least as many microbatches as there are stages comes back from the
// other stages before the stage has done with it.
func (s *Schedule) passes(stage int, kind Kind) []Action {
	var parts []int
	for p := stage; p < s.Parts; p += s.Stages {
		parts = append(parts, p)
	}
	var actions []Action
	first := 0
	for _, size := range groups(s.Microbatches, s.Stages) {
		for i := range parts {
			part := parts[i]
			if kind == Backward {
				part = parts[len(parts)-1-i]
			}
			for m := first; m < first+size; m++ {
				actions = append(actions, Action{kind, part, m})
			}
		}
		first += size
	}
	return actions
}

// groups divides microbatches into as many groups of at least stages as there can be, sizes differing by one at most and the larger first; fewer
// microbatches than stages are one group.
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

// warmup is the number of forwards that a stage runs before it alternates. In 1F1B a stage keeps as many microbatches in flight as it takes to reach the last
// stage. With chunks its first group first has to pass through all parts but the last, and while the first gradient is on its way the stage
// runs two forwards for each stage that it passes, where 1F1B would wait (Narayanan et al., Efficient Large-Scale Language Model Training, 2021).
func (c ScheduleConfig) warmup(stage int) int {
	below := c.Stages - 1 - stage
	ahead := min(c.Ahead, 2*below)
	switch {
	case c.Name == GPipe:
		return c.Microbatches
	case c.Chunks > 1:
		return (c.Chunks-1)*groups(c.Microbatches, c.Stages)[0] + 2*below + ahead
	}
	return below + ahead
}

// alternate runs the first warmup forwards, then a forward and a backward in turn, then the backwards that are left.
func alternate(forward, backward []Action, warmup int) []Action {
	warmup = min(warmup, len(forward))
	actions := make([]Action, 0, len(forward)+len(backward))
	actions = append(actions, forward[:warmup]...)
	for i, f := range forward[warmup:] {
		actions = append(actions, f, backward[i])
	}
	return append(actions, backward[len(forward)-warmup:]...)
}
