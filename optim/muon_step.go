package optim

import (
	"gputrain/gpu"
	"gputrain/kron"
)

// x is tile (i, k) of all matrices of a chunk.
func (c muonChunk) x(set []*gpu.Buffer, i, k int) kron.Stack {
	return kron.Stack{Range: set[c.tile(i, k)].All(), Count: c.count, Rows: c.height, Cols: c.width}
}

// square is a stack of small matrices, side by side as high as a tile.
func (c muonChunk) square(b *gpu.Buffer) kron.Stack {
	return kron.Stack{Range: b.All(), Count: c.count, Rows: c.height, Cols: c.height}
}

// block is tile (i, j) of a symmetric matrix, and whether it is the transposed of the one that is kept.
func (c muonChunk) block(set []*gpu.Buffer, i, j int) (kron.Stack, bool) {
	return c.square(set[c.triangle(min(i, j), max(i, j))]), i > j
}

// scaled takes the coefficients of the first step.
func (w *orthogonalState) scaled(p kron.Product, scale int, first bool) kron.Product {
	if first {
		p.Coefficients = w.scales[scale].All()
	}
	return p
}

// recordSteps records all Newton-Schulz steps and tells where they end.
func (w *orthogonalState) recordSteps(rec *gpu.Recording, c muonChunk) []*gpu.Buffer {
	if c.small(w.Steps) {
		w.recordSmall(rec, c, w.stacks[0], w.stacks[1])
		return w.stacks[1]
	}
	from := w.stacks[0]
	for step := range w.Steps {
		to := w.stacks[1+step%2]
		w.recordStep(rec, c, from, to, step == 0)
		from = to
	}
	return from
}

// recordGram records A = X Xᵀ.
func (w *orthogonalState) recordGram(rec *gpu.Recording, c muonChunk, from []*gpu.Buffer, first bool) {
	for j := range c.down {
		for i := range j + 1 {
			var products []kron.Product
			for k := range c.across {
				p := kron.Product{A: c.x(from, i, k), B: c.x(from, j, k), TransB: true, Symmetric: i == j, Alpha: 1, Beta: 1}
				products = append(products, w.scaled(p, 0, first))
			}
			target, _ := c.block(w.grams[0], i, j)
			w.recordSum(rec, products, target)
		}
	}
}

// recordSmall records all steps on matrices that are much longer than high. Every step multiplies X by Q = a I + b A + c A², and with it A by
// Q twice; all Q and A commute and are symmetric, so that the product P of all Q is made first, of small matrices, and X is read twice
// and written once.
func (w *orthogonalState) recordSmall(rec *gpu.Recording, c muonChunk, from, to []*gpu.Buffer) {
	w.recordGram(rec, c, from, true)
	a, q := c.square(w.grams[0][0]), c.square(w.grams[1][0])
	free, p := c.square(w.small[0]), c.square(w.small[1])
	symmetric := func(left, right, out kron.Stack) {
		kron.Product{A: left, B: right, C: out, Symmetric: true, Alpha: 1}.Record(rec, w.Device())
	}
	for step := range w.Steps {
		kept := a
		square := kron.Product{A: a, B: a, C: q, D: &kept, Symmetric: true, Alpha: float32(w.Coefficients[2]), Beta: float32(w.Coefficients[1])}
		square.Record(rec, w.Device())
		w.recordDiagonal(rec, c, q)
		if step < w.Steps-1 { // A <- Q A Q
			symmetric(q, a, free)
			symmetric(free, q, a)
		}
		if step == 0 {
			p, q = q, p
			continue
		}
		symmetric(q, p, free)
		p, free = free, p
	}
	for k := range c.across {
		x := kron.Product{A: p, B: c.x(from, 0, k), C: c.x(to, 0, k), Coefficients: w.scales[2].All()}
		x.Record(rec, w.Device())
	}
}

// recordDiagonal adds the first coefficient to the diagonals of a stack.
func (w *orthogonalState) recordDiagonal(rec *gpu.Recording, c muonChunk, q kron.Stack) {
	n := uint32(c.count * c.height)
	params := struct {
		Entries, Side uint32
		A             float32
	}{n, uint32(c.height), float32(w.Coefficients[0])}
	rec.Dispatch(operatorKernel("muon_diagonal", "muon_diagonal", nil, nil), gpu.Linear(uint64(n), lanes, w.Device().Limits()), params, q.Range)
}

// recordStep records one Newton-Schulz step on tiles. The first one divides by the norm on its way: with s = 1/(|M| + eps) of each
// matrix, A = s² M Mᵀ and X = s B M + s a M.
func (w *orthogonalState) recordStep(rec *gpu.Recording, c muonChunk, from, to []*gpu.Buffer, first bool) {
	a, b, cc := float32(w.Coefficients[0]), float32(w.Coefficients[1]), float32(w.Coefficients[2])
	w.recordGram(rec, c, from, first)
	for j := range c.down {
		for i := range j + 1 {
			var products []kron.Product
			for k := range c.down {
				p := kron.Product{Symmetric: i == j, Alpha: cc, Beta: 1}
				p.A, p.TransA = c.block(w.grams[0], i, k)
				p.B, p.TransB = c.block(w.grams[0], k, j)
				if k == 0 {
					kept, _ := c.block(w.grams[0], i, j)
					p.D, p.Beta = &kept, b
				}
				products = append(products, p)
			}
			target, _ := c.block(w.grams[1], i, j)
			w.recordSum(rec, products, target)
		}
	}
	for i := range c.down {
		for k := range c.across {
			var products []kron.Product
			for j := range c.down {
				p := w.scaled(kron.Product{B: c.x(from, j, k), Alpha: 1, Beta: 1}, 2, first)
				p.A, p.TransA = c.block(w.grams[1], i, j)
				if j == 0 {
					kept := c.x(from, i, k)
					p.D, p.Beta = &kept, a
					p = w.scaled(p, 1, first)
				}
				products = append(products, p)
			}
			w.recordSum(rec, products, c.x(to, i, k))
		}
	}
}

// recordSum records products that add up to a target: each takes the sum so far for its D.
func (w *orthogonalState) recordSum(rec *gpu.Recording, products []kron.Product, target kron.Stack) {
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
		p.Record(rec, w.Device())
	}
}
