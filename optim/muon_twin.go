package optim

import (
	"fmt"
	"math"
)

// orthogonal is the operator of scaleByMuon: Newton-Schulz steps on each leaf, a matrix. It has no state without Even.
type orthogonal struct{ muonOptions }

// muonSide is the side of the square matrices whose operations are shown as the cost.
const muonSide = 768

// cost counts each array of a dispatch once: a matrix to its stack and back, its norm, and three products a step, of which those for A and
// A² compute half, by symmetry.
func (o orthogonal) Cost() Cost {
	steps := float64(o.Steps)
	c := Cost{TrafficBytes: 20 + 28*steps, FLOPs: 2 + 4*muonSide*steps}
	if o.Even > 0 { // sums along columns, and their product; moments are of one side
		c.TrafficBytes, c.FLOPs = c.TrafficBytes+12, c.FLOPs+3
	}
	return c
}

type orthogonalTwin struct {
	orthogonal
	Scene
	moments [][]float64 // by leaf, with Even
}

// Work counts the steps of each matrix, each in one tile.
func (o orthogonal) Work(s Scene) ([]float64, error) {
	if err := s.matrices(); err != nil {
		return nil, err
	}
	out := make([]float64, len(s.Leaves))
	for i, l := range s.Leaves {
		if s.Chosen[i] && l.Elements() > 0 {
			out[i] = newMuonChunk(l, math.MaxInt).work(o.Steps)
		}
	}
	return out, nil
}

func (o orthogonal) Twin(s Scene) (OperatorTwin, error) { return newOrthogonalTwin(o, s), s.matrices() }

// matrices refuses leaves that are none.
func (s Scene) matrices() error {
	for i, l := range s.Leaves {
		if s.Chosen[i] && len(l.Shape) != 2 {
			return fmt.Errorf("leaf %q: shape %v, wanted two dimensions", l.Path, l.Shape)
		}
	}
	return nil
}

func (w *orthogonalTwin) Update(_ int64, u, _ [][]float64, skip bool) {
	for i, l := range w.Leaves {
		if w.Chosen[i] && l.Elements() > 0 {
			copy(u[i], w.step(u[i], l.Shape[0], l.Shape[1]))
			if w.Even > 0 {
				w.even(i, u[i], skip)
			}
		}
	}
}

// step is the definition, without transposing: (X Xᵀ) X = X (Xᵀ X), so that a tall matrix takes the small of the two products too.
func (w *orthogonalTwin) step(m []float64, rows, cols int) []float64 {
	norm := 0.0
	for _, x := range m {
		norm += x * x
	}
	norm = math.Sqrt(norm) + w.Eps
	x := make([]float64, len(m))
	for i := range m {
		x[i] = m[i] / norm
	}
	a, b, c := w.Coefficients[0], w.Coefficients[1], w.Coefficients[2]
	for range w.Steps {
		tall := rows > cols
		side, gram := rows, product(x, transposed(x, rows, cols), rows, cols, rows)
		if tall {
			side, gram = cols, product(transposed(x, rows, cols), x, cols, rows, cols)
		}
		square := product(gram, gram, side, side, side)
		for i := range gram {
			gram[i] = b*gram[i] + c*square[i]
		}
		var more []float64
		if tall {
			more = product(x, gram, rows, cols, cols)
		} else {
			more = product(gram, x, rows, rows, cols)
		}
		for i := range x {
			x[i] = a*x[i] + more[i]
		}
	}
	if w.Adaptive {
		dot := 0.0
		for i := range x {
			dot += m[i] * x[i]
		}
		for i := range x {
			x[i] *= dot
		}
	}
	return x
}

// product is [m, k] times [k, n].
func product(a, b []float64, m, k, n int) []float64 {
	out := make([]float64, m*n)
	for i := range m {
		for l := range k {
			for j := range n {
				out[i*n+j] += a[i*k+l] * b[l*n+j]
			}
		}
	}
	return out
}

func transposed(a []float64, rows, cols int) []float64 {
	out := make([]float64, len(a))
	for i := range rows {
		for j := range cols {
			out[j*rows+i] = a[i*cols+j]
		}
	}
	return out
}
