package schedule

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// wellFormed is what Check says of the actions, in another way: of each part and kind a stage has exactly 0, 1, 2, ... and each backward
// stands behind its forward.
func wellFormed(s *Schedule) bool {
	for stage, actions := range s.Actions {
		found := 0
		for p := stage; p < s.Parts; p += s.Stages {
			for m := range s.Microbatches {
				f, b := slices.Index(actions, Action{Forward, p, m}), slices.Index(actions, Action{Backward, p, m})
				later := m == 0 || slices.Index(actions, Action{Forward, p, m - 1}) < f && slices.Index(actions, Action{Backward, p, m - 1}) < b
				if f < 0 || b < f || !later {
					return false
				}
				found += 2
			}
		}
		if found != len(actions) {
			return false
		}
	}
	return true
}

func small(t *testing.T) *Schedule {
	t.Helper()
	s, err := New(Config{OneForwardOneBackward, 2, 1, 3, 0})
	require.NoError(t, err)
	return s // stage 0: F0 F1 B0 F2 B1 B2; stage 1: F0 B0 F1 B1 F2 B2
}

func TestCheckFindsBrokenActions(t *testing.T) {
	require.NoError(t, small(t).Check(1))
	for want, change := range map[string]func(s *Schedule){
		"stage 0: action 4: found backward of part 0, microbatch 2 before its forward":   func(s *Schedule) { s.Actions[0] = slices.Delete(s.Actions[0], 3, 4) },
		"stage 0: forward of part 0, microbatch 2 not found":                             func(s *Schedule) { s.Actions[0] = slices.Delete(s.Actions[0][:5], 3, 4) },
		"stage 0: backward of part 0, microbatch 2 not found":                            func(s *Schedule) { s.Actions[0] = s.Actions[0][:5] },
		"stage 0: action 6: found backward of part 0, microbatch 2 after all 3":          func(s *Schedule) { s.Actions[0] = append(s.Actions[0], s.Actions[0][5]) },
		"stage 0: action 0: found forward of part 0, microbatch 1, wanted microbatch 0":  func(s *Schedule) { swap(s, 0, 0, 1) },
		"stage 0: action 4: found backward of part 0, microbatch 2, wanted microbatch 1": func(s *Schedule) { swap(s, 0, 4, 5) },
		"stage 1: action 0: found backward of part 1, microbatch 0 before its forward":   func(s *Schedule) { swap(s, 1, 0, 1) },
		"stage 0: action 0: found forward of part 1, microbatch 0, wanted it on stage 1": func(s *Schedule) { s.Actions[0][0].Part = 1 },
		"stage 1: action 0: found forward of part 0, microbatch 0, wanted it on stage 0": func(s *Schedule) { s.Actions[1][0].Part = 0 },
		"stage 0: action 0: found forward of part 2, microbatch 0, wanted a part of 2":   func(s *Schedule) { s.Actions[0][0].Part = 2 },
		"stage 0: action 0: found forward of part -1, microbatch 0, wanted a part of 2":  func(s *Schedule) { s.Actions[0][0].Part = -1 },
		"stage 0: action 0: found an action of kind 2, wanted one of this schedule":      func(s *Schedule) { s.Actions[0][0].Kind = 2 },
		"found actions of 1 stages, wanted 2":                                            func(s *Schedule) { s.Actions = s.Actions[:1] },
		"found 0 stages, 2 parts, 3 microbatches, wanted 1 or more of each":              func(s *Schedule) { s.Stages = 0 },
	} {
		s := small(t)
		change(s)
		require.EqualError(t, s.Check(2), "pipeline: schedule 1f1b: "+want)
	}
	assert.EqualError(t, small(t).Check(0), "pipeline: schedule 1f1b: capacity of links: found 0, wanted 1 or more")
	assert.EqualError(t, small(t).Check(1, Edge{1, 1, Forward}), "pipeline: schedule 1f1b: edge: found forward from part 1 to part 1, wanted a later one forward, an earlier one backward, of 2")
	assert.ErrorContains(t, small(t).Check(1, Edge{0, 1, Backward}), "edge: found backward from part 0 to part 1")

	s := ForwardOnly(2, 2, 2)
	s.Actions[1] = append(s.Actions[1], Action{Backward, 1, 0})
	assert.EqualError(t, s.Check(1), "pipeline: schedule forward: stage 1: action 2: found an action of kind 1, wanted one of this schedule")
}

func swap(s *Schedule, stage, i, j int) {
	actions := s.Actions[stage]
	actions[i], actions[j] = actions[j], actions[i]
}

func TestCheckFindsDeadlocks(t *testing.T) {
	f, b := func(p, m int) Action { return Action{Forward, p, m} }, func(p, m int) Action { return Action{Backward, p, m} }
	crossed := &Schedule{OneForwardOneBackward, 2, 2, 2, [][]Action{{f(0, 0), b(0, 0), f(0, 1), b(0, 1)}, {f(1, 0), f(1, 1), b(1, 0), b(1, 1)}}}
	assert.EqualError(t, crossed.Check(100), "pipeline: schedule 1f1b: deadlock with links of 100: "+
		"stage 0 waits in backward of part 0, microbatch 0, for part 1; stage 1 waits in forward of part 1, microbatch 1, for part 0")

	// The first stage sends 7 before it takes; the second sends a gradient for each that it takes. With links of 2 the second
	// takes 3, its third gradient has no room, and 2 more lie in the link: the sixth has none.
	eager := &Schedule{OneForwardOneBackward, 2, 2, 7, make([][]Action, 2)}
	for m := range 7 {
		eager.Actions[0] = append(eager.Actions[0], f(0, m))
		eager.Actions[1] = append(eager.Actions[1], f(1, m), b(1, m))
	}
	for m := range 7 {
		eager.Actions[0] = append(eager.Actions[0], b(0, m))
	}
	assert.EqualError(t, eager.Check(2), "pipeline: schedule 1f1b: deadlock with links of 2: "+
		"stage 0 waits to send forward of part 0, microbatch 5, to part 1; stage 1 waits to send backward of part 1, microbatch 2, to part 0")
	assert.NoError(t, eager.Check(3))

	// The first stage runs all its forwards; the second takes four of six, when the link for its gradients is full, and leaves two in a
	// link of two. With links between the first and the last as well the last takes three, and no more than two are under way to it.
	long := &Schedule{OneForwardOneBackward, 3, 3, 6, [][]Action{
		{f(0, 0), f(0, 1), f(0, 2), f(0, 3), f(0, 4), f(0, 5), b(0, 0), b(0, 1), b(0, 2), b(0, 3), b(0, 4), b(0, 5)},
		{f(1, 0), f(1, 1), b(1, 0), f(1, 2), b(1, 1), f(1, 3), b(1, 2), f(1, 4), b(1, 3), f(1, 5), b(1, 4), b(1, 5)},
		{f(2, 0), b(2, 0), f(2, 1), b(2, 1), f(2, 2), b(2, 2), f(2, 3), b(2, 3), f(2, 4), b(2, 4), f(2, 5), b(2, 5)},
	}}
	detours := []Edge{{0, 2, Forward}, {2, 0, Backward}}
	assert.NoError(t, long.Check(2))
	assert.ErrorContains(t, long.Check(2, detours...), "deadlock with links of 2: stage 0 waits to send forward of part 0, microbatch 5, to part 2;")
	assert.NoError(t, long.Check(3, detours...))

	// A stage that hands to itself waits for itself where its link is full.
	alone := &Schedule{Interleaved, 1, 2, 3, [][]Action{{
		f(0, 0), f(0, 1), f(0, 2), f(1, 0), f(1, 1), f(1, 2), b(1, 0), b(1, 1), b(1, 2), b(0, 0), b(0, 1), b(0, 2),
	}}}
	assert.EqualError(t, alone.Check(2), "pipeline: schedule interleaved: deadlock with links of 2: stage 0 waits to send forward of part 0, microbatch 2, to part 1")
	assert.NoError(t, alone.Check(3))
}

// The gradient of a tied head goes from the last part to the first, over a link of the room that Check gives it.
func TestTiedHeadsKeepSchedulesRunning(t *testing.T) {
	shapes(t, func(c Config, s *Schedule) {
		if s.Parts > 2 {
			require.NoError(t, s.Check(LinkMessages, Edge{s.Parts - 1, 0, Backward}), "%+v", c)
		}
	})
}
