package graph

import "slices"

// What follows builds gradients of smaller shape (see Gradients), and computes at once what is constant: most of a backward
// pass begins with the constant 1.

// number is the value of a constant.
func number(v *Value) (float64, bool) {
	c, ok := v.node.Op.(Constant)
	return c.Value, ok
}

func (g *Graph) scaled(v *Value, by float64) *Value {
	if v.node == nil || by == 1 {
		return v
	}
	if c, ok := number(v); ok {
		return g.Constant(c * by)
	}
	return g.Scale(v, by)
}

// times is dy x, where dy may stand for a larger shape.
func (g *Graph) times(dy, x *Value) *Value {
	if dy.node == nil || x.node == nil {
		return dy
	}
	if c, ok := number(dy); ok {
		return g.scaled(x, c)
	}
	if c, ok := number(x); ok {
		return g.scaled(dy, c)
	}
	return g.Mul(dy, x)
}

func (g *Graph) sumOf(a, b *Value) *Value {
	if a.node == nil || b.node == nil {
		return a
	}
	ca, okA := number(a)
	if cb, okB := number(b); okA && okB {
		return g.Constant(ca + cb)
	}
	return g.Add(a, b)
}

// unbroadcast sums the gradient v, which stands for shape from, over the axes along which to was broadcast to it. An axis of
// from along which v is 1 counts as often as it is long.
func (g *Graph) unbroadcast(v *Value, from, to []int) *Value {
	if v.node == nil {
		return v
	}
	var axes, kept []int // axes of v to sum over; the shape that is left, with the axes that to has
	factor := 1.0
	for i := len(from) - 1; i >= 0; i-- { // i-th from the end
		found, whole, want := dimFromEnd(v.Shape(), i), dimFromEnd(from, i), dimFromEnd(to, i)
		summed := want == 1 && whole != 1
		switch {
		case summed && found == whole:
			axes = append(axes, len(v.Shape())-1-i)
			found = 1
		case summed:
			factor *= float64(whole)
		}
		if i < len(to) {
			kept = append(kept, found)
		}
	}
	if len(axes) > 0 {
		v = g.one(Reduce{Fn: "sum", Axes: axes}, v)
	}
	return g.scaled(g.aligned(v, kept), factor)
}

// aligned gives v a shape that differs by ones only, unless broadcasting overlooks the difference.
func (g *Graph) aligned(v *Value, shape []int) *Value {
	if v.node == nil || len(v.Shape()) <= len(shape) && slices.Equal(trimmed(v.Shape()), trimmed(shape)) {
		return v
	}
	return g.Reshape(v, shape...)
}

// trimmed is a shape without leading ones, which mean nothing to broadcasting.
func trimmed(shape []int) []int {
	for len(shape) > 0 && shape[0] == 1 {
		shape = shape[1:]
	}
	return shape
}
