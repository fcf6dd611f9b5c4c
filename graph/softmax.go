package graph

import (
	"math"
	"slices"
)

// Softmax is y = exp(x - max x) / sum exp(x - max x) over the last axis.
type Softmax struct{}

func (Softmax) Kind() string { return "softmax" }

func (Softmax) Infer(in []*Value) ([]Type, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	return []Type{F32(in[0].Shape()...)}, wantRank("x", in[0], 1)
}

// FLOPs is 4 an element.
func (Softmax) FLOPs(n *Node) int64 { return 4 * int64(n.Outputs[0].typ.Elements()) }

// SoftmaxGrad takes (y, dy) to dx = y (dy - sum y dy).
type SoftmaxGrad struct{}

func (SoftmaxGrad) Kind() string { return "softmax_grad" }

func (SoftmaxGrad) Infer(in []*Value) ([]Type, error) {
	if err := arity(in, 2); err != nil {
		return nil, err
	}
	if err := wantShape("dy", in[1], in[0].Shape()...); err != nil {
		return nil, err
	}
	return []Type{F32(in[0].Shape()...)}, wantRank("y", in[0], 1)
}

// FLOPs is 4 an element.
func (SoftmaxGrad) FLOPs(n *Node) int64 { return 4 * int64(n.Outputs[0].typ.Elements()) }

// Gradient is SoftmaxGrad of y and dy.
func (Softmax) Gradient(g *Graph, n *Node, dy []*Value) []*Value {
	return []*Value{g.one(SoftmaxGrad{}, n.Outputs[0], dy[0])}
}

// Eval is the definition.
func (Softmax) Eval(_ *Node, in []*Array, _ *Env) []*Array {
	y := NewArray(in[0].Shape)
	n, d := Rows(y.Shape)
	for r := range n {
		x := in[0].Data[r*d : (r+1)*d]
		lse := logSumExp(x)
		for i := range d {
			y.Data[r*d+i] = math.Exp(x[i] - lse)
		}
	}
	return []*Array{y}
}

// logSumExp is log sum exp x.
func logSumExp(x []float64) float64 {
	if len(x) == 0 {
		return math.Inf(-1)
	}
	largest, sum := slices.Max(x), 0.0
	for _, v := range x {
		sum += math.Exp(v - largest)
	}
	return largest + math.Log(sum)
}

// Eval is the definition.
func (SoftmaxGrad) Eval(_ *Node, in []*Array, _ *Env) []*Array {
	y, dy, dx := in[0], in[1], NewArray(in[0].Shape)
	n, d := Rows(y.Shape)
	for r := range n {
		sum := dot(y.Data[r*d:(r+1)*d], dy.Data[r*d:(r+1)*d])
		for i := r * d; i < (r+1)*d; i++ {
			dx.Data[i] = y.Data[i] * (dy.Data[i] - sum)
		}
	}
	return []*Array{dx}
}

// dot is the sum of the products of the elements.
func dot(a, b []float64) float64 {
	sum := 0.0
	for i, x := range a {
		sum += x * b[i]
	}
	return sum
}
