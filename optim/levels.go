package optim

import (
	"cmp"
	"math"
	"slices"

	"gputrain/buffers"
	"gputrain/internal/dynamic8"
)

// A slot in eight bits has a code for each element: of the level that is nearest to the element over the largest magnitude of its block. Blocks and
// levels are those of bitsandbytes; blocks are counted along a leaf, so that a stage, or a replica that has the leaf, keeps the same codes.
const (
	codeBlock = 256
	codeLeast = 4096 // elements of the smallest leaf in codes (bitsandbytes: min_8bit_size); smaller ones are in f32
	codeFLOPs = 70   // operations of shared/dynamic8.wgsl a number: 30 to read it, 40 to write it
)

// levels are the numbers of [-1, 1] that codes stand for, ascending: dynamic8.Map, or dynamic8.Unsigned. -1 is none of them.
type levels [256]float32

// code is that of the nearest level; halfway between two it is the one farther from 0. Twin of dynamic8_signed and dynamic8_unsigned.
func (l *levels) code(x float64) byte {
	above, _ := slices.BinarySearchFunc(l[:], x, func(level float32, x float64) int { return cmp.Compare(float64(level), x) })
	switch {
	case above == 0:
		return 0
	case above == len(l):
		return 255
	}
	low, high := x-float64(l[above-1]), float64(l[above])-x
	if low < high || low == high && x < 0 {
		return byte(above - 1)
	}
	return byte(above)
}

// coded are the numbers of a leaf as a slot in eight bits keeps them.
type coded struct {
	codes  []byte
	maxima []float64
}

// encode rounds the numbers of a leaf to what their codes stand for.
func (l *levels) encode(x []float64) (c coded) {
	for block := range slices.Chunk(x, codeBlock) {
		top := 0.0
		for _, v := range block {
			top = max(top, math.Abs(float64(float32(v))))
		}
		if top < 0x1p-126 { // f32 has no more than some bits of it, and many devices none
			top = 0
		}
		c.maxima = append(c.maxima, top)
		for i, v := range block {
			code := l.code(v / cmp.Or(top, 1))
			c.codes = append(c.codes, code)
			block[i] = float64(l[code] * float32(top))
		}
	}
	return c
}

// inCodes tells whether a slot keeps a leaf in codes.
func (s Slot) inCodes(l buffers.Leaf) bool { return s.DType == buffers.U8 && l.Elements() >= codeLeast }

func (s Slot) levels() *levels {
	if s.Unsigned {
		return (*levels)(&dynamic8.Unsigned)
	}
	return (*levels)(&dynamic8.Map)
}

// hosts are codes and maxima as tensors of a checkpoint have them.
func (c coded) hosts(name string, shape []int) []buffers.Host {
	codes, maxima := make([]float32, len(c.codes)), make([]float32, len(c.maxima))
	for i, code := range c.codes {
		codes[i] = float32(code)
	}
	for i, top := range c.maxima {
		maxima[i] = float32(top)
	}
	return []buffers.Host{{Path: name, Shape: shape, Data: codes}, {Path: buffers.MaximaOf(name), Shape: []int{len(maxima)}, Data: maxima}}
}
