package state

import "gputrain/buffers"

// Trees are the parameters and the gradients of the last step where they lie on devices, each leaf of the model in one tree of both: here
// one of each. They are valid as long as the state is; what has been submitted is ordered before what reads them.
func (s *TrainState) Trees() (params, grads []*buffers.Tree) {
	return []*buffers.Tree{s.params}, []*buffers.Tree{s.grads}
}
