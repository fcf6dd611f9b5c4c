package kron

import "gputrain/buffers"

// Work counts the multiply-adds of an update of a leaf that refreshes its factors. What is made element by element counts nothing.
//
//	block [h, w]       twice QlᵀQl G QrᵀQr, two Grams, and what both factors take
//	block [l, w]       with a diagonal for l: twice G QrᵀQr, a Gram, and what the factor takes
//	factor [n, n]      T Q, its bound and QᵀQ; Quad: W Q W; Skew: R R, the turn and its bound; of a block, in bf16, QᵀQ once more
//
// Of a product that is symmetric half is made.
func (p *Plan) Work(m Matrix) float64 {
	sum := 0.0
	for _, b := range p.BlocksOf(m) {
		h, w := float64(b.Rows), float64(b.Cols)
		switch m.Kind {
		case Dense:
			sum += 2.5*(h*h*w+h*w*w) + p.factorWork(h) + p.factorWork(w)
			if p.Config.DType == buffers.BF16 {
				sum += (h*h*h + w*w*w) / 2
			}
		case DiagonalLeft:
			sum += 2.5*h*w*w + p.factorWork(w)
		case DiagonalRight:
			sum += 2.5*h*h*w + p.factorWork(h)
		}
	}
	return sum
}

// factorWork is the work of the step of a dense factor of side n.
func (p *Plan) factorWork(n float64) float64 {
	bound := boundRows * boundProducts * n * n
	if p.Config.Method == Skew {
		return 3*n*n*n + 2*bound
	}
	return 2*n*n*n + bound
}
