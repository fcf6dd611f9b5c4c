package kron

import (
	"math"

	"gputrain/buffers"
	"gputrain/buffers/array"
	"gputrain/buffers/prng"
)

// factor is one side of a block: Q, and the bound L of what it is moved by.
type factor struct {
	n        int
	diagonal bool
	q        []float64 // [n, n], or [n] for a diagonal
	l        float64
}

// newFactor is InitScale times the identity.
func newFactor(c Config, n int, diagonal bool) *factor {
	f := &factor{n: n, diagonal: diagonal, q: make([]float64, n)}
	step := 1
	if !diagonal {
		f.q, step = make([]float64, n*n), n+1
	}
	for i := range n {
		f.q[i*step] = c.nearest(c.InitScale)
	}
	return f
}

// padded is Q in f32 with zeros to a shape.
func (f *factor) padded(shape []int) []float32 {
	out := make([]float32, array.Elements(shape))
	for i, q := range f.q {
		out[i/f.n*shape[len(shape)-1]+i%f.n] = float32(q)
	}
	return out
}

// apply is QlᵀQl G QrᵀQr, for G of left.n rows; no right factor stands for the identity.
func apply(left, right *factor, g []float64) []float64 {
	cols := len(g) / left.n
	g = left.applyLeft(g, cols)
	if right == nil {
		return g
	}
	return transpose(right.applyLeft(transpose(g, left.n, cols), left.n), cols, left.n)
}

// applyLeft is QᵀQ G.
func (f *factor) applyLeft(g []float64, cols int) []float64 {
	if !f.diagonal {
		return matmul(transpose(f.q, f.n, f.n), matmul(f.q, g, f.n), f.n)
	}
	out := make([]float64, len(g))
	for i := range g {
		q := f.q[i/cols]
		out[i] = q * q * g[i]
	}
	return out
}

// update moves Q and L by P, whose rows belong to this side; s is what T = P Pᵀ is wanted to be times the identity.
func (f *factor) update(c Config, p []float64, s, rate float64, key, rounding prng.Key) {
	draws := [2]prng.Key{key, key}
	if c.Method == Skew {
		draws = [2]prng.Key{key.FoldIn(0), key.FoldIn(1)}
	}
	var t []float64
	var bound float64
	if f.diagonal {
		t = rowSquares(p, f.n)
		bound = largest(t)
	} else {
		t = matmul(p, transpose(p, f.n, len(p)/f.n), f.n)
		bound = twinBound(draws[0], t, f.n, false, c)
	}
	l := bound + s
	f.l = float64(float32(max(lipschitzMemory*f.l+(1-lipschitzMemory)*l, l)))
	z := rate / f.l
	if c.Method == Quad {
		z = rate / (2 * f.l)
	}
	if f.diagonal {
		for i := range f.q {
			w := 1 - z*(t[i]-s)
			if c.Method == Quad {
				w *= w
			}
			f.q[i] = c.round(f.q[i]*w, rounding, 0, i)
		}
		return
	}
	w := t // becomes I - z (T - s I)
	for i := range w {
		w[i] *= -z
	}
	for i := range f.n {
		w[i*f.n+i] += 1 + z*s
	}
	q := matmul(w, f.q, f.n)
	if c.Method == Quad {
		q = matmul(q, w, f.n)
		q = half(q, transpose(q, f.n, f.n))
	} else {
		q = procrustesTwin(draws[1], q, f.n, c)
	}
	for i := range q {
		row, col := i/f.n, i%f.n
		if c.Method == Quad {
			row, col = min(row, col), max(row, col) // so that the stored factor is symmetric
		}
		f.q[i] = c.round(q[i], rounding, row, col)
	}
}

// lipschitzMemory is what L keeps of its last value where it falls.
const lipschitzMemory = 0.95

func (c Config) isBF16() bool { return c.DType == buffers.BF16 }

// nearest rounds to the storage of factors.
func (c Config) nearest(x float64) float64 {
	if c.isBF16() {
		return float64(array.DecodeBF16(array.EncodeBF16(float32(x))))
	}
	return float64(float32(x))
}

// roundingKey is the key of the random bits that round the factor of a side (0 left, 1 right) of the block with this
// key.
func roundingKey(block prng.Key, side uint32) prng.Key {
	y0, y1 := block.Hash(1, side)
	return prng.Key{y0, y1}
}

// round rounds element (row, col) of a factor to its storage; a diagonal is a row. With Rules.StochasticRounding a bf16 is rounded
// by adding 16 random bits below the last kept one: of the four halves of threefry(key, (row, col/4)), low halves first, number col%4.
func (c Config) round(x float64, key prng.Key, row, col int) float64 {
	bits := math.Float32bits(float32(x))
	if !c.isBF16() || !c.Rules.StochasticRounding || bits&0x7f800000 == 0x7f800000 {
		return c.nearest(x)
	}
	y0, y1 := key.Hash(uint32(row), uint32(col/4))
	noise := [4]uint32{y0 & 0xffff, y0 >> 16, y1 & 0xffff, y1 >> 16}[col%4]
	return float64(math.Float32frombits((bits + noise) &^ 0xffff))
}
