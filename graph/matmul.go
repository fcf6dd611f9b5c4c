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
	F16    bool `json:"f16,omitempty"` // A and B are rounded to f16; see RoundProducts
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
	m, ka, batchA := Matrix(in[0].Shape(), o.TransA)
	kb, n, batchB := Matrix(in[1].Shape(), o.TransB)
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
	return []Type{F32(append(slices.Clone(batch), m, n)...)}, nil
}

func transposed(t bool) string {
	if t {
		return " transposed"
	}
	return ""
}

// Matrix gives the rows and columns of the (transposed) last two dimensions, and the dimensions before.
func Matrix(shape []int, trans bool) (rows, cols int, batch []int) {
	k := len(shape) - 2
	rows, cols, batch = shape[k], shape[k+1], shape[:k]
	if trans {
		rows, cols = cols, rows
	}
	return rows, cols, batch
}

// FLOPs is 2 B M N K.
func (o MatMul) FLOPs(n *Node) int64 {
	_, k, _ := Matrix(n.Inputs[0].Shape(), o.TransA)
	return 2 * int64(k) * int64(n.Outputs[0].typ.Elements())
}

// Gradient takes the form that needs no transposed copy: for A B, dA = dY B^T and dB = A^T dY. The gradient of a matrix shared by
// a batch is one product over all rows of the batch; where these are the last axis, a batched product summed over the batch.
func (o MatMul) Gradient(g *Graph, n *Node, dy []*Value) []*Value {
	a, b, d := n.Inputs[0], n.Inputs[1], dy[0]
	batch := len(d.Shape()) - 2
	var da, db *Value
	if g.wants(a) {
		switch {
		case o.TransA:
			da = g.MatMul(b, d, false, true)
		case o.TransB:
			da = g.MatMul(d, b, false, false)
		default:
			da = g.MatMul(d, b, false, true)
		}
		da = g.sumBatch(da, len(a.Shape())-2)
	}
	if g.wants(b) {
		if batch > 0 && len(b.Shape()) == 2 && !o.TransA {
			a, d = g.flattened(a), g.flattened(d)
		}
		switch {
		case o.TransA:
			db = g.MatMul(a, d, false, false)
		case o.TransB:
			db = g.MatMul(d, a, true, false)
		default:
			db = g.MatMul(a, d, true, false)
		}
		db = g.sumBatch(db, len(b.Shape())-2)
	}
	return []*Value{da, db}
}

// sumBatch sums over the leading axes down to the given number of batch axes.
func (g *Graph) sumBatch(v *Value, batch int) *Value {
	if extra := len(v.Shape()) - 2 - batch; v.node != nil && extra > 0 {
		return g.Sum(v, axesTo(extra)...)
	}
	return v
}

// flattened is [..,K] as [rows,K].
func (g *Graph) flattened(v *Value) *Value {
	if v.node == nil {
		return v
	}
	n, k := Rows(v.Shape())
	return g.Reshape(v, n, k)
}

// Eval is the definition.
func (o MatMul) Eval(node *Node, in []*Array, _ *Env) []*Array {
	a, b, y := o.rounded(in[0]), o.rounded(in[1]), NewArray(node.Outputs[0].Shape())
	m, k, batchA := Matrix(a.Shape, o.TransA)
	_, n, batchB := Matrix(b.Shape, o.TransB)
	for i := range Elements(y.Shape[:len(y.Shape)-2]) {
		ai, bi := i*m*k, i*k*n
		if len(batchA) == 0 {
			ai = 0
		}
		if len(batchB) == 0 {
			bi = 0
		}
		product(y.Data[i*m*n:(i+1)*m*n], a.Data[ai:ai+m*k], b.Data[bi:bi+k*n], m, k, n, o.TransA, o.TransB)
	}
	return []*Array{y}
}

// rounded is an operand as it is multiplied.
func (o MatMul) rounded(a *Array) *Array {
	if o.F16 {
		return roundF16(a)
	}
	return a
}

// product adds A B to y [m,n]: y[i,j] += sum over l of A[i,l] B[l,j].
func product(y, a, b []float64, m, k, n int, transA, transB bool) {
	if transB {
		b = swapped(b, n, k)
	}
	if transA {
		a = swapped(a, k, m)
	}
	for i := range m {
		row := y[i*n : (i+1)*n]
		for l, x := range a[i*k : (i+1)*k] {
			for j, z := range b[l*n : (l+1)*n] {
				row[j] += x * z
			}
		}
	}
}

// swapped is the transpose of x [m,n].
func swapped(x []float64, m, n int) []float64 {
	t := make([]float64, len(x))
	for i := range m {
		for j := range n {
			t[j*m+i] = x[i*n+j]
		}
	}
	return t
}
