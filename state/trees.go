package state

import "gputrain/buffers"

// Trees are the parameters and the gradients of the last step where they lie on devices, each leaf of the model in one tree of both: one of
// each a stage. They are valid as long as the state is; what has been submitted is ordered before what reads them. Copies of parameters that
// other stages own are not among them.
func (s *TrainState) Trees() (params, grads []*buffers.Tree) {
	for _, r := range s.stages {
		params, grads = append(params, r.Params), append(grads, r.Grads)
	}
	return params, grads
}
