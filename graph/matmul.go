package graph

import (
	"fmt"
	"slices"
)

// MatMul is the matrix product Y = A B: A [..,M,K] (TransA: [..,K,M]), B [..,K,N] (TransB: [..,N,K]), Y [..,M,N].
// The leading (batch) dimensions of A and B are equal, or one of the two is a plain matrix shared by all.
// Both transposed is not a form of this operation: the builder makes it (B A)^T.
type MatMul struct {
	TransA bool `json:"trans_a,omitempty"`
	TransB bool `json:"trans_b,omitempty"`
}

func (MatMul) Kind() string { return "matmul" }

func (o MatMul) Infer(in []*Value) ([]Type, error) {
	if err := arity(in, 2); err != nil {
		return nil, err
	}
	if o.TransA && o.TransB {
		return nil, fmt.Errorf("trans_a and trans_b, want one of them at most")
	}
	for i, what := range []string{"a", "b"} {
		if err := wantRank(what, in[i], 2); err != nil {
			return nil, err
		}
	}
	m, ka, batchA := matrix(in[0].Shape(), o.TransA)
	kb, n, batchB := matrix(in[1].Shape(), o.TransB)
	if ka != kb {
		return nil, fmt.Errorf("inner dimensions %d and %d differ, a %v%s, b %v%s",
			ka, kb, in[0].Shape(), transposed(o.TransA), in[1].Shape(), transposed(o.TransB))
	}
	batch := batchA
	if len(batchA) == 0 {
		batch = batchB
	} else if len(batchB) > 0 && !slices.Equal(batchA, batchB) {
		return nil, fmt.Errorf("batch dimensions %v and %v differ", batchA, batchB)
	}
	return []Type{f32(append(slices.Clone(batch), m, n)...)}, nil
}

func transposed(t bool) string {
	if t {
		return " transposed"
	}
	return ""
}

// matrix gives the rows and columns of the (transposed) last two dimensions, and the dimensions before.
func matrix(shape []int, trans bool) (rows, cols int, batch []int) {
	k := len(shape) - 2
	rows, cols, batch = shape[k], shape[k+1], shape[:k]
	if trans {
		rows, cols = cols, rows
	}
	return rows, cols, batch
}

// FLOPs is 2 B M N K.
func (o MatMul) FLOPs(n *Node) int64 {
	_, k, _ := matrix(n.Inputs[0].Shape(), o.TransA)
	return 2 * int64(k) * int64(n.Outputs[0].typ.Elements())
}
