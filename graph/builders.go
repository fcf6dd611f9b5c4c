package graph

import (
	"fmt"
	"slices"
)

// Input is the value called name, of the given type; the same name again is the same value.
func (g *Graph) Input(name string, t Type) *Value {
	if v := g.inputs[name]; v != nil {
		if !v.typ.equal(t) {
			g.fail(fmt.Errorf("graph: input %q: %v, but it was %v before", name, t, v.typ))
		}
		return v
	}
	t.Shape = slices.Clone(t.Shape)
	return g.addLabelled(Input{Name: name, Type: t}, name).Outputs[0]
}

// Param is the parameter at path, f32 [shape]; the same path again is the same value (tied weights).
func (g *Graph) Param(path string, shape ...int) *Value {
	if v := g.params[path]; v != nil {
		if !slices.Equal(v.Shape(), shape) {
			g.fail(fmt.Errorf("graph: param %q: shape %v, but it was %v before", path, shape, v.Shape()))
		}
		return v
	}
	return g.addLabelled(Param{Path: path, Shape: slices.Clone(shape)}, path).Outputs[0]
}

// Constant is a scalar.
func (g *Graph) Constant(value float64) *Value {
	if v := g.constants[value]; v != nil {
		return v
	}
	return g.addLabelled(Constant{Value: value}, fmt.Sprintf("%g", value)).Outputs[0]
}

// MatMul is the matrix product of a and b, each transposed first (its last two axes) if the flag says so; see the operation MatMul.
// With both flags it is the transposed product of b and a.
func (g *Graph) MatMul(a, b *Value, transA, transB bool) *Value {
	if !transA || !transB {
		return g.one(MatMul{TransA: transA, TransB: transB}, a, b)
	}
	y := g.one(MatMul{}, b, a)
	perm := make([]int, len(y.Shape()))
	for i := range perm {
		perm[i] = i
	}
	if k := len(perm); k >= 2 {
		perm[k-2], perm[k-1] = k-1, k-2
	}
	return g.Transpose(y, perm...)
}

// Apply is the function fn of functions.go ("gelu_tanh", "silu", "add") of its operands, element by element with broadcasting.
func (g *Graph) Apply(fn string, x ...*Value) *Value { return g.one(Elementwise{Fn: fn}, x...) }

// Add is a + b with broadcasting.
func (g *Graph) Add(a, b *Value) *Value { return g.Apply("add", a, b) }

// Sub is a - b with broadcasting.
func (g *Graph) Sub(a, b *Value) *Value { return g.Apply("sub", a, b) }

// Mul is a b with broadcasting.
func (g *Graph) Mul(a, b *Value) *Value { return g.Apply("mul", a, b) }

// Div is a/b with broadcasting.
func (g *Graph) Div(a, b *Value) *Value { return g.Apply("div", a, b) }

// Scale is x times a number.
func (g *Graph) Scale(x *Value, by float64) *Value {
	return g.one(Elementwise{Fn: "scale", Arg: by}, x)
}

// AddConst is x plus a number.
func (g *Graph) AddConst(x *Value, c float64) *Value {
	return g.one(Elementwise{Fn: "add_const", Arg: c}, x)
}

// StopGradient is x, taken as a constant in the backward pass.
func (g *Graph) StopGradient(x *Value) *Value { return g.Apply("stop_gradient", x) }

// Sum is the sum over axes, over all if none is given.
func (g *Graph) Sum(x *Value, axes ...int) *Value { return g.reduce("sum", x, axes) }

// Mean is the mean over axes, over all if none is given.
func (g *Graph) Mean(x *Value, axes ...int) *Value { return g.reduce("mean", x, axes) }

// Max is the largest over axes, over all if none is given.
func (g *Graph) Max(x *Value, axes ...int) *Value { return g.reduce("max", x, axes) }

func (g *Graph) reduce(fn string, x *Value, axes []int) *Value {
	if len(axes) == 0 {
		axes = axesTo(len(x.Shape()))
	}
	return g.one(Reduce{Fn: fn, Axes: slices.Sorted(slices.Values(axes))}, x)
}

// axesTo is 0, 1, .., n-1.
func axesTo(n int) []int {
	axes := make([]int, n)
	for i := range axes {
		axes[i] = i
	}
	return axes
}

// BroadcastTo repeats x to a shape under numpy's rules. Where it has that shape, it is x itself; so too for
// Reshape, Transpose, Slice, Pad and Concat.
func (g *Graph) BroadcastTo(x *Value, shape ...int) *Value {
	if g.isWhole(x, shape) {
		return x
	}
	return g.one(BroadcastTo{Shape: slices.Clone(shape)}, x)
}

// Reshape gives x another shape of as many elements.
func (g *Graph) Reshape(x *Value, shape ...int) *Value {
	if g.isWhole(x, shape) {
		return x
	}
	return g.one(Reshape{Shape: slices.Clone(shape)}, x)
}

// Transpose orders the axes anew: axis i of the result is axis perm[i] of x.
func (g *Graph) Transpose(x *Value, perm ...int) *Value {
	if x.node != nil && slices.Equal(perm, axesTo(len(x.Shape()))) {
		return x
	}
	return g.one(Transpose{Perm: slices.Clone(perm)}, x)
}

// Slice takes length entries from start on along axis.
func (g *Graph) Slice(x *Value, axis, start, length int) *Value {
	if axis >= 0 && axis < len(x.Shape()) && start == 0 && length == x.Shape()[axis] {
		return x
	}
	return g.one(Slice{Axis: axis, Start: start, Length: length}, x)
}

// Pad puts zeros around x along axis.
func (g *Graph) Pad(x *Value, axis, before, after int) *Value {
	if axis >= 0 && axis < len(x.Shape()) && before == 0 && after == 0 {
		return x
	}
	return g.one(Pad{Axis: axis, Before: before, After: after}, x)
}

// mostJoined bounds the operands of a Concat: those of one kernel, on the devices that bind the fewest.
const mostJoined = 7

// Concat joins values along axis, many of them in groups first.
func (g *Graph) Concat(axis int, x ...*Value) *Value {
	if len(x) == 1 && axis >= 0 && axis < len(x[0].Shape()) {
		return x[0]
	}
	for len(x) > mostJoined {
		var groups []*Value
		for group := range slices.Chunk(x, mostJoined) {
			groups = append(groups, g.Concat(axis, group...))
		}
		x = groups
	}
	return g.one(Concat{Axis: axis}, x...)
}

func (g *Graph) isWhole(x *Value, shape []int) bool {
	return x.node != nil && slices.Equal(x.Shape(), shape)
}

// Softmax is over the last axis.
func (g *Graph) Softmax(x *Value) *Value { return g.one(Softmax{}, x) }

// LayerNorm normalises the last axis of x [..,D] to mean 0 and variance 1, then multiplies by gamma [D] and adds beta [D].
func (g *Graph) LayerNorm(x, gamma, beta *Value, eps float64) *Value {
	return g.one(LayerNorm{Eps: eps}, x, gamma, beta)
}

// RMSNorm divides the last axis of x [..,D] by its root mean square and multiplies by gamma [D].
func (g *Graph) RMSNorm(x, gamma *Value, eps float64) *Value {
	return g.one(RMSNorm{Eps: eps}, x, gamma)
}

// PackedAttention is the operation Attention with q, k and v side by side in qkv [B,T,(heads+2 kvHeads) headDim].
func (g *Graph) PackedAttention(qkv *Value, heads, kvHeads, headDim int, causal bool) *Value {
	return g.one(Attention{Heads: heads, KVHeads: kvHeads, HeadDim: headDim, Packed: true, Causal: causal}, qkv)
}

// Rope turns the pairs (i, i+headDim/2) of each head of x [B,T,H headDim] by their position on axis 1.
func (g *Graph) Rope(x *Value, headDim int, theta float64) *Value {
	return g.one(Rope{HeadDim: headDim, Theta: theta}, x)
}

// RopeAt is Rope for rows at positions i32 [B,T], each below window.
func (g *Graph) RopeAt(x, positions *Value, headDim int, theta float64, window int) *Value {
	return g.one(Rope{HeadDim: headDim, Theta: theta, Window: window}, x, positions)
}

// Embedding takes ids (i32 [..]) to the rows [..,D] of table [V,D].
func (g *Graph) Embedding(table, ids *Value) *Value { return g.one(Embedding{}, table, ids) }

// CrossEntropy is the sum over the labels [N] that are not IgnoreLabel of the cross entropy of logits [N,V].
func (g *Graph) CrossEntropy(logits, labels *Value) *Value {
	return g.one(CrossEntropy{}, logits, labels)
}

// Dropout puts zeros into x with probability p, by the counter-based generator: key is u32 [2], salt tells dropouts apart.
func (g *Graph) Dropout(x, key *Value, p float64, salt uint32) *Value {
	return g.one(Dropout{P: p, Salt: salt}, x, key)
}

// Quantize takes x to the nearest numbers of a format of few bits, and the gradient straight through; see the operation Quantize.
func (g *Graph) Quantize(x *Value, to Quantize) *Value { return g.one(to, x) }
