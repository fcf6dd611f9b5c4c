package pipeline

import "gputrain/buffers"

// Params are the device-resident trees of parameters, f32, stage by stage: each leaf of the model in one of them. Writing to them changes the
// model.
func (s *State) Params() []*buffers.Tree {
	var out []*buffers.Tree
	for _, st := range s.stages {
		out = append(out, st.params)
	}
	return out
}
