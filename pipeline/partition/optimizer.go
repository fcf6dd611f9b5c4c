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
// sums of their gradients; what the optimizer leaves frozen has none, and no gradient either, and is kept in a type of its own. whole is the leaves of
// the model.
func AddOptimizer(units []Unit, tx optim.Transform, sums int, frozen buffers.DType, whole []buffers.Spec, lim gpu.Limits) error {
	specs := map[string]buffers.Spec{}
	for _, s := range whole {
		specs[s.Path] = s
	}
	bytesOf := tx.StagesBytes(whole, lim)
	for i, u := range units {
		var own []buffers.Spec
		for _, path := range u.Params {
			spec, ok := specs[path]
			if !ok {
				return fmt.Errorf("pipeline: units: parameter %q of %q is not one of the model's %d", path, u.Name, len(specs))
			}
			own = append(own, spec)
		}
		trained := tx.Trained(own)
		rest := slices.DeleteFunc(slices.Clone(own), func(s buffers.Spec) bool {
			return slices.ContainsFunc(trained, func(t buffers.Spec) bool { return t.Path == s.Path })
		})
		for _, s := range rest {
			units[i].Memory -= 2 * 4 * uint64(graph.Elements(s.Shape))
		}
		for _, s := range trained {
			units[i].Memory += 4 * uint64(sums*graph.Elements(s.Shape))
		}
		layout, err := buffers.NewLayout(trained, lim)
		kept, bytes := (*buffers.Layout)(nil), uint64(0)
		if err == nil {
			kept, err = buffers.NewLayoutFor(frozen, rest, lim)
		}
		if err == nil {
			bytes, err = bytesOf(layout)
		}
		if err != nil {
			return fmt.Errorf("pipeline: units: %q: %w", u.Name, err)
		}
		units[i].Memory += kept.Bytes(frozen) + bytes
	}
	return nil
}
