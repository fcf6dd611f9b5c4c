package optim

import (
	"fmt"

	"gputrain/buffers"
)

// Transform is a gradient transformation: it turns gradients, state and params into an update that is added to
// the params. It is a plain value, made by the constructors of this package and composed by Chain; it holds no
// buffers. Errors of construction are kept and come out of Check, Init and NewTwin.
type Transform struct {
	name       string
	elements   []Element
	accumulate int  // calls an update; 0 and 1 are the same
	skip       bool // nothing changes where a gradient is not finite
	scaled     bool // gradients come scaled
	guard      Guard
	frozen     []buffers.Spec  // leaves of the model that are not updated
	isFrozen   map[string]bool // by path
	err        error
}

// Name lists the parts of the transformation: "chain(clip_by_global_norm, scale_by_adam)".
func (t Transform) Name() string { return t.name }

// Is tells whether both are one transformation, made by one call: two that were made alike are not.
func (t Transform) Is(other Transform) bool {
	return t.name == other.name && t.accumulate == other.accumulate && t.skip == other.skip && t.scaled == other.scaled && t.guard == other.guard &&
		len(t.frozen) == len(other.frozen) && (len(t.frozen) == 0 || &t.frozen[0] == &other.frozen[0]) && len(t.elements) == len(other.elements) && (len(t.elements) == 0 || &t.elements[0] == &other.elements[0])
}

func failed(name string, format string, args ...any) Transform {
	return Transform{name: name, err: fmt.Errorf(name+": "+format, args...)}
}

// Chain applies transformations from left to right. Accumulate and SkipNonFinite go around a chain, not into it.
func Chain(parts ...Transform) Transform {
	t := Transform{name: "chain("}
	for i, p := range parts {
		if p.err != nil {
			return Transform{name: "chain", err: p.err}
		}
		if p.accumulate > 1 || p.skip || len(p.frozen) > 0 {
			return failed("chain", "part %d: found %s inside a chain, wanted it around the chain", i, p.name)
		}
		if i > 0 {
			t.name += ", "
		}
		t.name += p.name
		t.elements = append(t.elements, p.elements...)
	}
	t.name += ")"
	return t
}

// Scale multiplies updates by a factor.
func Scale(factor float64) Transform {
	return Elementwise(Element{
		Name: "scale", Scalars: []Scalar{Fixed("factor", factor)}, FLOPs: 1,
		WGSL: "u = u * $factor;",
		Twin: func(c *Cell) { c.U *= c.Scalars[0] },
	})
}
