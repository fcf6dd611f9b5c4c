package optim

import (
	"hash/fnv"
	"math"

	"gputrain/buffers/prng"
)

// Stochastic rounding of a bf16 slot adds 16 random bits below the last kept one and cuts off. Threefry at (path,
// update, slot, element) gives the bits of an element: the same however the leaves are placed, and on however many
// stages.

// pathKey is the word that stands for a path in the key of its random bits: FNV-1a.
func pathKey(path string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(path)) // never fails
	return h.Sum32()
}

// dithered is the twin of the rounding in optim_update.wgsl: x, as an f32, rounded to a bf16 at random.
func dithered(x float64, path string, update uint32, slot, element int) float64 {
	bits := math.Float32bits(float32(x))
	if bits&0x7f800000 == 0x7f800000 {
		return x
	}
	y0, y1 := prng.Key{pathKey(path), update}.Hash(uint32(slot), uint32(element/4))
	noise := [4]uint32{y0 & 0xffff, y0 >> 16, y1 & 0xffff, y1 >> 16}[element%4]
	return float64(math.Float32frombits((bits + noise) &^ 0xffff))
}
