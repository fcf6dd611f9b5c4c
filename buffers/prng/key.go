// Package prng is JAX's counter-based random number generator: threefry-2x32 with 20 rounds and the key derivation of
// jax_threefry_partitionable (the default since JAX 0.5), in 32-bit mode. A draw is a pure function of a key and an index, so that
// streams need no state, no order, and are the same on every device: the twin in WGSL is shaders/shared/threefry.wgsl.
package prng

import "math/bits"

// Key selects a stream. Derive keys by FoldIn and Split; use a key either to derive or to draw.
type Key [2]uint32

// NewKey makes the key of a seed as jax.random.PRNGKey does in 32-bit mode: only the low 32 bits of the seed count.
func NewKey(seed uint64) Key { return Key{0, uint32(seed)} }

// Hash is threefry-2x32 with 20 rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3") of the
// counter (x0, x1).
func (k Key) Hash(x0, x1 uint32) (y0, y1 uint32) {
	keys := [3]uint32{k[0], k[1], k[0] ^ k[1] ^ 0x1BD11BDA}
	rotations := [2][4]int{{13, 15, 26, 6}, {17, 29, 16, 24}}
	x0 += keys[0]
	x1 += keys[1]
	for group := range uint32(5) {
		for _, r := range rotations[group%2] {
			x0 += x1
			x1 = bits.RotateLeft32(x1, r) ^ x0
		}
		x0 += keys[(group+1)%3]
		x1 += keys[(group+2)%3] + group + 1
	}
	return x0, x1
}

// FoldIn derives a key from a number.
func (k Key) FoldIn(data uint32) Key {
	y0, y1 := k.Hash(0, data)
	return Key{y0, y1}
}

// Split derives n keys, the first of which do not depend on n.
func (k Key) Split(n int) []Key {
	out := make([]Key, n)
	for i := range out {
		out[i][0], out[i][1] = k.Hash(uint32(uint64(i)>>32), uint32(i))
	}
	return out
}

// Bits32 is element i, in row-major order, of an array of random words.
func (k Key) Bits32(i uint64) uint32 {
	y0, y1 := k.Hash(uint32(i>>32), uint32(i))
	return y0 ^ y1
}
