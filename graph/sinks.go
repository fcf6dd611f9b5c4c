package graph

import (
	"fmt"
	"math"
)

// SinkGrad is the gradient of the sinks of Attention: sinks s [H], its outputs o [B,T,H D] and lse [B,H,T], and do of o, to [H]: -sum(exp(s - lse) do.o) over the
// tokens of each head.
type SinkGrad struct{}

func (SinkGrad) Kind() string { return "sink_grad" }

func (SinkGrad) Infer(in []*Value) ([]Type, error) {
	if err := arity(in, 4); err != nil {
		return nil, err
	}
	s, o := in[0].Shape(), in[1].Shape()
	if len(s) != 1 || s[0] < 1 || len(o) != 3 || o[2]%s[0] != 0 {
		return nil, fmt.Errorf("sinks and o have shapes %v and %v, want [heads] and [batch tokens heads*width]", s, o)
	}
	if err := wantShape("lse", in[2], o[0], s[0], o[1]); err != nil {
		return nil, err
	}
	return []Type{F32(s[0])}, wantShape("do", in[3], o...)
}

// FLOPs is 2 an element of o.
func (SinkGrad) FLOPs(n *Node) int64 { return 2 * int64(n.Inputs[1].typ.Elements()) }

// Eval is the definition.
func (SinkGrad) Eval(n *Node, in []*Array, _ *Env) []*Array {
	out, o := NewArray(n.Outputs[0].Shape()), in[1]
	h, t := len(out.Data), o.Shape[1]
	d := o.Shape[2] / h
	for i, v := range o.Data {
		head, row := i/d%h, i/d/h
		out.Data[head] -= math.Exp(in[0].Data[head]-in[2].Data[(row/t*h+head)*t+row%t]) * v * in[3].Data[i]
	}
	return []*Array{out}
}
