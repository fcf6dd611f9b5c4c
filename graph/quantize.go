package graph

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gputrain/buffers/nf4"
	"gputrain/internal/suggest"
)

// Quantize takes x [.., D] to the nearest numbers of a format of few bits, and its gradient to x unchanged: the straight-through estimator
// (Bengio et al. 2013, arXiv:1308.3432), x + stop_gradient(q(x) - x) in one operation. A parameter that is read through it is trained as
// what will be stored later, while the parameter itself keeps all its bits.
//
// Each row of x is cut into groups of Group elements, the last one shorter where Group does not divide D. With x the elements of a group, top
// their largest magnitude, and every rounding to the nearest, of two to the even one (nf4: to the lower level):
//
//	affine  lo + s round((x - lo)/s), lo and hi the least and the largest, s = (hi - lo)/(2^Bits - 1). Bits 2 to 8
//	nf4     top times the nearest of 16 quantiles of a normal distribution from -1 to 1 (Dettmers et al. 2023, QLoRA, arXiv:2305.14314, appendix E)
//	mxfp4   s e2m1(x/s), s = 2^(floor(log2 top) - 2), Group 32 (OCP Microscaling Formats 1.0, 2023, section 6.3)
//	mxfp8   s e4m3(x/s), s = 2^(floor(log2 top) - 8), Group 32 (the same)
//	nvfp4   s e2m1(x/s), s = t e4m3(top/(6 t)), t the largest magnitude of all of x over 6*448, Group 16 (NVIDIA 2025, arXiv:2509.25149)
//
// e2m1 are the numbers 0, 0.5, 1, 1.5, 2, 3, 4, 6 and e4m3 those of OCP 8-bit floating point, at most 448, each with both signs; what is larger becomes
// the largest. A group whose hi - lo or top is below 2^-100, for devices need not know smaller numbers, or whose s is 0, becomes lo, or 0.
//
// EasyDeL's affine and nf4 are these. Its others differ: mxfp4 and mxfp8 take s = 2^ceil(log2(top/6)) and 2^ceil(log2(top/448)), so that the
// largest element is never cut off, and nvfp4 has no t, which leaves little of weights as small as a network begins with. Its nvfp8 is not
// here: no format of that name is published.
type Quantize struct {
	Mode  string `json:"mode"`
	Bits  int    `json:"bits,omitempty"` // of affine; the other modes have a width of their own, and 0 here
	Group int    `json:"group"`
}

// QuantizeModes are the modes of Quantize.
var QuantizeModes = []string{"affine", "nf4", "mxfp4", "mxfp8", "nvfp4"}

// fixedGroups are the groups that belong to a format.
var fixedGroups = map[string]int{"mxfp4": 32, "mxfp8": 32, "nvfp4": 16}

// Or is o with what is 0 replaced by what is usual: affine in 4 bits, groups of 64, or those that belong to the format.
func (o Quantize) Or() Quantize {
	if o.Bits == 0 && o.Mode == "affine" {
		o.Bits = 4
	}
	if o.Group == 0 {
		if o.Group = fixedGroups[o.Mode]; o.Group == 0 {
			o.Group = 64
		}
	}
	return o
}

// Validate refuses modes, widths and groups that there are not.
func (o Quantize) Validate() error {
	fixed := fixedGroups[o.Mode]
	switch {
	case !slices.Contains(QuantizeModes, o.Mode):
		return fmt.Errorf("mode %q, want one of %s%s", o.Mode, strings.Join(QuantizeModes, ", "), suggest.DidYouMean(o.Mode, QuantizeModes))
	case o.Mode == "affine" && (o.Bits < 2 || o.Bits > 8):
		return fmt.Errorf("bits %d, want 2 to 8", o.Bits)
	case o.Mode != "affine" && o.Bits != 0:
		return fmt.Errorf("bits %d, want 0: %s has a width of its own", o.Bits, o.Mode)
	case fixed > 0 && o.Group != fixed:
		return fmt.Errorf("group %d, want %d, which belongs to %s", o.Group, fixed, o.Mode)
	case o.Group < 2:
		return fmt.Errorf("group %d, want 2 or more", o.Group)
	}
	return nil
}

// Remade, as the numbers take as much memory as the parameter that they are made of.
func (Quantize) Remade() {}

func (Quantize) Kind() string { return "quantize" }

func (o Quantize) Infer(in []*Value) ([]Type, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	if err := o.Validate(); err != nil {
		return nil, err
	}
	return []Type{F32(in[0].Shape()...)}, wantRank("x", in[0], 1)
}

// Gradient is dy, straight through.
func (Quantize) Gradient(_ *Graph, _ *Node, dy []*Value) []*Value { return dy }

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
