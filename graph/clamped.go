package graph

import (
	"fmt"
	"math"
	"slices"
)

// ClampedSwiGLU takes x [..,2F], whose columns are gates and ups in turn, to [..,F]: (u + 1) g sigmoid(Alpha g) of gates g, at most Limit, and ups u, from
// -Limit to Limit. What is clamped has no gradient. It is an operation of its own so that its bits do not depend on what is computed beside it: drivers
// contract products and sums of one text.
type ClampedSwiGLU struct {
	Limit float64 `json:"limit"`
	Alpha float64 `json:"alpha"`
}

func (ClampedSwiGLU) Kind() string { return "clamped_swiglu" }

func (o ClampedSwiGLU) Infer(in []*Value) ([]Type, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	shape := slices.Clone(in[0].Shape())
	last := len(shape) - 1
	if last < 0 || shape[last]%2 != 0 {
		return nil, fmt.Errorf("x has shape %v, want an even number of columns, gates and ups in turn", shape)
	}
	if err := finite("alpha", o.Alpha); err != nil {
		return nil, err
	}
	if !(o.Limit > 0) || math.IsInf(o.Limit, 0) {
		return nil, fmt.Errorf("limit %g, want a positive number", o.Limit)
	}
	shape[last] /= 2
	return []Type{F32(shape...)}, nil
}

// FLOPs is 8 an element.
func (ClampedSwiGLU) FLOPs(n *Node) int64 { return 8 * int64(n.Outputs[0].typ.Elements()) }

// Gradient is ClampedSwiGLUGrad.
func (o ClampedSwiGLU) Gradient(g *Graph, n *Node, dy []*Value) []*Value {
	return []*Value{g.one(ClampedSwiGLUGrad(o), n.Inputs[0], dy[0])}
}

// Eval is the definition.
func (o ClampedSwiGLU) Eval(n *Node, in []*Array, _ *Env) []*Array {
	y := NewArray(n.Outputs[0].Shape())
	for i := range y.Data {
		g, u := math.Min(in[0].Data[2*i], o.Limit), math.Max(-o.Limit, math.Min(in[0].Data[2*i+1], o.Limit))
		y.Data[i] = (u + 1) * g * sigmoid(o.Alpha*g)
	}
	return []*Array{y}
}

// ClampedSwiGLUGrad takes x and the gradient of the result of ClampedSwiGLU of the same fields to that of x.
type ClampedSwiGLUGrad ClampedSwiGLU

func (ClampedSwiGLUGrad) Kind() string { return "clamped_swiglu_grad" }

func (o ClampedSwiGLUGrad) Infer(in []*Value) ([]Type, error) {
	if err := arity(in, 2); err != nil {
		return nil, err
	}
	y, err := ClampedSwiGLU(o).Infer(in[:1])
	if err != nil {
		return nil, err
	}
	return []Type{F32(in[0].Shape()...)}, wantShape("dy", in[1], y[0].Shape...)
}

// FLOPs is 9 an element.
func (ClampedSwiGLUGrad) FLOPs(n *Node) int64 { return 9 * int64(n.Outputs[0].typ.Elements()) }

// Eval is the definition.
func (o ClampedSwiGLUGrad) Eval(n *Node, in []*Array, _ *Env) []*Array {
	dx := NewArray(n.Outputs[0].Shape())
	for i, dy := range in[1].Data {
		gate, up := in[0].Data[2*i], in[0].Data[2*i+1]
		g, u := math.Min(gate, o.Limit), math.Max(-o.Limit, math.Min(up, o.Limit))
		s := sigmoid(o.Alpha * g)
		if gate <= o.Limit {
			dx.Data[2*i] = dy * (u + 1) * (s + o.Alpha*g*s*sigmoid(-o.Alpha*g))
		}
		if math.Abs(up) <= o.Limit {
			dx.Data[2*i+1] = dy * g * s
		}
	}
	return []*Array{dx}
}
