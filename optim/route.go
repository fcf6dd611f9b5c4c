package optim

import (
	"slices"

	"gputrain/buffers"
)

// A membership says on which side of a mask the leaves of an element are.
type membership struct {
	mask   *Mask
	inside bool
}

// Route applies yes to the leaves of the mask and no to the others (optax.multi_transform with two labels). State of
// the one is kept for its leaves only. A step that takes a norm of all leaves stands before or after a route, not in
// it.
func Route(mask *Mask, yes, no Transform) Transform {
	t := Transform{name: "route(" + yes.name + ", " + no.name + ")"}
	for i, branch := range []Transform{yes, no} {
		switch {
		case branch.err != nil:
			return Transform{name: "route", err: branch.err}
		case mask == nil:
			return failed("route", "mask: found none, wanted one")
		case branch.accumulate > 1 || branch.skip || len(branch.frozen) > 0:
			return failed("route", "found %s inside a route, wanted it around the route", branch.name)
		}
		for _, e := range branch.elements {
			if e.measures() {
				return failed("route", "found %s, which takes a norm of all leaves, wanted it before or behind the route", e.Name)
			}
			for _, s := range e.Slots {
				if s.DType == buffers.U8 {
					return failed("route", "%s: found %s in eight bits on a route, wanted f32 or bf16", e.Name, s.Name)
				}
			}
			e.routes = append(slices.Clone(e.routes), membership{mask, i == 0})
			t.elements = append(t.elements, e)
		}
	}
	return t
}

// chosen tells which leaves meet all memberships.
func chosen(routes []membership, leaves []buffers.Leaf, whole []string) ([]bool, error) {
	out := make([]bool, len(leaves))
	for i := range out {
		out[i] = true
	}
	for _, r := range routes {
		in, err := r.mask.resolve(leaves, whole)
		if err != nil {
			return nil, err
		}
		for i := range out {
			out[i] = out[i] && in[i] == r.inside
		}
	}
	return out, nil
}
