package array

import (
	"encoding/binary"
	"math"
)

// Encode stores floats as F32 or BF16, the lowest byte first.
func Encode(d DType, dst []byte, src []float32) {
	if d == BF16 {
		for i, f := range src {
			binary.LittleEndian.PutUint16(dst[2*i:], EncodeBF16(f))
		}
		return
	}
	for i, f := range src {
		binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(f))
	}
}

// Decode is the inverse of Encode.
func Decode(d DType, dst []float32, src []byte) {
	if d == BF16 {
		for i := range dst {
			dst[i] = DecodeBF16(binary.LittleEndian.Uint16(src[2*i:]))
		}
		return
	}
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
	}
}
