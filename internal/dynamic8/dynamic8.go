// Package dynamic8 keeps numbers in eight bits, as bitsandbytes does: each is the code of a level of its dynamic map, times the largest magnitude of a block.
// So are the maxima of a nested base, and the state of optimizers in eight bits.
package dynamic8

import "math"

// Group is how many nested maxima have a maximum in common.
const Group = 256

// Map are the levels of bitsandbytes' dynamic map of a sign, up to seven bits for the power of ten and the
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
			n.Codes[g*Group+i] = nearest(v-n.Offset, top)
		}
	}
	return n
}

const zero = 127 // the code of the level 0

func nearest(v, top float32) byte {
	if top == 0 {
		return zero
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
