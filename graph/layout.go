package graph

import (
	"fmt"
	"slices"
)

// Reshape gives the same elements, in row-major order, another shape.
type Reshape struct {
	Shape []int `json:"shape"`
}

func (Reshape) Kind() string { return "reshape" }

func (o Reshape) Infer(in []*Value) ([]Type, error) {
	if len(in) != 1 {
		return nil, arity(in, 1)
	}
	if err := checkShape(o.Shape); err != nil {
		return nil, err
	}
	if found, want := in[0].typ.Elements(), elements(o.Shape); found != want {
		return nil, fmt.Errorf("shape %v has %d elements, %v has %d", in[0].Shape(), found, o.Shape, want)
	}
	return []Type{{Shape: slices.Clone(o.Shape), DType: in[0].DType()}}, nil
}

// FLOPs is 0.
func (Reshape) FLOPs(*Node) int64 { return 0 }

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
	return []Type{f32(shape...)}, nil
}

// FLOPs is 0.
func (Transpose) FLOPs(*Node) int64 { return 0 }

// Slice takes Length entries from Start on along Axis.
type Slice struct {
	Axis   int `json:"axis"`
	Start  int `json:"start"`
	Length int `json:"length"`
}

func (Slice) Kind() string { return "slice" }

func (o Slice) Infer(in []*Value) ([]Type, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	shape := slices.Clone(in[0].Shape())
	if err := checkAxis(o.Axis, len(shape)); err != nil {
		return nil, err
	}
	if o.Start < 0 || o.Length < 0 || o.Start > shape[o.Axis] || o.Length > shape[o.Axis]-o.Start {
		return nil, fmt.Errorf("start %d length %d of axis %d, shape %v", o.Start, o.Length, o.Axis, shape)
	}
	shape[o.Axis] = o.Length
	return []Type{f32(shape...)}, nil
}

// FLOPs is 0.
func (Slice) FLOPs(*Node) int64 { return 0 }

// Pad puts Before and After zeros around x along Axis: the gradient of Slice.
type Pad struct {
	Axis   int `json:"axis"`
	Before int `json:"before"`
	After  int `json:"after"`
}

func (Pad) Kind() string { return "pad" }

func (o Pad) Infer(in []*Value) ([]Type, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	shape := slices.Clone(in[0].Shape())
	if err := checkAxis(o.Axis, len(shape)); err != nil {
		return nil, err
	}
	if o.Before < 0 || o.After < 0 {
		return nil, fmt.Errorf("before %d and after %d, want 0 or more", o.Before, o.After)
	}
	shape[o.Axis] += o.Before + o.After
	return []Type{f32(shape...)}, checkShape(shape)
}

// FLOPs is 0.
func (Pad) FLOPs(*Node) int64 { return 0 }

// Concat joins one or more values along Axis; their other dimensions are equal.
type Concat struct {
	Axis int `json:"axis"`
}

func (Concat) Kind() string { return "concat" }

func (o Concat) Infer(in []*Value) ([]Type, error) {
	if err := arity(in, max(1, len(in))); err != nil {
		return nil, err
	}
	shape := slices.Clone(in[0].Shape())
	if err := checkAxis(o.Axis, len(shape)); err != nil {
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
	return []Type{f32(shape...)}, nil
}

// FLOPs is 0.
func (Concat) FLOPs(*Node) int64 { return 0 }
