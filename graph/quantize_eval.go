package graph

import (
	"math"
	"slices"

	"gputrain/buffers/nf4"
)

// tiny is what the spread of a group has to reach to be divided.
const tiny = 0x1p-100

// Minifloat is a floating point format without infinities.
type Minifloat struct {
	Mantissa int // bits
	Least    int // the exponent of the smallest normal numbers
	Largest  float64
}

var (
	e2m1 = Minifloat{Mantissa: 1, Least: 0, Largest: 6}
	e4m3 = Minifloat{Mantissa: 3, Least: -6, Largest: 448}
)

// Format is the floating point format of the mxfp and nvfp modes.
func (o Quantize) Format() Minifloat {
	if o.Mode == "mxfp8" {
		return e4m3
	}
	return e2m1
}

// near is the number of the format that is nearest to x.
func (f Minifloat) near(x float64) float64 {
	if x == 0 {
		return 0
	}
	ulp := math.Ldexp(1, max(exponent(x), f.Least)-f.Mantissa)
	return math.Copysign(min(math.RoundToEven(math.Abs(x)/ulp)*ulp, f.Largest), x)
}

// Top is the exponent of the largest number.
func (f Minifloat) Top() int { return exponent(f.Largest) }

// exponent is floor(log2 |x|).
func exponent(x float64) int {
	_, e := math.Frexp(x)
	return e - 1
}

// largestMagnitude of no elements is 0.
func largestMagnitude(x []float64) float64 {
	top := 0.0
	for _, v := range x {
		top = max(top, math.Abs(v))
	}
	return top
}

// Eval is the definition.
func (o Quantize) Eval(_ *Node, in []*Array, _ *Env) []*Array {
	x, y := in[0], NewArray(in[0].Shape)
	whole := largestMagnitude(x.Data)
	if count, width := Rows(x.Shape); width > 0 {
		for r := range count {
			from, to := slices.Chunk(x.Data[r*width:(r+1)*width], o.Group), y.Data[r*width:(r+1)*width]
			for group := range from {
				o.group(to[:len(group)], group, whole)
				to = to[len(group):]
			}
		}
	}
	return []*Array{y}
}

// group takes one group x to y; whole is the largest magnitude of all groups.
func (o Quantize) group(y, x []float64, whole float64) {
	if o.Mode == "affine" {
		lo, hi := slices.Min(x), slices.Max(x)
		for i, v := range x {
			if y[i] = lo; hi-lo >= tiny {
				s := (hi - lo) / float64(int(1)<<o.Bits-1)
				y[i] = lo + s*math.RoundToEven((v-lo)/s)
			}
		}
		return
	}
	top := largestMagnitude(x)
	if top < tiny {
		return
	}
	format, scale := o.Format(), 0.0
	switch o.Mode {
	case "nf4":
		for i, v := range x {
			y[i] = top * nearestLevel(v/top)
		}
		return
	case "mxfp4", "mxfp8":
		scale = math.Ldexp(1, exponent(top)-format.Top())
	case "nvfp4":
		if scale = whole / (e2m1.Largest * e4m3.Largest) * e4m3.near(e4m3.Largest*(top/whole)); scale == 0 {
			return
		}
	}
	for i, v := range x {
		y[i] = scale * format.near(v/scale)
	}
}

// nearestLevel is the level of nf4 nearest to x.
func nearestLevel(x float64) float64 {
	at := 0
	for at+1 < len(nf4.Levels) && x > (float64(nf4.Levels[at])+float64(nf4.Levels[at+1]))/2 {
		at++
	}
	return float64(nf4.Levels[at])
}
