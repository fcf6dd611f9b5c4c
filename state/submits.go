package state

import (
	"time"

	"gputrain/gpu"
)

// Submits are those of an update, by stage, as the devices cut them at present. Where updates differ they are those of the longest.
func (s *TrainState) Submits() [][]gpu.Planned {
	if s.updater.whole() && !s.config.joined() {
		return s.passes.Submits(s.updater.longest(0)[0])
	}
	out := s.passes.Submits(nil)
	for i, st := range s.stages {
		for _, piece := range s.updater.longest(i) {
			out[i] = append(out[i], st.Params.Device().Plan(piece)...)
		}
	}
	return out
}

// longest are the pieces of the update of a stage that takes longest.
func (u *Updater) longest(stage int) (longest []*gpu.Program) {
	s, most := u.stages[stage], time.Duration(-1)
	for _, phase := range s.State.Phases() {
		takes := time.Duration(0)
		for _, piece := range s.pieces[phase] {
			for _, p := range s.Params.Device().Plan(piece) {
				takes += p.Takes
			}
		}
		if takes > most {
			longest, most = s.pieces[phase], takes
		}
	}
	return longest
}
