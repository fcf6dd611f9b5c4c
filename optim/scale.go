package optim

import (
	"fmt"
	"math"
)

// Unscale takes gradients of a loss that was scaled by a power of two, and divides them by it before anything else sees them, norms and limits among it:
//
//	g <- g / scale
//
// That rounds nothing but what is below the least normal f32. State.SetScale says what the scale is. It goes around everything but Freeze, and not around
// Accumulate.
func Unscale(inner Transform) Transform {
	switch {
	case inner.err != nil:
		return inner
	case inner.accumulate > 1 || inner.scaled || len(inner.frozen) > 0:
		return failed("unscale", "inner: found %s, wanted none of accumulate, unscale and freeze", inner.name)
	}
	inner.name, inner.scaled = "unscale("+inner.name+")", true
	return inner
}

// unscale is the element in front of a chain whose gradients come scaled.
var unscale = Element{
	Name: "unscale", Scalars: []Scalar{{Name: "inverse", inverse: true}}, FLOPs: 1,
	WGSL: "u = u * $inverse;",
	Twin: func(c *Cell) { c.U *= c.Scalars[0] },
}

// SetScale sets the scale of the gradients of the updates that are prepared from now on, a power of two; 1 at first.
func (s *State) SetScale(scale float64) error {
	if !s.plan.transform.scaled {
		return fmt.Errorf("optim: %s: scale: found a transformation without unscale", s.plan.transform.name)
	}
	if fraction, _ := math.Frexp(scale); fraction != 0.5 || math.Abs(math.Log2(scale)) > 100 {
		return fmt.Errorf("optim: %s: scale: found %g, wanted a power of two from 2^-100 to 2^100", s.plan.transform.name, scale)
	}
	s.scale = scale
	return nil
}

// Scale sets the scale of the gradients of the next updates, as State.SetScale does.
func (w *Twin) Scale(scale float64) { w.scale = scale }
