package pipeline

import (
	"time"

	"gputrain/state"
)

// notes is what is remembered of one step.
type notes struct{}

func (s *State) newNotes() *notes { return nil }

func (n *notes) computed(s *stage, a Action, begin, end time.Time)        {}
func (n *notes) waited(s *stage, on *way, a Action, begin, end time.Time) {}
func (n *notes) moved(on *way, microbatch int, begin, end time.Time)      {}
func (n *notes) use() *state.StageUse                                     { return nil }
