package state

import (
	"gputrain/buffers"
	"gputrain/optim"
)

// Trees are the parameters that are trained and the gradients of the last step where they lie on devices, each leaf in one tree of both: one of
// each a stage. They are valid as long as the state is; what has been submitted is ordered before what reads them. Copies of parameters that
// other stages own are not among them.
func (s *TrainState) Trees() (params, grads []*buffers.Tree) {
	for _, r := range s.stages {
		params, grads = append(params, r.Params), append(grads, r.Grads)
	}
	return params, grads
}

// trees are those of stages.
func trees(stages []Resident) (params, frozen, other []*buffers.Tree) {
	for _, r := range stages {
		params, frozen, other = append(params, r.Params), append(frozen, r.Frozen), append(other, r.Other)
	}
	return buffers.Given(params...), buffers.Given(frozen...), buffers.Given(other...)
}

// states are those of the optimizer on stages.
func states(stages []Resident) (all []*optim.State) {
	for _, r := range stages {
		if r.State != nil {
			all = append(all, r.State)
		}
	}
	return all
}
