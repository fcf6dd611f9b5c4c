package graph

import (
	"math"
	"slices"
)

// tiny is what the spread of a group has to reach to be divided.
const tiny = 0x1p-100

// nf4Levels are the levels of nf4, as f32.
var nf4Levels = []float32{
	-1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0,
	0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1,
}

// minifloat is a floating point format without infinities: bits of mantissa, the exponent of its smallest normal numbers, the largest number.
type minifloat struct {
	mantissa, least int
	largest         float64
}

var (
	e2m1 = minifloat{mantissa: 1, least: 0, largest: 6}
	e4m3 = minifloat{mantissa: 3, least: -6, largest: 448}
)

// near is the number of the format that is nearest to x.
func (f minifloat) near(x float64) float64 {
	if x == 0 {
		return 0
	}
	ulp := math.Ldexp(1, max(exponent(x), f.least)-f.mantissa)
	return math.Copysign(min(math.RoundToEven(math.Abs(x)/ulp)*ulp, f.largest), x)
}

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
	x, y := in[0], newArray(in[0].Shape)
	whole := largestMagnitude(x.Data)
	if count, width := rows(x.Shape); width > 0 {
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
	format, scale := e2m1, 0.0
	switch o.Mode {
	case "nf4":
		for i, v := range x {
			y[i] = top * nf4(v/top)
		}
		return
	case "mxfp4":
		scale = math.Ldexp(1, exponent(top)-exponent(format.largest))
	case "mxfp8":
		format = e4m3
		scale = math.Ldexp(1, exponent(top)-exponent(format.largest))
	case "nvfp4":
		if scale = whole / (e2m1.largest * e4m3.largest) * e4m3.near(e4m3.largest*(top/whole)); scale == 0 {
			return
		}
	}
	for i, v := range x {
		y[i] = scale * format.near(v/scale)
	}
}

// nf4 is the level nearest to x.
func nf4(x float64) float64 {
	at := 0
	for at+1 < len(nf4Levels) && x > (float64(nf4Levels[at])+float64(nf4Levels[at+1]))/2 {
		at++
	}
	return float64(nf4Levels[at])
}
