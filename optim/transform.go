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
	elements   []element
	accumulate int  // calls an update; 0 and 1 are the same
	skip       bool // nothing changes where a gradient is not finite
	guard      Guard
	err        error
}

// Name tells what the transformation is made of: "chain(clip_by_global_norm, scale_by_adam)".
func (t Transform) Name() string { return t.name }

// Is tells whether both are one transformation, made by one call: two that were made alike are not.
func (t Transform) Is(other Transform) bool {
	return t.name == other.name && t.accumulate == other.accumulate && t.skip == other.skip && t.guard == other.guard &&
		len(t.elements) == len(other.elements) && (len(t.elements) == 0 || &t.elements[0] == &other.elements[0])
}

// An element is one step of a chain. If it is elementwise, it maps the running update u, given the parameter p from
// before the update, its state, the scalars of this update and its values of the leaf at hand. wgsl and twin are
// the same equation: in wgsl u and every slot are vec4<f32> variables, $name is a slot, a scalar or a column of
// this element, $p the parameter, $norm and $bad the statistics of u before this element over all leaves, $leaf_squares
// the sum of squares of u before this element over the leaf at hand, $param_squares that of the leaf's parameter, $leaf_elements
// the size of the leaf. With an operator, the element is that, and has neither slots nor equations.
type element struct {
	name     string
	slots    []slot
	scalars  []scalar
	columns  []column
	keeps    bool // u is left as it is
	wgsl     string
	twin     func(c *cell)
	flops    int // a parameter
	operator operator
	routes   []membership // all of which a leaf must meet for the element to act on it
}

// A slot is a tree of state, shaped like the params that the element acts on, and initial everywhere at first.
type slot struct {
	name  string
	dtype buffers.DType
	// dither rounds stochastically when storing bf16; the random bits depend on path, element and count alone.
	dither  bool
	initial float64
}

// A scalar is the same for all leaves and may change by the update: at in float64, rounded to f32 on the way to
// the device.
type scalar struct {
	name string
	at   func(count int64) float64
	of   func(rate float64) float64 // what it is of the learning rate; nil where it is nothing of it
}

// fixed is a scalar that does not change.
func fixed(name string, value float64) scalar {
	return scalar{name: name, at: func(int64) float64 { return value }}
}

// rated is a multiple of the learning rate.
func rated(name string, lr Schedule, factor float64) scalar {
	of := func(rate float64) float64 { return rate * factor }
	return scalar{name: name, at: func(t int64) float64 { return of(lr(t)) }, of: of}
}

// A column is a value of each leaf.
type column struct {
	name   string
	values func(leaves []buffers.Leaf, whole []string) ([]float32, error)
}

// cell is what the twin of an element sees of one number: u, p and the slots are read, u and the slots written.
type cell struct {
	u, p    float64
	slots   []float64
	scalars []float64 // of this element, in its order
	columns []float64 // of this element and leaf
	norm    float64
	bad     bool

	leafSquares, paramSquares, leafElements float64
}

func single(e element) Transform { return Transform{name: e.name, elements: []element{e}} }

func failed(name string, format string, args ...any) Transform {
	return Transform{name: name, err: fmt.Errorf(name+": "+format, args...)}
}

// Identity passes updates on unchanged.
func Identity() Transform { return Transform{name: "identity"} }

// Chain applies transformations from left to right. Accumulate and SkipNonFinite go around a chain, not into it.
func Chain(parts ...Transform) Transform {
	t := Transform{name: "chain("}
	for i, p := range parts {
		if p.err != nil {
			return Transform{name: "chain", err: p.err}
		}
		if p.accumulate > 1 || p.skip {
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
	return single(element{
		name: "scale", scalars: []scalar{fixed("factor", factor)}, flops: 1,
		wgsl: "u = u * $factor;",
		twin: func(c *cell) { c.u *= c.scalars[0] },
	})
}
