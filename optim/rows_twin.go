package optim

import "math"

// rowNorms are what a Twin's number learns of its row and matrix; the zero value is of a leaf that a rowRule is not for.
type rowNorms struct {
	factor  float64 // of the floor, that of the row or of the matrix
	sphere  bool    // the matrix keeps its norm
	radius  float64 // |w|
	length  float64 // |u| behind the floor, of the matrix
	reached float64 // |z|
}

// rowOf is the row of element k of a leaf.
func (g rowsOf) rowOf(k int) int {
	if g.columns {
		return k % g.inner
	}
	return k / g.inner
}

// rowNorms takes the norms that a step with a rowRule asks for, of the direction u = -U/eta of the update U.
func (w *Twin) rowNorms(s step, updates [][]float64, scalars []float64) {
	w.rows = make([][]rowNorms, len(w.leaves))
	for leaf, g := range w.table.rows {
		eta := scalars[s.firstScalar+s.rows.eta] * float64(g.rate)
		rows := make([]rowNorms, g.count)
		w.rows[leaf] = rows
		if g.count == 0 || eta == 0 {
			for i := range rows {
				rows[i].factor = 1
			}
			continue
		}
		p := w.params[leaf]
		direction := func(k int) float64 { return -updates[leaf][k] / eta }
		norms := func(n int, of func(k int) int, squares func(k int) float64) []float64 {
			out := make([]float64, n)
			for k := range p {
				out[of(k)] += squares(k)
			}
			for i := range out {
				out[i] = math.Sqrt(out[i])
			}
			return out
		}
		matrixOf := func(k int) int { return k / g.perMatrix }
		weight := func(k int) float64 { return p[k] * p[k] }
		floor := func(w, u float64) float64 {
			return math.Max(1, s.rows.floor*math.Max(w, floorLeast)/math.Max(u, floorLeast))
		}
		ofRow, ofMatrix := norms(g.count, g.rowOf, weight), norms(g.matrices, matrixOf, weight)
		step := norms(g.count, g.rowOf, func(k int) float64 { return direction(k) * direction(k) })
		whole := norms(g.matrices, matrixOf, func(k int) float64 { return direction(k) * direction(k) })
		factor := func(k int) float64 {
			switch {
			case g.byRow:
				return floor(ofRow[g.rowOf(k)], step[g.rowOf(k)])
			case g.byMatrix:
				return floor(ofMatrix[matrixOf(k)], whole[matrixOf(k)])
			}
			return 1
		}
		length := norms(g.matrices, matrixOf, func(k int) float64 { return math.Pow(factor(k)*direction(k), 2) })
		reached := norms(g.matrices, matrixOf, func(k int) float64 {
			m := matrixOf(k)
			return math.Pow(p[k]-eta*ofMatrix[m]*factor(k)*direction(k)/math.Max(length[m], sphereLeast), 2)
		})
		for k := range p {
			m := matrixOf(k)
			rows[g.rowOf(k)] = rowNorms{factor(k), g.onSphere, ofMatrix[m], length[m], reached[m]}
		}
	}
}
