package array

import "math"

// EncodeF16 rounds to IEEE half precision, ties to even. Denormals are kept; too large
// becomes infinite; NaN stays NaN.
func EncodeF16(v float32) uint16 {
	bits := math.Float32bits(v)
	sign := uint16(bits >> 16 & 0x8000)
	magnitude := bits & 0x7fffffff
	switch {
	case magnitude > 0x7f800000:
		return sign | 0x7e00
	case magnitude >= 0x477ff000: // 65520, halfway to the next power
		return sign | 0x7c00
	case magnitude < 0x38800000: // below 2^-14: multiples of 2^-24
		return sign | uint16(math.RoundToEven(float64(math.Float32frombits(magnitude))*0x1p24))
	}
	rounded := magnitude + 0xfff + magnitude>>13&1
	return sign | uint16((rounded-112<<23)>>13)
}

// DecodeF16 widens an IEEE half: five bits of exponent, ten of mantissa.
func DecodeF16(h uint16) float32 {
	sign := uint32(h&0x8000) << 16
	exponent := uint32(h>>10) & 0x1f
	mantissa := uint32(h & 0x3ff)
	switch exponent {
	case 0: // zero and denormals: mantissa x 2^-24
		v := float32(mantissa) * 0x1p-24
		return math.Float32frombits(sign | math.Float32bits(v))
	case 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | mantissa<<13)
	}
	return math.Float32frombits(sign | (exponent+112)<<23 | mantissa<<13)
}
