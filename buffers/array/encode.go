package array

import (
	"encoding/binary"
	"math"
)

// Encode stores numbers as F32, BF16 or, whole ones, I32, the lowest byte first.
func Encode(d DType, dst []byte, src []float32) {
	switch d {
	case BF16:
		for i, f := range src {
			binary.LittleEndian.PutUint16(dst[2*i:], EncodeBF16(f))
		}
	case I32:
		for i, f := range src {
			binary.LittleEndian.PutUint32(dst[4*i:], uint32(int32(f)))
		}
	default:
		for i, f := range src {
			binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(f))
		}
	}
}

// Decode is the inverse of Encode, and reads U32 and U8.
func Decode(d DType, dst []float32, src []byte) {
	switch d {
	case BF16:
		for i := range dst {
			dst[i] = DecodeBF16(binary.LittleEndian.Uint16(src[2*i:]))
		}
	case I32:
		for i := range dst {
			dst[i] = float32(int32(binary.LittleEndian.Uint32(src[4*i:])))
		}
	case U32:
		for i := range dst {
			dst[i] = float32(binary.LittleEndian.Uint32(src[4*i:]))
		}
	case U8:
		for i := range dst {
			dst[i] = float32(src[i])
		}
	default:
		for i := range dst {
			dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		}
	}
}

// Encoded is Encode to bytes of its own.
func Encoded(d DType, src []float32) []byte {
	dst := make([]byte, d.Bytes(uint64(len(src))))
	Encode(d, dst, src)
	return dst
}

// Decoded is Decode of all bytes.
func Decoded(d DType, src []byte) []float32 {
	dst := make([]float32, len(src)*8/d.Bits())
	Decode(d, dst, src)
	return dst
}
