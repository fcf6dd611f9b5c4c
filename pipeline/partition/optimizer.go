package partition

import (
	"fmt"
	"slices"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/optim"
)

// AddOptimizer adds to the memory of each unit what an optimizer's state for its parameters takes on a device with these limits, and so many partial
// sums of their gradients; what the optimizer leaves frozen has none, and no gradient either. whole is the leaves of the model.
func AddOptimizer(units []Unit, tx optim.Transform, sums int, whole []buffers.Spec, lim gpu.Limits) error {
	shapes := map[string][]int{}
	for _, s := range whole {
		shapes[s.Path] = s.Shape
	}
	for i, u := range units {
		var own []buffers.Spec
		for _, path := range u.Params {
			shape, ok := shapes[path]
			if !ok {
				return fmt.Errorf("pipeline: units: parameter %q of %q is not one of the model's %d", path, u.Name, len(shapes))
			}
			own = append(own, buffers.Spec{Path: path, Shape: shape})
		}
		trained := tx.Trained(own)
		for _, s := range own {
			if !slices.ContainsFunc(trained, func(t buffers.Spec) bool { return t.Path == s.Path }) {
				units[i].Memory -= 4 * uint64(graph.Elements(s.Shape))
			}
		}
		for _, s := range trained {
			units[i].Memory += 4 * uint64(sums*graph.Elements(s.Shape))
		}
		bytes, err := stateBytes(tx, trained, whole, lim)
		if err != nil {
			return fmt.Errorf("pipeline: units: %q: %w", u.Name, err)
		}
		units[i].Memory += bytes
	}
	return nil
}

// stateBytes plans the state of some of a model's leaves on no device.
func stateBytes(tx optim.Transform, own, whole []buffers.Spec, lim gpu.Limits) (uint64, error) {
	layout, err := buffers.NewLayout(own, lim)
	if err != nil {
		return 0, err
	}
	params, err := buffers.NewTree(gpu.Dry(lim), "params", layout, buffers.F32)
	if err != nil {
		return 0, err
	}
	defer params.Release()
	s, err := tx.InitStage(params, whole)
	if err != nil {
		return 0, err
	}
	defer s.Release()
	return s.Bytes(), nil
}
