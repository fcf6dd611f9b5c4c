package optim

import (
	"gputrain/gpu"
	"gputrain/kron"
)

// recordStep records one Newton-Schulz step on tiles. The first one divides by the norm on its way: with s = 1/(|M| + eps) of each
// matrix, A = s² M Mᵀ and X = s B M + s a M.
func (w *orthogonalState) recordStep(rec *gpu.Recording, c muonChunk, from, to []*gpu.Buffer, first bool) error {
	a, b, cc := float32(w.Coefficients[0]), float32(w.Coefficients[1]), float32(w.Coefficients[2])
	stack := func(b *gpu.Buffer, cols int) kron.Stack {
		return kron.Stack{Range: b.All(), Count: c.count, Rows: c.height, Cols: cols}
	}
	x := func(set []*gpu.Buffer, i, k int) kron.Stack { return stack(set[c.tile(i, k)], c.width) }
	// block (i, j) of a symmetric matrix, and whether it is the transposed of the one that is kept.
	block := func(set []*gpu.Buffer, i, j int) (kron.Stack, bool) {
		return stack(set[c.triangle(min(i, j), max(i, j))], c.height), i > j
	}
	scaled := func(p kron.Product, scale int) kron.Product {
		if first {
			p.Coefficients = w.scales[scale].All()
		}
		return p
	}
	for j := range c.down {
		for i := range j + 1 {
			var products []kron.Product
			for k := range c.across {
				products = append(products, scaled(kron.Product{A: x(from, i, k), B: x(from, j, k), TransB: true, Symmetric: i == j, Alpha: 1, Beta: 1}, 0))
			}
			target, _ := block(w.grams[0], i, j)
			if err := w.recordSum(rec, products, target); err != nil {
				return err
			}
		}
	}
	for j := range c.down {
		for i := range j + 1 {
			var products []kron.Product
			for k := range c.down {
				p := kron.Product{Symmetric: i == j, Alpha: cc, Beta: 1}
				p.A, p.TransA = block(w.grams[0], i, k)
				p.B, p.TransB = block(w.grams[0], k, j)
				if k == 0 {
					kept, _ := block(w.grams[0], i, j)
					p.D, p.Beta = &kept, b
				}
				products = append(products, p)
			}
			target, _ := block(w.grams[1], i, j)
			if err := w.recordSum(rec, products, target); err != nil {
				return err
			}
		}
	}
	for i := range c.down {
		for k := range c.across {
			var products []kron.Product
			for j := range c.down {
				p := scaled(kron.Product{B: x(from, j, k), Alpha: 1, Beta: 1}, 2)
				p.A, p.TransA = block(w.grams[1], i, j)
				if j == 0 {
					kept := x(from, i, k)
					p.D, p.Beta = &kept, a
					p = scaled(p, 1)
				}
				products = append(products, p)
			}
			if err := w.recordSum(rec, products, x(to, i, k)); err != nil {
				return err
			}
		}
	}
	return nil
}

// recordSum records products that add up to a target: each takes the sum so far for its D.
func (w *orthogonalState) recordSum(rec *gpu.Recording, products []kron.Product, target kron.Stack) error {
	var sum kron.Stack
	for n, p := range products {
		if n > 0 {
			so := sum
			p.D = &so
		}
		sum = target
		if n < len(products)-1 {
			sum.Range = w.sums[n%2].All()
		}
		p.C = sum
		if err := p.Record(rec, w.device); err != nil {
			return err
		}
	}
	return nil
}
