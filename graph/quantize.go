package graph

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"gputrain/buffers/array"
	"gputrain/internal/suggest"
)

// Quantize takes x [.., D] to the nearest numbers of a format of few bits, and its gradient to x unchanged: the straight-through estimator
// (Bengio et al. 2013, arXiv:1308.3432), x + stop_gradient(q(x) - x) in one operation. A parameter that is read through it is trained as
// what will be stored later, while the parameter itself keeps all its bits.
//
// Each row of x is cut into groups of Group elements, the last one shorter where Group does not divide D. The modes are
// array.Modes. A group whose spread, of affine from its least element to the largest, or whose largest magnitude is
// below 2^-100, for devices need not know smaller numbers, or whose scale is 0, becomes its least element, or 0.
//
// EasyDeL's modes that are no minifloats are these. Its others differ: mxfp4 and mxfp8 take s = 2^ceil(log2(top/6)) and
// 2^ceil(log2(top/448)), so that the largest element is never cut off, and nvfp4 has no scale of the whole, which
// leaves little of weights as small as a network begins with. Its nvfp8 is not here: no format of that name exists.
type Quantize struct {
	Mode  string `json:"mode"`
	Bits  int    `json:"bits,omitempty"` // of affine; the other modes have a width of their own, and 0 here
	Group int    `json:"group"`
	// Down has groups lie along the first axis of a matrix, in modes of GGUF files alone.
	Down bool `json:"down,omitempty"`
}

// QuantizeModes are the modes of Quantize.
var QuantizeModes = func() (names []string) {
	for _, f := range array.Modes {
		names = append(names, f.Name)
	}
	return names
}()

// Format is that of the mode; without a name where there is none.
func (o Quantize) Format() array.Format {
	i := slices.Index(QuantizeModes, o.Mode)
	if i < 0 {
		return array.Format{}
	}
	return array.Modes[i]
}

// Or is o with what is 0 replaced by what is usual: affine in 4 bits, groups of 64, or those that belong to the format.
func (o Quantize) Or() Quantize {
	f := o.Format()
	if o.Bits == 0 && f.Name != "" && f.Bits == 0 {
		o.Bits = 4
	}
	if o.Group == 0 {
		o.Group = cmp.Or(f.Block, 64)
	}
	return o
}

// Validate refuses modes, widths and groups that there are not.
func (o Quantize) Validate() error {
	switch f := o.Format(); {
	case f.Name == "":
		return fmt.Errorf("mode %q, want one of %s%s", o.Mode, strings.Join(QuantizeModes, ", "), suggest.DidYouMean(o.Mode, QuantizeModes))
	case f.Bits == 0 && (o.Bits < 2 || o.Bits > 8):
		return fmt.Errorf("bits %d, want 2 to 8", o.Bits)
	case f.Bits != 0 && o.Bits != 0:
		return fmt.Errorf("bits %d, want 0: %s has a width of its own", o.Bits, o.Mode)
	case (f.Float.Mantissa > 0 || f.OfGGUF()) && o.Group != f.Block:
		return fmt.Errorf("group %d, want %d, which belongs to %s", o.Group, f.Block, o.Mode)
	case !f.OfGGUF() && o.Down:
		return fmt.Errorf("mode %s down a matrix, want one of GGUF files", o.Mode)
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
	if o.Down && len(in[0].Shape()) != 2 {
		return nil, fmt.Errorf("x has shape %v, want a matrix", in[0].Shape())
	}
	return []Type{F32(in[0].Shape()...)}, wantRank("x", in[0], 1)
}

// Gradient is dy, straight through.
func (Quantize) Gradient(_ *Graph, _ *Node, dy []*Value) []*Value { return dy }

// tiny is what the spread of a group has to reach to be divided.
const tiny = 0x1p-100

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
	if o.Down {
		o.Down = false
		return []*Array{turned(o.Eval(nil, []*Array{turned(x)}, nil)[0])}
	}
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

// turned is a matrix with rows and columns exchanged.
func turned(x *Array) *Array {
	rows, columns := x.Shape[0], x.Shape[1]
	y := NewArray([]int{columns, rows})
	for i, v := range x.Data {
		y.Data[i%columns*rows+i/columns] = v
	}
	return y
}

// group takes one group x to y; whole is the largest magnitude of all groups.
func (o Quantize) group(y, x []float64, whole float64) {
	f := o.Format()
	if f.Bits == 0 {
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
	if f.Levels != nil {
		for i, v := range x {
			y[i] = top * nearestLevel(f.Levels, v/top)
		}
		return
	}
	if f.OfGGUF() {
		ggmlBlock(y, x, f.Over)
		return
	}
	scale := f.Float.Power(top)
	if f.Scale.Mantissa > 0 {
		if scale = whole / (f.Float.Largest * f.Scale.Largest) * f.Scale.Near(f.Scale.Largest*(top/whole)); scale == 0 {
			return
		}
	}
	for i, v := range x {
		y[i] = scale * f.Float.Near(v/scale)
	}
}

// nearestLevel is the level nearest to x, of two the lower.
func nearestLevel(levels []float32, x float64) float64 {
	at := 0
	for at+1 < len(levels) && x > (float64(levels[at])+float64(levels[at+1]))/2 {
		at++
	}
	return float64(levels[at])
}

// ggmlBlock takes a block to what a GGUF file holds of it, with the roundings of ggml's quantizer; over is 0 of f16.
func ggmlBlock(y, x []float64, over float64) {
	f32 := func(x float64) float64 { return float64(float32(x)) }
	f16 := func(x float64) float64 { return float64(array.DecodeF16(array.EncodeF16(float32(x)))) }
	if over == 0 {
		for i, v := range x {
			y[i] = f16(v)
		}
		return
	}
	top := 0.0
	for _, v := range x {
		if math.Abs(v) > math.Abs(top) {
			top = v
		}
	}
	if over > 0 {
		top = math.Abs(top)
	}
	d := f32(top / over)
	per, scale := f32(1/d), f16(d)
	for i, v := range x {
		code := math.Round(f32(v * per))
		if over < 0 {
			code = min(math.Trunc(f32(f32(v*per)+(0.5-over)))+over, -over-1)
		}
		y[i] = scale * code
	}
}
