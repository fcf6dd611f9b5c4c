package graph

import (
	"fmt"

	"gputrain/internal/suggest"
)

// Elementwise applies the function Fn (see functions.go) to one, two or three values under numpy's broadcasting.
// Arg is the number of scale, add_const and pow_const (and of pow_const_grad), 0 for the others.
type Elementwise struct {
	Fn  string  `json:"fn"`
	Arg float64 `json:"arg,omitempty"`
}

// Operands is how many values Fn takes.
func (o Elementwise) Operands() int { return functions[o.Fn].arity }

// Broadcasting says that Gradient takes a dy of smaller shape.
func (Elementwise) Broadcasting() {}

func (Elementwise) Kind() string { return "elementwise" }

func (o Elementwise) Infer(in []*Value) ([]Type, error) {
	f, ok := functions[o.Fn]
	if !ok {
		return nil, fmt.Errorf("unknown function %q%s", o.Fn, suggest.DidYouMean(o.Fn, Functions()))
	}
	if err := arity(in, f.arity); err != nil {
		return nil, err
	}
	if err := finite("arg", o.Arg); err != nil {
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
	return []Type{F32(shape...)}, nil
}

// FLOPs is one an element.
func (Elementwise) FLOPs(n *Node) int64 { return int64(n.Outputs[0].typ.Elements()) }

// Gradient is the chain rule, summed over the axes along which an operand was broadcast. Where it is the same, that sum comes
// first.
func (o Elementwise) Gradient(g *Graph, n *Node, dy []*Value) []*Value {
	d, y := dy[0], n.Outputs[0]
	in := make([]*Value, len(n.Inputs))
	pass := func(i int, sum func() *Value) *Value {
		if !g.wants(n.Inputs[i]) {
			return nil
		}
		return g.unbroadcast(sum(), y.Shape(), n.Inputs[i].Shape())
	}
	whole := func() *Value { return d }
	x := n.Inputs
	switch o.Fn {
	case "neg":
		in[0] = g.scaled(d, -1)
	case "exp":
		in[0] = g.times(d, y)
	case "log":
		in[0] = g.Div(d, x[0])
	case "scale":
		in[0] = g.scaled(d, o.Arg)
	case "add_const":
		in[0] = d
	case "pow_const":
		in[0] = g.one(Elementwise{Fn: "pow_const_grad", Arg: o.Arg}, x[0], d)
	case "sqrt", "rsqrt", "square", "tanh", "sigmoid", "relu", "gelu_tanh", "gelu_erf", "silu", "recip", "abs":
		in[0] = g.Apply(o.Fn+"_grad", x[0], d)
	case "add":
		in[0], in[1] = pass(0, whole), pass(1, whole)
	case "sub":
		in[0], in[1] = pass(0, whole), pass(1, whole)
		if in[1] != nil {
			in[1] = g.scaled(in[1], -1)
		}
	case "mul":
		in[0] = pass(0, func() *Value { return g.times(d, x[1]) })
		in[1] = pass(1, func() *Value { return g.times(d, x[0]) })
	case "div":
		in[0] = pass(0, func() *Value { return g.Div(d, x[1]) })
		if in[1] = pass(1, func() *Value { return g.times(d, y) }); in[1] != nil { // -sum(dy y)/b
			in[1] = g.scaled(g.Div(in[1], x[1]), -1)
		}
	case "max":
		in[0] = pass(0, func() *Value { return g.Apply("max_grad", x[0], x[1], d) })
		in[1] = pass(1, func() *Value { return g.Apply("max_grad", x[1], x[0], d) })
	case "equal", "stop_gradient": // a step, and what is taken as a constant: no gradient
	default:
		return g.noGradient(n)
	}
	return in
}

// Eval applies the function element by element.
func (o Elementwise) Eval(n *Node, in []*Array, _ *Env) []*Array {
	y := NewArray(n.Outputs[0].Shape())
	var x [3][]float64
	for i, a := range in {
		x[i] = expand(a, y.Shape)
	}
	f := functions[o.Fn].eval
	var operands [3]float64
	for i := range y.Data {
		for j := range in {
			operands[j] = x[j][i]
		}
		y.Data[i] = f(operands, o.Arg)
	}
	return []*Array{y}
}
