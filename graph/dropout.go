package graph

import (
	"fmt"

	"gputrain/buffers/array"
	"gputrain/buffers/prng"
)

// Dropout takes x and key [2] (u32) to x/(1-P) where uniform(fold_in(key, Salt), i) >= P, i the linear index, and to 0 elsewhere.
// Salt tells the dropouts of one step apart.
type Dropout struct {
	P    float64 `json:"p"`
	Salt uint32  `json:"salt"`
}

func (Dropout) Kind() string { return "dropout" }

func (o Dropout) Infer(in []*Value) ([]Type, error) {
	if err := arity(in, 2, 1); err != nil {
		return nil, err
	}
	if !(o.P >= 0 && o.P < 1) {
		return nil, fmt.Errorf("p %g, want 0 or more and less than 1", o.P)
	}
	if err := wantDType("key", in[1], array.U32); err != nil {
		return nil, err
	}
	return []Type{F32(in[0].Shape()...)}, wantShape("key", in[1], 2)
}

// FLOPs is one an element.
func (Dropout) FLOPs(n *Node) int64 { return int64(n.Outputs[0].typ.Elements()) }

// Gradient is the same dropout of dy.
func (o Dropout) Gradient(g *Graph, n *Node, dy []*Value) []*Value {
	return []*Value{g.one(o, dy[0], n.Inputs[1]), nil}
}

// Eval is the definition; P is compared as the f32 that the device has.
func (o Dropout) Eval(n *Node, in []*Array, _ *Env) []*Array {
	x, y := in[0], NewArray(n.Outputs[0].Shape())
	key := prng.Key{uint32(in[1].Data[0]), uint32(in[1].Data[1])}.FoldIn(o.Salt)
	for i := range y.Data {
		if key.Uniform(uint64(i)) >= float32(o.P) {
			y.Data[i] = x.Data[i] / (1 - o.P)
		}
	}
	return []*Array{y}
}
