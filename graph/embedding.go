package graph

import (
	"fmt"
	"slices"

	"gputrain/buffers"
)

// Embedding takes W [V,D] and ids [..] (i32, 0 to V-1) to the rows [..,D].
type Embedding struct{}

func (Embedding) Kind() string { return "embedding" }

func (Embedding) Infer(in []*Value) ([]Type, error) {
	if err := arity(in, 2, 1); err != nil {
		return nil, err
	}
	if err := wantDType("ids", in[1], buffers.I32); err != nil {
		return nil, err
	}
	if len(in[0].Shape()) != 2 {
		return nil, fmt.Errorf("table has shape %v, want [vocab width]", in[0].Shape())
	}
	return []Type{f32(append(slices.Clone(in[1].Shape()), in[0].Shape()[1])...)}, nil
}

// FLOPs is 0.
func (Embedding) FLOPs(*Node) int64 { return 0 }

// EmbeddingGrad takes dy [..,D] and ids [..] to dW [Vocab,D]: the sum of the rows of dy by id.
type EmbeddingGrad struct {
	Vocab int `json:"vocab"`
}

func (EmbeddingGrad) Kind() string { return "embedding_grad" }

func (o EmbeddingGrad) Infer(in []*Value) ([]Type, error) {
	if err := arity(in, 2, 1); err != nil {
		return nil, err
	}
	if err := wantDType("ids", in[1], buffers.I32); err != nil {
		return nil, err
	}
	if err := wantRank("dy", in[0], 1); err != nil {
		return nil, err
	}
	_, d := rows(in[0].Shape())
	if err := wantShape("dy", in[0], append(slices.Clone(in[1].Shape()), d)...); err != nil {
		return nil, err
	}
	return []Type{f32(o.Vocab, d)}, checkShape([]int{o.Vocab, d})
}

// FLOPs is one an element of dy.
func (EmbeddingGrad) FLOPs(n *Node) int64 { return int64(n.Inputs[0].typ.Elements()) }
