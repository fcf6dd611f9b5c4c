package optim

import (
	"slices"

	"gputrain/buffers"
)

// Freeze leaves leaves of a model out of a transformation: they have no gradient, no state and no share in norms, and
// no tree that is updated has them. Their places in the model still count: masks and rates may name them, and random
// numbers are drawn as with them. So without a norm between leaves the others have the bits that they have where the
// frozen ones are trained too. It goes around everything else.
func Freeze(leaves []buffers.Spec, inner Transform) Transform {
	if inner.err != nil || len(leaves) == 0 {
		return inner
	}
	inner.name = "freeze(" + inner.name + ")"
	inner.frozen = slices.Concat(inner.frozen, leaves)
	inner.isFrozen = map[string]bool{}
	for _, f := range inner.frozen {
		inner.isFrozen[f.Path] = true
	}
	return inner
}

// model are the leaves of a model in their order, of which trained may be given without the frozen ones: these come last.
func (t Transform) model(trained []buffers.Spec) []buffers.Spec {
	given := make(map[string]bool, len(trained))
	for _, s := range trained {
		given[s.Path] = true
	}
	all := slices.Clone(trained)
	for _, f := range t.frozen {
		if !given[f.Path] {
			all = append(all, f)
		}
	}
	return all
}

// Trained are those leaves of a model that are not frozen.
func (t Transform) Trained(model []buffers.Spec) []buffers.Spec {
	return slices.DeleteFunc(slices.Clone(model), func(s buffers.Spec) bool { return t.isFrozen[s.Path] })
}

func (t Transform) freezes(path string) bool { return t.isFrozen[path] }
