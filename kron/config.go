package kron

import (
	"fmt"
	"math"

	"gputrain/buffers"
)

// Method is how factors are updated.
type Method string

const (
	// Quad takes a quadratic step, after which a factor is symmetric.
	Quad Method = "quad"
	// Skew takes a step and turns the factor back towards a symmetric one by a rotation (Procrustes).
	Skew Method = "skew"
)

// Config is what an engine is built of.
type Config struct {
	Method           Method
	BlockSize        int           // largest side of a block
	MaxSizeDense     int           // a longer side of a matrix has a diagonal factor
	PreconditionerLR float64       // step of the factors
	InitScale        float64       // factors begin as this times the identity
	DType            buffers.DType // storage of the factors: F32 or BF16
	NoiseScale       float64       // standard deviation of the noise that is added to gradients, without Rules.RelativeDamping
	Damping          float64       // the same with Rules.RelativeDamping, as a part of the gradient's running RMS
	Rules            Rules
}

// Rules are the differences between the two numerics, each with a test of the fault that it mends. All false is eformer's.
type Rules struct {
	// ByPath has leaves draw in the order of their paths, whatever order the model has: otherwise in that of the list, the tree's own.
	ByPath bool
	// AlignedBound starts the power iteration of the norm bound from rows that cannot cancel: their random part is given
	// the sign of its product with the strongest row. Both sides of a dense block draw with one key, so that transposed gradients give
	// transposed updates where there is no noise.
	AlignedBound bool
	// NoRateFloor lets the preconditioner's rate fall below 0.4 where PreconditionerLR is below it: the floor is
	// min(0.4, PreconditionerLR).
	NoRateFloor bool
	// HalvedPair halves the step of blocks with two factors, which both follow the same gradient: at a rate of 0.7 the
	// pair is no contraction otherwise (a 2-cycle).
	HalvedPair bool
	// RelativeDamping makes the noise relative to a running RMS of the block's gradient, and leaves a block alone that has no
	// gradient (its mean square is not above 1e-30), so that dead parameters do not grow without bound: the gain of a dead row in a block that
	// is alive comes to about one over Damping.
	RelativeDamping bool
	// IndependentNoise gives leaves outside the dense stack noise of their own.
	IndependentNoise bool
	// StochasticRounding of factors in bf16, instead of to nearest even.
	StochasticRounding bool
}

// Stable is every rule; the zero value is eformer's.
func Stable() Rules {
	return Rules{
		ByPath: true, AlignedBound: true, NoRateFloor: true, HalvedPair: true, RelativeDamping: true, IndependentNoise: true, StochasticRounding: true,
	}
}

// Validate checks ranges.
func (c Config) Validate() error {
	positive := func(name string, x float64) error {
		if !(x > 0) || math.IsInf(x, 0) {
			return fmt.Errorf("%s: found %g, wanted more than 0", name, x)
		}
		return nil
	}
	switch {
	case c.Method != Quad && c.Method != Skew && c.Method != soap:
		return fmt.Errorf("method: found %q, wanted quad or skew", string(c.Method))
	case c.BlockSize < 1 || c.BlockSize > maxBlockSize:
		return fmt.Errorf("block_size: found %d, wanted 1 to %d", c.BlockSize, maxBlockSize)
	case c.MaxSizeDense < 0:
		return fmt.Errorf("max_size_dense: found %d, wanted 0 or more", c.MaxSizeDense)
	case c.DType != buffers.F32 && c.DType != buffers.BF16:
		return fmt.Errorf("dtype: found %s, wanted f32 or bf16", c.DType)
	case !(c.NoiseScale >= 0) || math.IsInf(c.NoiseScale, 0):
		return fmt.Errorf("noise_scale: found %g, wanted 0 or more", c.NoiseScale)
	case !(c.Damping >= 0 && c.Damping < 1):
		return fmt.Errorf("damping: found %g, wanted 0 to less than 1", c.Damping)
	}
	if err := positive("preconditioner_lr", c.PreconditionerLR); err != nil {
		return err
	}
	return positive("preconditioner_init_scale", c.InitScale)
}

// maxBlockSize is the largest block that the kernels of the norm bound hold in workgroup memory.
const maxBlockSize = 1024

// rateFloor is the least rate of the preconditioner, whatever is configured: eformer's.
const rateFloor = 0.4

// rate is the preconditioner's rate of update n, counted from 1.
func (c Config) rate(n int64) float64 {
	floor := rateFloor
	if c.Rules.NoRateFloor {
		floor = min(floor, c.PreconditionerLR)
	}
	return max(c.PreconditionerLR/math.Sqrt(1+float64(n)/10000), floor)
}

// balanceEvery is the number of updates after which the two factors of dense blocks are brought to one size.
const balanceEvery = 100

// balances tells whether update n, counted from 1, balances the factors first.
func balances(n int64) bool { return n%balanceEvery == 0 }
