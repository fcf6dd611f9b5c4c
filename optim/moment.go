package optim

import (
	"fmt"

	"gputrain/buffers"
)

// momentDType refuses types that a moment cannot be stored in.
func momentDType(name string, d buffers.DType) error {
	if d != buffers.F32 && d != buffers.BF16 {
		return fmt.Errorf("%s: found %s, wanted f32 or bf16", name, d)
	}
	return nil
}

// storages are the types of an optimizer's state: of the first moment, and of all else. In eight bits it is all so, and mu_dtype has nothing to say.
func storages(mu, state string) (first, rest buffers.DType, err error) {
	switch {
	case state != "8bit":
		return storage(mu), buffers.F32, nil
	case storage(mu) != buffers.F32:
		return 0, 0, fmt.Errorf("mu_dtype: found %s beside a state_dtype of 8bit, which is the first moment's too: wanted one of them", mu)
	}
	return buffers.U8, buffers.U8, nil
}

// storage is the dtype of a moment by the word of a parameter in its range; "" is f32.
func storage(word string) buffers.DType {
	if word == "bf16" {
		return buffers.BF16
	}
	return buffers.F32
}

// A halved moment is a slot in bf16, rounded as the numerics have it (rules.dither).
type halved struct {
	slot    Slot
	keep    float64 // b as it multiplies the moment
	product string  // $b $name, by the names of scalar and slot
	shrink  func(float64) float64
}

// round rounds updates to the nearest numbers of bf16.
func round() Transform {
	return Elementwise(Element{Name: "round_to_bf16", FLOPs: 1, WGSL: "u = optim_nearest(u);", Twin: func(c *Cell) { c.U = roundBF16(c.U) }})
}

// moment is the slot mu, which decays by b, whose scalar has the name decay.
func moment(dtype buffers.DType, decay string, b float64, n Numerics) halved {
	h := halved{slot: Slot{Name: "mu", DType: dtype}, keep: b, product: "$" + decay + " * $mu", shrink: func(x float64) float64 { return x }}
	if dtype != buffers.BF16 {
		return h
	}
	if n.rules().dither {
		h.slot.Dither = true
		return h
	}
	h.keep, h.product, h.shrink = roundBF16(b), "optim_nearest("+h.product+")", roundBF16
	return h
}
