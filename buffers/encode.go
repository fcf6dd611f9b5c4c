package buffers

import (
	"encoding/binary"
	"math"

	"gputrain/buffers/array"
)

// encode stores floats as F32 or BF16.
func encode(d DType, dst []byte, src []float32) {
	if d == BF16 {
		for i, f := range src {
			binary.LittleEndian.PutUint16(dst[2*i:], array.EncodeBF16(f))
		}
		return
	}
	for i, f := range src {
		binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(f))
	}
}

// decode is the inverse of encode.
func decode(d DType, dst []float32, src []byte) {
	if d == BF16 {
		for i := range dst {
			dst[i] = array.DecodeBF16(binary.LittleEndian.Uint16(src[2*i:]))
		}
		return
	}
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
	}
}
