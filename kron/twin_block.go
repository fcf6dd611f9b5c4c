package kron

import (
	"math"

	"gputrain/buffers/prng"
)

// twinBlock is a block with its state.
type twinBlock struct {
	config      Config
	leaf        Matrix
	block       Block
	rows, cols  int     // of G: the valid sizes, or for a vector its length and 1
	left, right *factor // right is nil for a vector
	rms         float64 // running RMS of G, with Rules.RelativeDamping
}

func newTwinBlock(c Config, m Matrix, b Block) *twinBlock {
	p := &twinBlock{config: c, leaf: m, block: b, rows: b.Rows, cols: b.Cols}
	switch m.Kind {
	case Vector:
		p.rows, p.cols = b.Cols, 1
		p.left = newFactor(c, p.rows, true)
		return p
	case Dense:
		p.left, p.right = newFactor(c, b.Rows, false), newFactor(c, b.Cols, false)
	case diagonalBoth:
		p.left, p.right = newFactor(c, b.Rows, true), newFactor(c, b.Cols, true)
	case diagonalLeft:
		p.left, p.right = newFactor(c, b.Rows, true), newFactor(c, b.Cols, false)
	case diagonalRight:
		p.left, p.right = newFactor(c, b.Rows, false), newFactor(c, b.Cols, true)
	}
	return p
}

// read copies the block out of its leaf, write puts it back.
func (b *twinBlock) read(leaf []float64) []float64 {
	var g []float64
	for r := range b.block.Rows {
		at := b.at(r)
		g = append(g, leaf[at:at+b.block.Cols]...)
	}
	return g
}

func (b *twinBlock) write(leaf, g []float64) {
	for r := range b.block.Rows {
		copy(leaf[b.at(r):], g[r*b.block.Cols:(r+1)*b.block.Cols])
	}
}

// at is where row r of the block begins in its leaf.
func (b *twinBlock) at(r int) int {
	return (b.block.Batch*b.leaf.Rows+b.block.Row+r)*b.leaf.Cols + b.block.Col
}

// refresh is update n of the factors.
func (b *twinBlock) refresh(n int64, g []float64) {
	keys := b.keys(n)
	if b.right != nil && balances(n) {
		balance(b.config, b.left, b.right)
	}
	noise := b.config.NoiseScale
	if b.config.Rules.RelativeDamping {
		r := rootMeanSquare(g)
		b.rms = float64(float32(max(r, rmsDecay*b.rms)))
		if !(r*r > tiny) {
			return // no gradient: noise alone would make the factors grow without bound
		}
		noise = b.config.Damping * b.rms
	}
	noisy := make([]float64, len(g))
	for r := range b.rows {
		for c := range b.cols {
			i := r*b.cols + c
			noisy[i] = g[i] + noise*b.config.normal(keys.noise, r*b.stride()+c)
		}
	}
	p := apply(b.left, b.right, noisy)

	// Both sides follow the same P. s is mn/m on the left and mn/n on the right.
	rate := b.config.rate(n)
	if b.config.Rules.HalvedPair && b.right != nil {
		rate /= 2
	}
	b.left.update(b.config, p, float64(b.cols), rate, keys.left, keys.rounding[0])
	if b.right != nil {
		b.right.update(b.config, transpose(p, b.rows, b.cols), float64(b.rows), rate, keys.right, keys.rounding[1])
	}
}

// rmsDecay is the part of a running RMS that is left after an update with a smaller gradient.
const rmsDecay = 0.999

// stride is the step from row to row of the noise of a block: blocks are counted as if they were padded to BlockSize.
func (b *twinBlock) stride() int {
	switch b.leaf.Kind {
	case Dense, diagonalLeft:
		return b.config.BlockSize
	}
	return b.cols
}

// normal is draw i of the standard normal distribution, of the type that factors are stored in.
func (c Config) normal(key prng.Key, i int) float64 {
	if c.isBF16() {
		return float64(key.NormalBF16(uint64(i)))
	}
	return float64(key.Normal(uint64(i)))
}

// balance gives both factors of a block one largest magnitude; their product stays. A factor of zeros, and its partner, stay as they are.
func balance(c Config, left, right *factor) {
	l, r := largest(left.q), largest(right.q)
	if !(l > tiny && r > tiny) {
		return
	}
	for i, x := range left.q {
		left.q[i] = c.nearest(x * math.Sqrt(l*r) / l)
	}
	for i, x := range right.q {
		right.q[i] = c.nearest(x * math.Sqrt(l*r) / r)
	}
}

// blockKeys are the keys of a block in one update.
type blockKeys struct {
	noise, left, right prng.Key
	rounding           [2]prng.Key // left, right
}

// keys derives them: PRNGKey(42..46 by kind) folded with n, with Rules.IndependentNoise outside the dense stack also
// with the index of the leaf, then split by Block.Stack. A vector draws noise with that key. Other blocks split it into
// a key for the sides and a key for the noise, and dense blocks split the first again by side; with Rules.AlignedBound
// both sides take the left side's key.
func (b *twinBlock) keys(n int64) blockKeys {
	key := prng.NewKey(baseKey(b.leaf.Kind)).FoldIn(uint32(n))
	if b.config.Rules.IndependentNoise && b.leaf.Kind != Dense {
		key = key.FoldIn(uint32(b.leaf.Index))
	}
	key = key.FoldIn(uint32(b.block.Stack)) // which is split(key)[Stack]
	k := blockKeys{noise: key, rounding: [2]prng.Key{roundingKey(key, 0), roundingKey(key, 1)}}
	if b.leaf.Kind == Vector {
		return k
	}
	sides := key.FoldIn(0)
	k.noise = key.FoldIn(1)
	k.left, k.right = sides, sides
	if b.leaf.Kind == Dense {
		k.left, k.right = sides.FoldIn(0), sides.FoldIn(1)
		if b.config.Rules.AlignedBound {
			k.right = k.left
		}
	}
	return k
}

// baseKey is the seed of the draws of a kind.
func baseKey(k Kind) uint64 {
	return map[Kind]uint64{Dense: 42, diagonalBoth: 43, diagonalLeft: 44, diagonalRight: 45, Vector: 46}[k]
}
