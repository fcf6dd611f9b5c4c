package cluster

import (
	"fmt"
	"slices"

	"gputrain/buffers"
	"gputrain/buffers/array"
)

// Wire is how gradients travel between ranks.
type Wire string

// The wires. BF16 rounds each partial sum that a rank gives, and the total, to nearest even: half the bytes. Of a gradient g, the sum over nodes s_i, the
// total then differs from that of F32 by at most 2^-8 (|g| + sum |s_i|) (1 + 2^-7), beside the roundings of f32.
const (
	F32  Wire = "f32"
	BF16 Wire = "bf16"
)

// wires are the values of Wire.
var wires = []string{string(F32), string(BF16)}

func (w Wire) validate() error {
	if !slices.Contains(wires, string(w)) {
		return fmt.Errorf("cluster: wire: found %q, wanted one of %q", w, wires)
	}
	return nil
}

// dtype is how an element travels.
func (w Wire) dtype() buffers.DType {
	if w == BF16 {
		return buffers.BF16
	}
	return buffers.F32
}

// bytes of an element.
func (w Wire) bytes() int { return w.dtype().Bits() / 8 }

// encode puts values into dst as they travel.
func (w Wire) encode(dst []byte, values []float32) { array.Encode(w.dtype(), dst, values) }

// decode takes values out of src.
func (w Wire) decode(values []float32, src []byte) { array.Decode(w.dtype(), values, src) }

// round makes values what they are once they have travelled.
func (w Wire) round(values []float32) {
	if w == F32 {
		return
	}
	for i, v := range values {
		values[i] = array.DecodeBF16(array.EncodeBF16(v))
	}
}
