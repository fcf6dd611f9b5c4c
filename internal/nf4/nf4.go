// Package nf4 keeps matrices in four bits an element, as bitsandbytes does (Dettmers et al. 2023, QLoRA, arXiv:2305.14314):
// each element is the code of one of 16 levels, times the largest magnitude of its block. Blocks lie along the flattened
// matrix and cross rows. Maxima are f32, or nested: codes of eight bits with a largest magnitude for 256 of them.
//
// It knows no device and no model. The trees of package buffers keep leaves in this form, and products read them.
package nf4

import "math"

// Block is how many elements have a maximum in common here. Files may have longer blocks.
const Block = 64

// Group is how many nested maxima have a maximum in common.
const Group = 256

// Levels are what codes stand for in a block whose largest magnitude is 1.
var Levels = [16]float32{
	-1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0,
	0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1,
}

const zero = 7 // the code of the level 0

// Map are the levels of nested maxima: bitsandbytes' dynamic map of a sign, up to seven bits for the power of ten and the
// rest for a fraction (Dettmers 2015, arXiv:1511.04561). Unsigned is the map without a sign, of twice as many steps.
var Map, Unsigned = dynamicMap(1), dynamicMap(2)

// dynamicMap has so many steps below 10^-6.
func dynamicMap(steps int) (levels [256]float32) {
	at := 0
	add := func(v float32) { levels[at] = v; at++ }
	magnitudes := make([]float32, 127*steps)
	for exponent := range 7 {
		n := steps << exponent
		for i := range n {
			// The middle of a step of n equal ones from 0.1 to 1, whose ends are f32 numbers.
			low, high := step(i, n), step(i+1, n)
			middle := (low + high) / 2
			magnitudes[n-steps+i] = float32(math.Pow10(exponent-6) * float64(middle))
		}
	}
	if steps == 1 {
		for i := range magnitudes {
			add(-magnitudes[len(magnitudes)-1-i])
		}
	}
	add(0)
	for _, m := range magnitudes {
		add(m)
	}
	add(1)
	return levels
}

// step is the end of the i-th of n equal steps from 0.1 to 1 as torch.linspace has it in f32, counted from the nearer end.
func step(i, n int) float32 {
	const first, last = float32(0.1), float32(1)
	width := (last - first) / float32(n)
	if i < (n+1)/2 {
		return first + float32(width*float32(i))
	}
	return last - float32(width*float32(n-i))
}

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

// Nested are maxima in eight bits: Offset + Map[code] times the maximum of their group.
type Nested struct {
	Codes  []byte
	Tops   []float32 // of groups
	Offset float32
}

// Nest gives maxima in eight bits: what is left of each without their mean, to the nearest level of Map, of two the lower.
func Nest(maxima []float32) Nested {
	n := Nested{Codes: make([]byte, len(maxima)), Tops: make([]float32, (len(maxima)+Group-1)/Group)}
	sum := 0.0
	for _, v := range maxima {
		sum += float64(v)
	}
	n.Offset = float32(sum / float64(max(1, len(maxima))))
	for g := range n.Tops {
		part := maxima[g*Group : min(len(maxima), (g+1)*Group)]
		top := float32(0)
		for _, v := range part {
			top = max(top, float32(math.Abs(float64(v-n.Offset))))
		}
		n.Tops[g] = top
		for i, v := range part {
			n.Codes[g*Group+i] = nearestOfMap(v-n.Offset, top)
		}
	}
	return n
}

const zeroOfMap = 127

func nearestOfMap(v, top float32) byte {
	if top == 0 {
		return zeroOfMap
	}
	x, code := float64(v)/float64(top), 0
	for step := 128; step > 0; step /= 2 {
		if x > (float64(Map[code+step-1])+float64(Map[code+step]))/2 {
			code += step
		}
	}
	return byte(code)
}

// Maximum is that of block i.
func (n Nested) Maximum(i int) float32 {
	return NestedMaximum(Map[n.Codes[i]], n.Tops[i/Group], n.Offset)
}

// NestedMaximum is Offset + level top: the product is rounded, and then the sum.
func NestedMaximum(level, top, offset float32) float32 { return float32(level*top) + offset }

// Widen gives the numbers of the elements from first on.
func Widen(dst []float32, codes []byte, maxima []float32, first int) {
	for i := range dst {
		dst[i] = Number(Code(codes, first+i), maxima[(first+i)/Block])
	}
}

// Number is what a code stands for in a block.
func Number(code byte, maximum float32) float32 { return Levels[code] * maximum }
