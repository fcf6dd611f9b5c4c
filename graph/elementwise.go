package graph

import (
	"fmt"
	"slices"
)

// Elementwise applies the function Fn (see functions.go) to one, two or three values under numpy's broadcasting.
// Arg is the number of scale, add_const and pow_const (and of pow_const_grad), 0 for the others.
type Elementwise struct {
	Fn  string  `json:"fn"`
	Arg float64 `json:"arg,omitempty"`
}

func (Elementwise) Kind() string { return "elementwise" }

func (o Elementwise) Infer(in []*Value) ([]Type, error) {
	f, ok := functions[o.Fn]
	if !ok {
		return nil, fmt.Errorf("unknown function %q%s", o.Fn, suggest(o.Fn, functionNames()))
	}
	if err := arity(in, f.arity); err != nil {
		return nil, err
	}
	if o.Arg != 0 && !f.arg {
		return nil, fmt.Errorf("arg %g, but %s takes none", o.Arg, o.Fn)
	}
	shape := in[0].Shape()
	for _, v := range in[1:] {
		var err error
		if shape, err = broadcast(shape, v.Shape()); err != nil {
			return nil, err
		}
	}
	return []Type{f32(shape...)}, nil
}

// FLOPs is one an element.
func (Elementwise) FLOPs(n *Node) int64 { return int64(n.Outputs[0].typ.Elements()) }

// Reduce takes the sum, mean or max over Axes (ascending); Keep leaves them in the shape as 1.
type Reduce struct {
	Fn   string `json:"fn"`
	Axes []int  `json:"axes"`
	Keep bool   `json:"keep,omitempty"`
}

func (Reduce) Kind() string { return "reduce" }

func (o Reduce) Infer(in []*Value) ([]Type, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	if names := []string{"sum", "mean", "max"}; !slices.Contains(names, o.Fn) {
		return nil, fmt.Errorf("unknown function %q%s", o.Fn, suggest(o.Fn, names))
	}
	for i, a := range o.Axes {
		if err := checkAxis(a, len(in[0].Shape())); err != nil {
			return nil, err
		}
		if i > 0 && o.Axes[i-1] >= a {
			return nil, fmt.Errorf("axes %v, want them ascending", o.Axes)
		}
		if in[0].Shape()[a] == 0 && o.Fn != "sum" {
			return nil, fmt.Errorf("%s over axis %d of shape %v: no elements", o.Fn, a, in[0].Shape())
		}
	}
	return []Type{f32(reducedShape(in[0].Shape(), o.Axes, o.Keep)...)}, nil
}

func reducedShape(shape, axes []int, keep bool) []int {
	out := []int{}
	for i, d := range shape {
		switch {
		case !slices.Contains(axes, i):
			out = append(out, d)
		case keep:
			out = append(out, 1)
		}
	}
	return out
}

// FLOPs is one an element of the input.
func (Reduce) FLOPs(n *Node) int64 { return int64(n.Inputs[0].typ.Elements()) }

// BroadcastTo repeats a value to Shape under numpy's rules.
type BroadcastTo struct {
	Shape []int `json:"shape"`
}

func (BroadcastTo) Kind() string { return "broadcast" }

func (o BroadcastTo) Infer(in []*Value) ([]Type, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	if err := checkShape(o.Shape); err != nil {
		return nil, err
	}
	if s, err := broadcast(in[0].Shape(), o.Shape); err != nil || !slices.Equal(s, o.Shape) {
		return nil, fmt.Errorf("shape %v does not broadcast to %v", in[0].Shape(), o.Shape)
	}
	return []Type{f32(o.Shape...)}, nil
}

// FLOPs is 0.
func (BroadcastTo) FLOPs(*Node) int64 { return 0 }
