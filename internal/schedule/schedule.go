package schedule

import (
	"fmt"
	"slices"
	"strings"

	"gputrain/internal/suggest"
)

// The names of the schedules.
const (
	// GPipe runs all forwards of an update, then all backwards: every part keeps all microbatches in flight.
	GPipe = "gpipe"
	// OneForwardOneBackward runs a backward as soon as there is one: as short as GPipe, with no more microbatches in flight than
	// there are parts from here to the last.
	OneForwardOneBackward = "1f1b"
	// Interleaved is 1F1B with several parts a stage, which divides the bubble by their number and multiplies what crosses links.
	Interleaved = "interleaved"
)

// forwardOnly names the schedules of ForwardOnly, which New does not make.
const forwardOnly = "forward"

// Names are the names that New knows.
func Names() []string { return []string{GPipe, OneForwardOneBackward, Interleaved} }

// Config says which schedule New makes.
type Config struct {
	// Name is one of Names.
	Name string
	// Stages is the number of stages, 1 or more.
	Stages int
	// Chunks is the number of parts a stage: 1 (0 means 1) but for Interleaved.
	Chunks int
	// Microbatches is the number of microbatches of an update, 1 or more.
	Microbatches int
	// Ahead is how many more forwards every stage but the last runs before its first backward, and so how many more microbatches
	// it keeps, to compute while links carry what it waits for. A stage runs at most 2 more ahead than the next, which is what
	// transfers as long as the passes themselves take, and what a link of two messages can hold. 1F1B alone has a use for it: stages of
	// the others are ahead already, and further ahead interleaved ones only come out of step.
	Ahead int
}

// Validate reports the first field that no schedule can be made from: what it holds and what was wanted.
func (c Config) Validate() error {
	if !slices.Contains(Names(), c.Name) {
		names := Names()
		return fmt.Errorf("pipeline: schedule: found %q, wanted one of %s%s", c.Name, strings.Join(names, ", "), suggest.DidYouMean(c.Name, names))
	}
	if c.Stages < 1 {
		return fmt.Errorf("pipeline: stages: found %d, wanted 1 or more", c.Stages)
	}
	if c.Chunks < 0 {
		return fmt.Errorf("pipeline: chunks: found %d, wanted 1 or more", c.Chunks)
	}
	if c.Chunks > 1 && c.Name != Interleaved {
		return fmt.Errorf("pipeline: chunks: found %d with schedule %s, wanted 1, or schedule %s", c.Chunks, c.Name, Interleaved)
	}
	if c.Microbatches < 1 {
		return fmt.Errorf("pipeline: microbatches: found %d, wanted 1 or more", c.Microbatches)
	}
	if c.Ahead < 0 {
		return fmt.Errorf("pipeline: ahead: found %d, wanted 0 or more", c.Ahead)
	}
	if c.Ahead > 0 && c.Name != OneForwardOneBackward {
		return fmt.Errorf("pipeline: ahead: found %d with schedule %s, whose stages run ahead already; wanted 0, or schedule %s",
			c.Ahead, c.Name, OneForwardOneBackward)
	}
	return nil
}

// Schedule is the order in which each stage runs its actions, laid down before anything runs. Part p lives on stage p mod Stages. Within a
// part and a kind microbatches ascend, so that gradients add up as they do without a pipeline.
type Schedule struct {
	Name                        string
	Stages, Parts, Microbatches int
	// Actions holds the actions of each stage, in order.
	Actions [][]Action
}

// LinkMessages is the number of messages that a link has to hold at least for every schedule made here.
const LinkMessages = 2

// New makes the schedule of one update. Let a stage's parts together take a time f forward and b backward of one microbatch, the same on
// each of S stages, with M microbatches, v chunks, and links that take no time. Then a stage stands idle for (S-1)(f+b) of an
// update with GPipe and 1F1B, a share of (S-1)/(M+S-1); interleaved for (S-1)(f+b)/v where the remainder of M by S is at most M/S (none at
// best), and otherwise for no longer than with 1F1B. Links that keep order and hold two messages carry all of them without a
// deadlock. The error is that of Config.Validate.
func New(c Config) (*Schedule, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	s := c.arrange(groups(c.Microbatches, c.Stages))
	if c.Chunks > 1 && s.Check(LinkMessages) != nil {
		s = c.arrange(fullGroups(c.Microbatches, c.Stages))
	}
	return s, nil
}

// ForwardOnly is the order of an evaluation: every microbatch forward through every part, without a backward. Stages, parts and
// microbatches are 1 or more; parts need not be a multiple of stages.
func ForwardOnly(stages, parts, microbatches int) *Schedule {
	s := &Schedule{Name: forwardOnly, Stages: stages, Parts: parts, Microbatches: microbatches}
	for stage := range stages {
		s.Actions = append(s.Actions, s.passes(stage, Forward, groups(microbatches, stages)))
	}
	return s
}

// Only is the schedule of some of its microbatches, which ascend and are numbered anew. Actions stay in their order: no more is in flight, or under way on
// links, than before.
func (s *Schedule) Only(microbatches []int) *Schedule {
	out := &Schedule{Name: s.Name, Stages: s.Stages, Parts: s.Parts, Microbatches: len(microbatches), Actions: make([][]Action, len(s.Actions))}
	for stage, actions := range s.Actions {
		for _, a := range actions {
			if i, found := slices.BinarySearch(microbatches, a.Microbatch); found {
				out.Actions[stage] = append(out.Actions[stage], Action{a.Kind, a.Part, i})
			}
		}
	}
	return out
}

// Slots is the number of microbatches that are in flight in a part at most, from a forward to its backward, both included. Without
// backwards it is 1.
func (s *Schedule) Slots(part int) int {
	if s.Name == forwardOnly {
		return 1
	}
	flying, most := 0, 0
	for _, a := range s.Actions[part%s.Stages] {
		switch {
		case a.Part != part:
		case a.Kind == Forward:
			flying++
			most = max(most, flying)
		default:
			flying--
		}
	}
	return most
}

// Merged reports whether a part's forward and backward can be one program: it is the last part, which waits for nobody's gradient,
// and each of its forwards is directly followed by its backward.
func (s *Schedule) Merged(part int) bool {
	if part != s.Parts-1 || s.Name == forwardOnly {
		return false
	}
	actions := s.Actions[part%s.Stages]
	for i, a := range actions {
		if a.Part == part && a.Kind == Forward && (i+1 == len(actions) || actions[i+1] != Action{Backward, part, a.Microbatch}) {
			return false
		}
	}
	return true
}
