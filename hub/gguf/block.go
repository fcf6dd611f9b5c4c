package gguf

import (
	"encoding/binary"
	"math"

	"gputrain/buffers/array"
)

func decodeF32(dst []float32, src []byte) { array.Decode(array.F32, dst, src) }

func encodeF32(dst []byte, src []float32) { array.Encode(array.F32, dst, src) }

func decodeBF16(dst []float32, src []byte) { array.Decode(array.BF16, dst, src) }

func encodeBF16(dst []byte, src []float32) { array.Encode(array.BF16, dst, src) }

func decodeF16(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = half(src[2*i:])
	}
}

func encodeF16(dst []byte, src []float32) {
	for i, v := range src {
		putHalf(dst[2*i:], v)
	}
}

// half is the f16 that bytes begin with.
func half(src []byte) float32 { return array.DecodeF16(binary.LittleEndian.Uint16(src)) }

func putHalf(dst []byte, v float32) { binary.LittleEndian.PutUint16(dst, array.EncodeF16(v)) }

// blocks calls do for each block of n elements and so many bytes.
func blocks(n, size int, floats []float32, bytes []byte, do func(floats []float32, block []byte)) {
	for ; len(floats) > 0; floats, bytes = floats[n:], bytes[size:] {
		do(floats[:n], bytes[:size])
	}
}

// Q8_0: f16 d, 32 int8 q; the element is d q.
func decodeQ8(dst []float32, src []byte) {
	blocks(32, 34, dst, src, func(x []float32, b []byte) {
		d := half(b)
		for i := range x {
			x[i] = d * float32(int8(b[2+i]))
		}
	})
}

// encodeQ8: d is the greatest magnitude over 127. The codes are computed with the d that has not been rounded to f16 yet.
func encodeQ8(dst []byte, src []float32) {
	blocks(32, 34, src, dst, func(x []float32, b []byte) {
		var greatest float32
		for _, v := range x {
			greatest = max(greatest, float32(math.Abs(float64(v))))
		}
		d := greatest / 127
		putHalf(b, d)
		scale := inverse(d)
		for i, v := range x {
			b[2+i] = byte(int8(math.Round(float64(v * scale)))) // roundf: halves away from zero
		}
	})
}

// inverse is 1/d, and 0 of 0.
func inverse(d float32) float32 {
	if d == 0 {
		return 0
	}
	return 1 / d
}

// Q4_0: f16 d, 16 bytes whose low halves are elements 0 to 15 and whose high halves are 16 to 31; the element is d (q - 8).
func decodeQ4(dst []float32, src []byte) {
	blocks(32, 18, dst, src, func(x []float32, b []byte) {
		d := half(b)
		for i, q := range b[2:] {
			x[i], x[i+16] = float32(int(q&15)-8)*d, float32(int(q>>4)-8)*d
		}
	})
}

// encodeQ4: d is the element of the greatest magnitude, the first of those, over -8.
func encodeQ4(dst []byte, src []float32) {
	blocks(32, 18, src, dst, func(x []float32, b []byte) {
		var greatest, signed float32
		for _, v := range x {
			if a := float32(math.Abs(float64(v))); greatest < a {
				greatest, signed = a, v
			}
		}
		d := signed / -8
		putHalf(b, d)
		scale := inverse(d)
		code := func(v float32) byte {
			return byte(min(15, int8(float32(v*scale)+8.5)))
		}
		for i := range 16 {
			b[2+i] = code(x[i]) | code(x[i+16])<<4
		}
	})
}

// Q4_1: f16 d and m, nibbles as Q4_0; the element is d q + m.
func decodeQ41(dst []float32, src []byte) {
	blocks(32, 20, dst, src, func(x []float32, b []byte) {
		d, m := half(b), half(b[2:])
		for i, q := range b[4:] {
			x[i], x[i+16] = scaled(q&15, d, m), scaled(q>>4, d, m)
		}
	})
}

// scaled is d q + m, rounded twice.
func scaled(q byte, d, m float32) float32 {
	return float32(float32(q)*d) + m
}

// Q5_0: f16 d, 32 fifth bits, nibbles as Q4_0; the element is d (q - 16).
func decodeQ50(dst []float32, src []byte) {
	blocks(32, 22, dst, src, func(x []float32, b []byte) {
		d, fifth := half(b), binary.LittleEndian.Uint32(b[2:])
		for i, q := range b[6:] {
			low, high := fiveBits(q, fifth, i)
			x[i], x[i+16] = float32(int(low)-16)*d, float32(int(high)-16)*d
		}
	})
}

// Q5_1: f16 d and m, 32 fifth bits, nibbles as Q4_0; the element is d q + m.
func decodeQ51(dst []float32, src []byte) {
	blocks(32, 24, dst, src, func(x []float32, b []byte) {
		d, m, fifth := half(b), half(b[2:]), binary.LittleEndian.Uint32(b[4:])
		for i, q := range b[8:] {
			low, high := fiveBits(q, fifth, i)
			x[i], x[i+16] = scaled(low, d, m), scaled(high, d, m)
		}
	})
}

// fiveBits are the codes of elements i and i+16.
func fiveBits(q byte, fifth uint32, i int) (low, high byte) {
	return q&15 | byte(fifth>>i&1)<<4, q>>4 | byte(fifth>>(i+16)&1)<<4
}

// nonlinear are the 16 levels of IQ4_NL, in steps of d.
var nonlinear = [16]int8{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}

// IQ4_NL: f16 d, nibbles as Q4_0; the element is d times the level of q.
func decodeIQ4NL(dst []float32, src []byte) {
	blocks(32, 18, dst, src, func(x []float32, b []byte) {
		d := half(b)
		for i, q := range b[2:] {
			x[i], x[i+16] = d*float32(nonlinear[q&15]), d*float32(nonlinear[q>>4])
		}
	})
}

// The K types store 256 elements in groups, whose scales are quantized too.

// groupScale gives the scale and the minimum of group j of eight, six bits each in twelve bytes.
func groupScale(j int, packed []byte) (scale, least byte) {
	if j < 4 {
		return packed[j] & 63, packed[j+4] & 63
	}
	return packed[j+4]&15 | packed[j-4]>>6<<4, packed[j+4]>>4 | packed[j]>>6<<4
}

// Q4_K: f16 d and dmin, 12 bytes of scales s and minima m, 128 bytes of nibbles; eight groups of 32 elements, of which two share their bytes. The
// element is (d s) q - dmin m.
func decodeQ4K(dst []float32, src []byte) {
	blocks(256, 144, dst, src, func(x []float32, b []byte) {
		decodeGroups(x, b, func(pair int) (codes []byte, fifth []byte) { return b[16+32*pair:], nil })
	})
}

// Q5_K: as Q4_K, with 32 bytes of fifth bits before the nibbles: bit j of byte i belongs to element i of group j.
func decodeQ5K(dst []float32, src []byte) {
	blocks(256, 176, dst, src, func(x []float32, b []byte) {
		decodeGroups(x, b, func(pair int) (codes []byte, fifth []byte) { return b[48+32*pair:], b[16:48] })
	})
}

// decodeGroups decodes a block of Q4_K or Q5_K; pair gives the bytes that two groups share, and the fifth bits of all.
func decodeGroups(x []float32, b []byte, pair func(int) (codes, fifth []byte)) {
	d, dmin := half(b), half(b[2:])
	for j := range 8 {
		scale, least := groupScale(j, b[4:16])
		step, offset := d*float32(scale), dmin*float32(least)
		codes, fifth := pair(j / 2)
		for i := range 32 {
			q := codes[i] >> (j % 2 * 4) & 15
			if fifth != nil {
				q |= fifth[i] >> j & 1 << 4
			}
			x[32*j+i] = float32(step*float32(q)) - offset
		}
	}
}

// Q6_K: 128 bytes of the low four bits, 64 of the high two, 16 int8 scales s of groups of 16 elements, f16 d. Each half of the block
// has four quarters of 32 elements, which share their bytes. The element is d s (q - 32).
func decodeQ6K(dst []float32, src []byte) {
	blocks(256, 210, dst, src, func(x []float32, b []byte) {
		d := half(b[208:])
		for h := range 2 {
			low, high, scales := b[64*h:], b[128+32*h:], b[192+8*h:]
			for i := range 32 {
				for quarter := range 4 {
					q := low[i+quarter%2*32]>>(quarter/2*4)&15 | high[i]>>(2*quarter)&3<<4
					step := d * float32(int8(scales[i/16+2*quarter]))
					x[128*h+32*quarter+i] = step * float32(int(q)-32)
				}
			}
		}
	})
}
