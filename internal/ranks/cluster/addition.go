package cluster

import (
	"math"
	"slices"
)

// addition is how a device treats denormals where it adds: processors have both switches, and drivers set them as they like.
type addition struct{ inputs, results bool } // taken for zero of their sign

// additions are all that a device may do.
var additions = []addition{{}, {true, true}, {false, true}, {true, false}}

// add adds terms to sums: the device's bits.
func (a addition) add(sums, terms []float32) {
	if a == (addition{}) {
		for i, t := range terms {
			sums[i] += t
		}
		return
	}
	for i, t := range terms {
		s := sums[i]
		if a.inputs {
			s, t = flushed(s), flushed(t)
		}
		if s += t; a.results {
			s = flushed(s)
		}
		sums[i] = s
	}
}

// flushed is v, or for a denormal zero of its sign.
func flushed(v float32) float32 {
	if bits := math.Float32bits(v); bits&0x7f800000 == 0 {
		return math.Float32frombits(bits & 0x80000000)
	}
	return v
}

// probes are the additions that tell how a device adds: all pairs of numbers around the least normal one, and such as need rounding.
func probes() (left, right []float32) {
	const least = 0x00800000 // the least normal number
	values := []float32{0, 1, 1 + 0x1p-23, 3, 0x1p24, 0x1p24 + 2, 0x1.8p-24, math.MaxFloat32, 0x1.fffffep103}
	for _, bits := range []uint32{1, 2, least / 2, least - 1, least, least + 1, least + least/2, 2 * least} {
		values = append(values, math.Float32frombits(bits))
	}
	for _, v := range slices.Clone(values) {
		values = append(values, -v)
	}
	for _, l := range values {
		for _, r := range values {
			left, right = append(left, l), append(right, r)
		}
	}
	return left, right
}

// findAddition is the addition that makes the sums of the probes; false where none does.
func findAddition(sums []float32) (addition, bool) {
	left, right := probes()
	for _, a := range additions {
		own := slices.Clone(left)
		a.add(own, right)
		if slices.EqualFunc(own, sums, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) }) {
			return a, true
		}
	}
	return addition{}, false
}
