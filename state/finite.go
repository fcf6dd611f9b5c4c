package state

import "gputrain/buffers"

// nonFinite is the first element of a leaf as a tree keeps it that is not finite, or -1; in f32 and bf16 alike the upper half of an element
// has the exponent. Integers are finite.
func nonFinite(d buffers.DType, raw []byte) int {
	size := d.Bits() / 8
	if d != buffers.F32 && d != buffers.BF16 {
		return -1
	}
	for i := size - 2; i < len(raw); i += size {
		if raw[i+1]&0x7f == 0x7f && raw[i]&0x80 == 0x80 {
			return i / size
		}
	}
	return -1
}
