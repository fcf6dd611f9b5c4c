package optim

import (
	"fmt"

	"gputrain/buffers"
	"gputrain/buffers/array"
)

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
	d, err := array.ParseDType(text)
	if err != nil {
		return d, fmt.Errorf("%s: %w", name, err)
	}
	return d, momentDType(name, d)
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
