package graph

import (
	"fmt"
	"slices"

	"gputrain/buffers/array"
)

// Embedding takes W [V,D] and ids [..] (i32, 0 to V-1) to the rows [..,D].
type Embedding struct{}

func (Embedding) Kind() string { return "embedding" }

func (Embedding) Infer(in []*Value) ([]Type, error) {
	if err := arity(in, 2, 1); err != nil {
		return nil, err
	}
	if err := wantDType("ids", in[1], array.I32); err != nil {
		return nil, err
	}
	if len(in[0].Shape()) != 2 {
		return nil, fmt.Errorf("table has shape %v, want [vocab width]", in[0].Shape())
	}
	return []Type{F32(append(slices.Clone(in[1].Shape()), in[0].Shape()[1])...)}, nil
}

// EmbeddingGrad takes dy [..,D] and ids [..] to dW [Vocab,D]: the sum of the rows of dy by id.
type EmbeddingGrad struct {
	Vocab int `json:"vocab"`
}

func (EmbeddingGrad) Kind() string { return "embedding_grad" }

func (o EmbeddingGrad) Infer(in []*Value) ([]Type, error) {
	if err := arity(in, 2, 1); err != nil {
		return nil, err
	}
	if err := wantDType("ids", in[1], array.I32); err != nil {
		return nil, err
	}
	if err := wantRank("dy", in[0], 1); err != nil {
		return nil, err
	}
	_, d := Rows(in[0].Shape())
	if err := wantShape("dy", in[0], append(slices.Clone(in[1].Shape()), d)...); err != nil {
		return nil, err
	}
	return []Type{F32(o.Vocab, d)}, checkShape([]int{o.Vocab, d})
}

// FLOPs is one an element of dy.
func (EmbeddingGrad) FLOPs(n *Node) int64 { return int64(n.Inputs[0].typ.Elements()) }

// Gradient is EmbeddingGrad for the table.
func (Embedding) Gradient(g *Graph, n *Node, dy []*Value) []*Value {
	return []*Value{g.one(EmbeddingGrad{Vocab: n.Inputs[0].Shape()[0]}, dy[0], n.Inputs[1]), nil}
}

// Eval is the definition.
func (Embedding) Eval(n *Node, in []*Array, e *Env) []*Array {
	table, ids, y := in[0], in[1], NewArray(n.Outputs[0].Shape())
	v, d := Rows(table.Shape)
	for i, id := range ids.Data {
		if !e.inRange(n, "id", i, id, v) {
			return nil
		}
		copy(y.Data[i*d:(i+1)*d], table.Data[int(id)*d:])
	}
	return []*Array{y}
}

// inRange fails where the i-th index is not one of v.
func (e *Env) inRange(n *Node, what string, i int, index float64, v int) bool {
	if index < 0 || index >= float64(v) {
		e.fail(n, "%s %d is %g, want 0 to %d", what, i, index, v-1)
		return false
	}
	return true
}

// Eval is the definition.
func (o EmbeddingGrad) Eval(n *Node, in []*Array, e *Env) []*Array {
	dy, ids, dw := in[0], in[1], NewArray(n.Outputs[0].Shape())
	d := dw.Shape[1]
	for i, id := range ids.Data {
		if !e.inRange(n, "id", i, id, o.Vocab) {
			return nil
		}
		addScaled(dw.Data[int(id)*d:(int(id)+1)*d], 1, dy.Data[i*d:(i+1)*d])
	}
	return []*Array{dw}
}
