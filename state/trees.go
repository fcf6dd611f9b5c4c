package state

import "gputrain/buffers"

// Trees are the parameters that are trained and the gradients of the last step where they lie on devices, each leaf in one tree of both: one of
// each a stage. They are valid as long as the state is; what has been submitted is ordered before what reads them. Copies of parameters that
// other stages own are not among them.
func (s *TrainState) Trees() (params, grads []*buffers.Tree) {
	for _, r := range s.stages {
		params, grads = append(params, r.Params), append(grads, r.Grads)
	}
	return params, grads
}

// frozenTrees are the parameters that are not trained: a tree for each stage that has some.
func (s *TrainState) frozenTrees() (all []*buffers.Tree) {
	for _, r := range s.stages {
		all = append(all, buffers.Given(r.Frozen)...)
	}
	return all
}
