package gpu

import "context"

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
