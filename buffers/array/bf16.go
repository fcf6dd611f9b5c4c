package array

import "math"

// EncodeBF16 rounds to the nearest bfloat16, ties to even: the upper half of the float's bits. NaN stays NaN (made
// quiet, sign and upper payload kept), infinities and denormals are kept, numbers that are too large become infinite.
// Twin of bf16_round in shaders/shared/bf16.wgsl.
func EncodeBF16(f float32) uint16 {
	u := math.Float32bits(f)
	if u&0x7fffffff > 0x7f800000 {
		return uint16(u>>16) | 0x40
	}
	return uint16((u + 0x7fff + u>>16&1) >> 16)
}

// DecodeBF16 widens a bfloat16, without loss.
func DecodeBF16(b uint16) float32 { return math.Float32frombits(uint32(b) << 16) }
