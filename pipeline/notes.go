package pipeline

import (
	"slices"
	"time"

	"gputrain/internal/schedule"
	"gputrain/internal/timeline"
	"gputrain/state"
)

// notes puts what stages and links do in a step on the recorder's timeline. A nil one takes none: evaluation and sampling are not timed.
type notes struct {
	recorder *timeline.Recorder
	wires    []*wire // those with a link, in the order of their lanes
}

// newNotes makes the timeline of a training line. With all it keeps every step, else the last one.
func newNotes(l *line, all bool) *notes {
	n := &notes{}
	lanes := timeline.Lanes{}
	for _, s := range l.stages {
		lanes.Stages = append(lanes.Stages, s.name())
	}
	for _, w := range l.wires {
		if !w.local() {
			n.wires = append(n.wires, w)
			lanes.Links = append(lanes.Links, timeline.LinkLane{Name: w.name(), From: w.source.index, To: w.sink.index})
		}
	}
	keep := 1
	if all {
		keep = 0
	}
	n.recorder = timeline.NewRecorder(lanes, keep)
	return n
}

func (n *notes) computed(s *stage, a schedule.Action, begin, end time.Time) {
	if n != nil {
		n.recorder.Add(timeline.Span{Kind: timeline.Compute, Stage: s.index, Link: -1, Name: a.Kind.String(), Part: a.Part, Microbatch: a.Microbatch}, begin, end)
	}
}

func (n *notes) waited(s *stage, on *wire, a schedule.Action, begin, end time.Time) {
	if n != nil {
		n.recorder.Add(timeline.Span{Kind: timeline.Wait, Stage: s.index, Link: slices.Index(n.wires, on), Name: a.Kind.String(), Part: a.Part, Microbatch: a.Microbatch}, begin, end)
	}
}

func (n *notes) moved(on *wire, microbatch int, begin, end time.Time) {
	if n != nil {
		n.recorder.Add(timeline.Span{
			Kind: timeline.Transfer, Stage: on.source.index, Link: slices.Index(n.wires, on), Name: on.Kind.String(), Part: on.Edge.From, Microbatch: microbatch,
		}, begin, end)
	}
}

// Use is how the stages and links of this rank spent the time of the newest step.
func (s *State) Use() timeline.Use { return s.use }

// StageUse is the part of Use that every step's metrics have, of the stages of all ranks; false before the first step.
func (s *State) StageUse() (state.StageUse, bool) { return s.shares, s.shares.Busy != nil }

// DeviceTime is how long the busiest stage computed in the newest step, and when that was done; nothing is known of other steps.
func (s *State) DeviceTime(step int64) (worked time.Duration, done time.Time) {
	if step != s.Step() || s.shares.Busy == nil {
		return 0, time.Time{}
	}
	return time.Duration(slices.Max(s.shares.Busy) * float64(s.ended.Sub(s.begun))), s.ended
}

// Recorder has the timeline of the newest step, or of all where Config.Profile says so.
func (s *State) Recorder() *timeline.Recorder { return s.passes.notes.recorder }
