package optim

import (
	"fmt"
	"math"

	"gputrain/buffers"
)

// decayRate refuses what is no decay of a moving average.
func decayRate(name string, x float64) error {
	if !(x >= 0 && x < 1) {
		return fmt.Errorf("%s: found %g, wanted 0 to less than 1", name, x)
	}
	return nil
}

// notNegative refuses what is below 0 or not finite.
func notNegative(name string, x float64) error {
	if !(x >= 0) || math.IsInf(x, 0) {
		return fmt.Errorf("%s: found %g, wanted 0 or more", name, x)
	}
	return nil
}

// positive refuses what is not above 0 or not finite.
func positive(name string, x float64) error {
	if !(x > 0) || math.IsInf(x, 0) {
		return fmt.Errorf("%s: found %g, wanted more than 0", name, x)
	}
	return nil
}

// momentDType refuses what a moment cannot be stored in.
func momentDType(name string, d buffers.DType) error {
	if d != buffers.F32 && d != buffers.BF16 {
		return fmt.Errorf("%s: found %s, wanted f32 or bf16", name, d)
	}
	return nil
}

// parseMoment reads the dtype of a moment; "" is f32.
func parseMoment(name, text string) (buffers.DType, error) {
	if text == "" {
		return buffers.F32, nil
	}
	d, err := buffers.ParseDType(text)
	if err != nil {
		return d, fmt.Errorf("%s: %w", name, err)
	}
	return d, momentDType(name, d)
}

// firstError is the first of errs that is one.
func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// A halved moment is a slot in bf16. In EFormer numerics its decay b, and the product of decay and moment, are rounded to nearest
// even, as is what is stored; in Stable only what is stored is rounded, stochastically.
type halved struct {
	slot    slot
	keep    float64 // b as it multiplies the moment
	product string  // $b $name, by the names of scalar and slot
	shrink  func(float64) float64
}

// moment is a slot that decays by b, whose scalar has the name decay.
func moment(name string, dtype buffers.DType, decay string, b float64, n Numerics) halved {
	h := halved{slot: slot{name: name, dtype: dtype}, keep: b, product: "$" + decay + " * $" + name, shrink: func(x float64) float64 { return x }}
	if dtype != buffers.BF16 {
		return h
	}
	if n != EFormer {
		h.slot.dither = true
		return h
	}
	h.keep, h.product, h.shrink = roundBF16(b), "optim_nearest("+h.product+")", roundBF16
	return h
}
