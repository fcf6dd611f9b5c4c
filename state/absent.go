package state

import (
	"fmt"
	"slices"

	"gputrain/buffers"
	"gputrain/gpu"
)

// complete gives a stage whose gradients lack leaves a tree of all: those that are given, which each update copies first, and zeros.
func (s *updating) complete() (err error) {
	if s.Params == nil || s.Grads != nil && len(s.Grads.Layout().Leaves()) >= len(s.Params.Layout().Leaves()) {
		return nil
	}
	dtype, all := buffers.F32, s.Params.Layout()
	if s.Grads != nil {
		dtype = s.Grads.DType()
		for _, leaf := range s.Grads.Layout().Leaves() {
			to, found := all.Leaf(leaf.Path)
			if !found || !slices.Equal(to.Shape, leaf.Shape) {
				return fmt.Errorf("grads: leaf %q of shape %v: found no such param", leaf.Path, leaf.Shape)
			}
			if !slices.EqualFunc(to.Parts, leaf.Parts, func(a, b buffers.Part) bool { return a.Count == b.Count }) {
				return fmt.Errorf("grads: leaf %q: found it in %d parts, wanted those of the params, %d", leaf.Path, len(leaf.Parts), len(to.Parts))
			}
		}
	}
	completed, err := buffers.NewTree(s.Params.Device(), "state.grads", all, dtype)
	if err == nil {
		s.given, s.Grads, s.completed = s.Grads, completed, true
	}
	return err
}

// copyGiven records the copies of the gradients that are given.
func (s *updating) copyGiven(rec *gpu.Recording) {
	if s.given == nil {
		return
	}
	for _, leaf := range s.given.Layout().Leaves() {
		to, _ := s.Grads.Layout().Leaf(leaf.Path)
		for i, part := range leaf.Parts {
			rec.Copy(s.Grads.Part(to.Parts[i]), s.given.Part(part))
		}
	}
}
