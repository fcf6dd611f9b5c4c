package pipeline

import "gputrain/buffers"

// Trees are the parameters and the gradients of the last step where they lie on devices, a tree of each for every stage; see
// state.TrainState. Copies of parameters that other stages own are not among them.
func (s *State) Trees() (params, grads []*buffers.Tree) {
	for _, st := range s.stages {
		params, grads = append(params, st.params), append(grads, st.grads)
	}
	return params, grads
}
