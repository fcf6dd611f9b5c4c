package gpu

import (
	"context"
	"fmt"
	"math"
)

// Check is one self-check of `gputrain doctor`; every package that owns kernels exports Checks() []gpu.Check.
type Check struct {
	Name string
	Run  func(ctx context.Context, d *Device) (Result, error)
}

// Result passes when MaxError <= Tolerance; NaN does not.
type Result struct {
	MaxError, Tolerance float64
	Worst               string // where the largest error is
}

// Compare keeps the largest error in relation to the largest number that is wanted.
func (r *Result) Compare(where string, got, want []float32) {
	largest := 0.0
	for _, w := range want {
		largest = max(largest, math.Abs(float64(w)))
	}
	for i, w := range want {
		diff := math.Inf(1)
		if len(got) == len(want) {
			diff = math.Abs(float64(got[i]) - float64(w))
		}
		if diff > 0 {
			diff /= largest
		}
		if !(diff <= r.MaxError) && !math.IsNaN(r.MaxError) {
			r.MaxError, r.Worst = diff, fmt.Sprintf("%s[%d]", where, i)
		}
	}
}
