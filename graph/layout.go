package graph

import (
	"fmt"
	"slices"
)

// Reshape gives the same elements, in row-major order, another shape.
type Reshape struct {
	Shape []int `json:"shape"`
}

// Remade, as a view.
func (Reshape) Remade() {}

func (Reshape) Kind() string { return "reshape" }

func (o Reshape) Infer(in []*Value) ([]Type, error) {
	if len(in) != 1 {
		return nil, arity(in, 1)
	}
	if err := checkShape(o.Shape); err != nil {
		return nil, err
	}
	if found, want := in[0].typ.Elements(), Elements(o.Shape); found != want {
		return nil, fmt.Errorf("shape %v has %d elements, %v has %d", in[0].Shape(), found, o.Shape, want)
	}
	return []Type{{Shape: slices.Clone(o.Shape), DType: in[0].DType()}}, nil
}

// Gradient is the reshape back.
func (Reshape) Gradient(g *Graph, n *Node, dy []*Value) []*Value {
	return []*Value{g.Reshape(dy[0], n.Inputs[0].Shape()...)}
}

// Eval is the definition.
func (o Reshape) Eval(_ *Node, in []*Array, _ *Env) []*Array {
	return []*Array{{Shape: o.Shape, Data: in[0].Data}}
}

// Transpose orders the axes anew: axis i of the result is axis Perm[i] of x.
type Transpose struct {
	Perm []int `json:"perm"`
}

func (Transpose) Kind() string { return "transpose" }

func (o Transpose) Infer(in []*Value) ([]Type, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	x := in[0].Shape()
	shape := make([]int, len(o.Perm))
	seen := make([]bool, len(x))
	ok := len(o.Perm) == len(x)
	for i, p := range o.Perm {
		if ok = ok && p >= 0 && p < len(x) && !seen[p]; !ok {
			break
		}
		seen[p] = true
		shape[i] = x[p]
	}
	if !ok {
		return nil, fmt.Errorf("perm %v is no permutation of the axes of shape %v", o.Perm, x)
	}
	return []Type{F32(shape...)}, nil
}

// Gradient is the transposition back.
func (o Transpose) Gradient(g *Graph, _ *Node, dy []*Value) []*Value {
	back := make([]int, len(o.Perm))
	for i, p := range o.Perm {
		back[p] = i
	}
	return []*Value{g.Transpose(dy[0], back...)}
}

// Eval is the definition.
func (o Transpose) Eval(n *Node, in []*Array, _ *Env) []*Array {
	y := NewArray(n.Outputs[0].Shape())
	from := strides(in[0].Shape)
	steps := make([]int, len(o.Perm))
	for i, p := range o.Perm {
		steps[i] = from[p]
	}
	walk(y.Shape, steps, func(i, j int) { y.Data[i] = in[0].Data[j] })
	return []*Array{y}
}

// shapeAlong is a copy of the first input's shape, which has that axis; there are n inputs.
func shapeAlong(axis int, in []*Value, n int) ([]int, error) {
	if err := arity(in, n); err != nil {
		return nil, err
	}
	shape := slices.Clone(in[0].Shape())
	return shape, checkAxis(axis, len(shape))
}

// Slice takes Length entries from Start on along Axis.
type Slice struct {
	Axis   int `json:"axis"`
	Start  int `json:"start"`
	Length int `json:"length"`
}

// Remade, as a view, or one copy.
func (Slice) Remade() {}

func (Slice) Kind() string { return "slice" }

func (o Slice) Infer(in []*Value) ([]Type, error) {
	shape, err := shapeAlong(o.Axis, in, 1)
	if err != nil {
		return nil, err
	}
	if o.Start < 0 || o.Length < 0 || o.Start > shape[o.Axis] || o.Length > shape[o.Axis]-o.Start {
		return nil, fmt.Errorf("start %d length %d of axis %d, shape %v", o.Start, o.Length, o.Axis, shape)
	}
	shape[o.Axis] = o.Length
	return []Type{F32(shape...)}, nil
}

// Gradient puts dy in its place among zeros; Gradients itself handles several slices of one value.
func (o Slice) Gradient(g *Graph, n *Node, dy []*Value) []*Value {
	return []*Value{g.Pad(dy[0], o.Axis, o.Start, n.Inputs[0].Shape()[o.Axis]-o.Start-o.Length)}
}

// Eval is the definition.
func (o Slice) Eval(n *Node, in []*Array, _ *Env) []*Array {
	y := NewArray(n.Outputs[0].Shape())
	copyAlong(o.Axis, y, 0, in[0], o.Start, o.Length)
	return []*Array{y}
}

// Pad puts Before and After zeros around x along Axis: the gradient of Slice.
type Pad struct {
	Axis   int `json:"axis"`
	Before int `json:"before"`
	After  int `json:"after"`
}

func (Pad) Kind() string { return "pad" }

func (o Pad) Infer(in []*Value) ([]Type, error) {
	shape, err := shapeAlong(o.Axis, in, 1)
	if err != nil {
		return nil, err
	}
	if o.Before < 0 || o.After < 0 {
		return nil, fmt.Errorf("before %d and after %d, want 0 or more", o.Before, o.After)
	}
	shape[o.Axis] += o.Before + o.After
	return []Type{F32(shape...)}, checkShape(shape)
}

// Gradient is the slice without the zeros.
func (o Pad) Gradient(g *Graph, n *Node, dy []*Value) []*Value {
	return []*Value{g.Slice(dy[0], o.Axis, o.Before, n.Inputs[0].Shape()[o.Axis])}
}

// Eval is the definition.
func (o Pad) Eval(n *Node, in []*Array, _ *Env) []*Array {
	y := NewArray(n.Outputs[0].Shape())
	copyAlong(o.Axis, y, o.Before, in[0], 0, in[0].Shape[o.Axis])
	return []*Array{y}
}

// Concat joins one or more values along Axis; their other dimensions are equal.
type Concat struct {
	Axis int `json:"axis"`
}

func (Concat) Kind() string { return "concat" }

func (o Concat) Infer(in []*Value) ([]Type, error) {
	shape, err := shapeAlong(o.Axis, in, max(1, len(in)))
	if err != nil {
		return nil, err
	}
	for _, v := range in[1:] {
		if len(v.Shape()) != len(shape) {
			return nil, fmt.Errorf("shapes %v and %v differ in rank", in[0].Shape(), v.Shape())
		}
		for i, d := range v.Shape() {
			if i == o.Axis {
				shape[i] += d
			} else if d != shape[i] {
				return nil, fmt.Errorf("shapes %v and %v differ in axis %d", in[0].Shape(), v.Shape(), i)
			}
		}
	}
	return []Type{F32(shape...)}, nil
}

// Gradient is a slice for each input.
func (o Concat) Gradient(g *Graph, n *Node, dy []*Value) []*Value {
	dx, start := make([]*Value, len(n.Inputs)), 0
	for i, x := range n.Inputs {
		length := x.Shape()[o.Axis]
		if g.wants(x) {
			dx[i] = g.Slice(dy[0], o.Axis, start, length)
		}
		start += length
	}
	return dx
}

// Eval is the definition.
func (o Concat) Eval(n *Node, in []*Array, _ *Env) []*Array {
	y, start := NewArray(n.Outputs[0].Shape()), 0
	for _, x := range in {
		copyAlong(o.Axis, y, start, x, 0, x.Shape[o.Axis])
		start += x.Shape[o.Axis]
	}
	return []*Array{y}
}

// copyAlong copies length entries along axis from src, from entry from on, to dst, from entry to on.
func copyAlong(axis int, dst *Array, to int, src *Array, from, length int) {
	inner := Elements(dst.Shape[axis+1:])
	for outer := range Elements(dst.Shape[:axis]) {
		d := (outer*dst.Shape[axis] + to) * inner
		s := (outer*src.Shape[axis] + from) * inner
		copy(dst.Data[d:d+length*inner], src.Data[s:])
	}
}
