package graph

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gputrain/buffers/array"
)

var errOverflow = errors.New("more elements than an int holds")

// Elements is the product of the dimensions of a shape; 1 for a scalar.
func Elements(shape []int) int { return array.Elements(shape) }

// F32 is the type of nearly every value.
func F32(shape ...int) Type { return Type{Shape: slices.Clone(shape), DType: array.F32} }

func checkShape(shape []int) error {
	n := 1
	for _, d := range shape {
		if d < 0 {
			return fmt.Errorf("shape %v: dimension %d, want 0 or more", shape, d)
		}
		if d > 0 && n > math.MaxInt/4/d {
			return fmt.Errorf("shape %v: %w", shape, errOverflow)
		}
		n *= d
	}
	return nil
}

// arity checks the number of inputs and that all but those of the given positions are numbers: f32, or what StoreBF16 has made of it.
func arity(in []*Value, want int, integer ...int) error {
	if len(in) != want {
		return fmt.Errorf("%d inputs, want %d", len(in), want)
	}
	for i, v := range in {
		if !slices.Contains(integer, i) && v.DType() != array.F32 && v.DType() != array.BF16 {
			return fmt.Errorf("input %d is %v, want %v", i, v.DType(), array.F32)
		}
	}
	return nil
}

func wantShape(what string, v *Value, want ...int) error {
	if !slices.Equal(v.Shape(), want) {
		return fmt.Errorf("%s has shape %v, want %v", what, v.Shape(), want)
	}
	return nil
}

func wantDType(what string, v *Value, want array.DType) error {
	if v.DType() != want {
		return fmt.Errorf("%s is %v, want %v", what, v.DType(), want)
	}
	return nil
}

func wantRank(what string, v *Value, atLeast int) error {
	if len(v.Shape()) < atLeast {
		return fmt.Errorf("%s has shape %v, want %d dimensions or more", what, v.Shape(), atLeast)
	}
	return nil
}

// Rows splits [.., D] into the number of rows and D.
func Rows(shape []int) (n, d int) {
	last := len(shape) - 1
	return Elements(shape[:last]), shape[last]
}

// broadcast is the common shape of two under numpy's rules.
func broadcast(a, b []int) ([]int, error) {
	out := make([]int, max(len(a), len(b)))
	for i := range out {
		da, db := dimFromEnd(a, len(out)-1-i), dimFromEnd(b, len(out)-1-i)
		switch {
		case da == db || db == 1:
			out[i] = da
		case da == 1:
			out[i] = db
		default:
			return nil, fmt.Errorf("shapes %v and %v do not broadcast", a, b)
		}
	}
	return out, nil
}

func dimFromEnd(shape []int, i int) int {
	if i >= len(shape) {
		return 1
	}
	return shape[len(shape)-1-i]
}

func checkAxis(axis, rank int) error {
	if axis < 0 || axis >= rank {
		return fmt.Errorf("axis %d, want 0 to %d", axis, rank-1)
	}
	return nil
}
