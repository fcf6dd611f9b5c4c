// Package nf4 keeps matrices in four bits an element, as bitsandbytes does (Dettmers et al. 2023, QLoRA, arXiv:2305.14314):
// each element is the code of one of 16 levels, times the largest magnitude of its block. Blocks lie along the flattened
// matrix and cross rows. Maxima are f32, or nested: codes of eight bits with a largest magnitude for 256 of them.
//
// It knows no device and no model. The trees of package buffers keep leaves in this form, and products read them.
package nf4

import "math"

// Block is how many elements have a maximum in common here. Files may have longer blocks.
const Block = 64

// Levels are what codes stand for in a block whose largest magnitude is 1.
var Levels = [16]float32{
	-1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0,
	0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1,
}

const zero = 7 // the code of the level 0

// Blocks is how many blocks n elements have.
func Blocks(n int) int { return (n + Block - 1) / Block }

// Quantize gives the codes of x, two a byte with the first in the high half, and the maxima of its blocks: to the nearest
// level, of two the lower. A block of zeros has codes of 0. Places after an odd end are 0 in the codes.
func Quantize(codes []byte, maxima, x []float32) {
	clear(codes)
	for b := range maxima {
		block := x[b*Block : min(len(x), (b+1)*Block)]
		top := float32(0)
		for _, v := range block {
			top = max(top, float32(math.Abs(float64(v))))
		}
		maxima[b] = top
		for i, v := range block {
			at := b*Block + i
			codes[at/2] |= nearest(v, top) << (4 * (1 - at%2))
		}
	}
}

// middles are between neighbouring levels.
var middles = func() (m [15]float64) {
	for i := range m {
		m[i] = (float64(Levels[i]) + float64(Levels[i+1])) / 2
	}
	return m
}()

func nearest(v, top float32) (code byte) {
	if top == 0 {
		return zero
	}
	x := float64(v) / float64(top)
	for step := byte(8); step > 0; step /= 2 {
		if x > middles[code+step-1] {
			code += step
		}
	}
	return code
}

// Code is the code of element i.
func Code(codes []byte, i int) byte { return codes[i/2] >> (4 * (1 - i%2)) & 15 }

// Widen gives the numbers of the elements from first on.
func Widen(dst []float32, codes []byte, maxima []float32, first int) {
	for i := range dst {
		dst[i] = Number(Code(codes, first+i), maxima[(first+i)/Block])
	}
}

// Number is what a code stands for in a block.
func Number(code byte, maximum float32) float32 { return Levels[code] * maximum }
