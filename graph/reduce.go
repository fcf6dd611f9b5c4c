package graph

import (
	"fmt"
	"math"
	"slices"

	"gputrain/internal/suggest"
)

// Reduce takes the sum, mean or max over Axes (ascending); Keep leaves them in the shape as 1.
type Reduce struct {
	Fn   string `json:"fn"`
	Axes []int  `json:"axes"`
	Keep bool   `json:"keep,omitempty"`
}

// Broadcasting says that Gradient takes a dy of smaller shape.
func (Reduce) Broadcasting() {}

func (Reduce) Kind() string { return "reduce" }

func (o Reduce) Infer(in []*Value) ([]Type, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	if names := []string{"sum", "mean", "max"}; !slices.Contains(names, o.Fn) {
		return nil, fmt.Errorf("unknown function %q%s", o.Fn, suggest.DidYouMean(o.Fn, names))
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
	return []Type{F32(reducedShape(in[0].Shape(), o.Axes, o.Keep)...)}, nil
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

// Gradient of a sum is dy along the axes, which Elementwise broadcasts; that of a max goes to the largest, in equal parts.
func (o Reduce) Gradient(g *Graph, n *Node, dy []*Value) []*Value {
	x, y := n.Inputs[0], n.Outputs[0]
	keep := reducedShape(x.Shape(), o.Axes, true)
	d := dy[0]
	if !o.Keep {
		d = g.kept(d, o.Axes, keep)
	}
	switch o.Fn {
	case "mean":
		d = g.scaled(d, float64(Elements(y.Shape()))/float64(x.typ.Elements()))
	case "max":
		if !o.Keep {
			y = g.kept(y, o.Axes, keep)
		}
		largest := g.Apply("equal", x, y)
		d = g.Mul(largest, g.Div(d, g.one(Reduce{Fn: "sum", Axes: o.Axes, Keep: true}, largest)))
	}
	return []*Value{d}
}

// kept puts ones into the shape of v, which stands for keep without the axes, so that it broadcasts along them.
func (g *Graph) kept(v *Value, axes, keep []int) *Value {
	if v.node == nil || len(trimmed(v.Shape())) == 0 {
		return v
	}
	shape := make([]int, len(keep))
	rest := 0 // axes after i that are not reduced
	for i := len(keep) - 1; i >= 0; i-- {
		if shape[i] = 1; !slices.Contains(axes, i) {
			shape[i] = dimFromEnd(v.Shape(), rest)
			rest++
		}
	}
	return g.aligned(v, shape)
}

// Eval is the definition.
func (o Reduce) Eval(n *Node, in []*Array, _ *Env) []*Array {
	x := in[0]
	y := NewArray(n.Outputs[0].Shape())
	to := strides(reducedShape(x.Shape, o.Axes, true))
	for _, a := range o.Axes {
		to[a] = 0
	}
	if o.Fn == "max" {
		for i := range y.Data {
			y.Data[i] = math.Inf(-1)
		}
	}
	walk(x.Shape, to, func(i, j int) {
		if o.Fn == "max" {
			y.Data[j] = math.Max(y.Data[j], x.Data[i])
		} else {
			y.Data[j] += x.Data[i]
		}
	})
	if o.Fn == "mean" {
		for j := range y.Data {
			y.Data[j] *= float64(len(y.Data)) / float64(len(x.Data))
		}
	}
	return []*Array{y}
}

// BroadcastTo repeats a value to Shape under numpy's rules.
type BroadcastTo struct {
	Shape []int `json:"shape"`
}

// Broadcasting says that Gradient takes a dy of smaller shape.
func (BroadcastTo) Broadcasting() {}

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
	return []Type{F32(o.Shape...)}, nil
}

// Gradient is the sum over the axes along which x is repeated.
func (o BroadcastTo) Gradient(g *Graph, n *Node, dy []*Value) []*Value {
	return []*Value{g.unbroadcast(dy[0], o.Shape, n.Inputs[0].Shape())}
}

// Eval is the definition.
func (o BroadcastTo) Eval(_ *Node, in []*Array, _ *Env) []*Array {
	return []*Array{{Shape: o.Shape, Data: expand(in[0], o.Shape)}}
}
