package state

import (
	"fmt"
	"math"

	"gputrain/buffers"
)

func allFinite(data []float32) error {
	for i, v := range data {
		if math.Float32bits(v)&0x7f800000 == 0x7f800000 {
			return fmt.Errorf("element %d is %v: %w", i, v, ErrNonFinite)
		}
	}
	return nil
}

// finiteBytes is allFinite for a leaf as a tree keeps it; in f32 and bf16 alike the upper half of an element has the exponent.
func finiteBytes(d buffers.DType, raw []byte) error {
	size := d.Bits() / 8
	if d != buffers.F32 && d != buffers.BF16 {
		return nil
	}
	for i := size - 2; i < len(raw); i += size {
		if raw[i+1]&0x7f == 0x7f && raw[i]&0x80 == 0x80 {
			return fmt.Errorf("element %d: %w", i/size, ErrNonFinite)
		}
	}
	return nil
}
