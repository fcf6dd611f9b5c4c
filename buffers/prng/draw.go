package prng

import "math"

// Uniform is element i of an array of f32 in [0, 1), multiples of 2^-23.
func (k Key) Uniform(i uint64) float32 { return uniform(k.Bits32(i)) }

func uniform(bits uint32) float32 { return math.Float32frombits(bits>>9|0x3f800000) - 1 }

// Normal is element i of an array of f32 draws from the standard normal distribution: sqrt(2) erfinv(u) with u
// uniform in (-1, 1), odd multiples of 2^-24.
func (k Key) Normal(i uint64) float32 { return normal(k.Bits32(i)) }

func normal(bits uint32) float32 {
	const low = -1 + 0x1p-24 // the f32 after -1
	return float32(math.Sqrt2) * erfinv(2*uniform(bits)+low)
}

// erfinv is the single-precision polynomial of M. Giles, "Approximating the erfinv function" (2010), in
// w = -log(1-x*x), as XLA evaluates it in f32.
func erfinv(x float32) float32 {
	square := x * x
	w := -float32(math.Log1p(-float64(square)))
	if w < 5 {
		return horner(w-2.5, central[:]) * x
	}
	return horner(float32(math.Sqrt(float64(w)))-3, tail[:]) * x
}

var central = [...]float32{
	2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
	-0.00125372503, -0.00417768164, 0.246640727, 1.50140941,
}

var tail = [...]float32{
	-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
	-0.0076224613, 0.00943887047, 1.00167406, 2.83297682,
}

func horner(x float32, coefficients []float32) float32 {
	p := coefficients[0]
	for _, c := range coefficients[1:] {
		p = fma(p, x, c)
	}
	return p
}

// fma rounds a*b+c once: the product of two f32 is exact in f64, and rounding the sum twice changes the last bit only where
// the f64 sum lies within 2^-29 of a tie.
func fma(a, b, c float32) float32 { return float32(float64(a)*float64(b) + float64(c)) }

// NormalBF16 is element i of an array of bfloat16 draws from the standard normal distribution. JAX draws eight bits for it and
// drops one, so there are 128 values, from -2.890625 to 2.515625.
func (k Key) NormalBF16(i uint64) float32 { return normalBF16[k.Bits32(i)&0xff>>1] }

// normalBF16[j] is sqrt(2) erfinv((4j-255)/256), rounded to bfloat16 after erfinv and after the product. XLA with excess
// precision may differ by one bf16 in 37 of the entries.
var normalBF16 = [128]float32{
	-2.890625, -2.328125, -2.109375, -1.953125, -1.8359375, -1.734375, -1.65625, -1.578125,
	-1.515625, -1.4609375, -1.40625, -1.3515625, -1.3046875, -1.2578125, -1.21875, -1.1796875,
	-1.140625, -1.1015625, -1.0625, -1.03125, -1.0, -0.97265625, -0.9375, -0.91015625,
	-0.87890625, -0.8515625, -0.82421875, -0.796875, -0.76953125, -0.74609375, -0.71875, -0.69140625,
	-0.66796875, -0.64453125, -0.62109375, -0.59765625, -0.57421875, -0.55078125, -0.52734375, -0.50390625,
	-0.482421875, -0.4609375, -0.439453125, -0.41796875, -0.3984375, -0.375, -0.353515625, -0.333984375,
	-0.3125, -0.29296875, -0.271484375, -0.251953125, -0.232421875, -0.212890625, -0.1923828125, -0.171875,
	-0.15234375, -0.1328125, -0.1123046875, -0.09326171875, -0.07373046875, -0.053955078125, -0.034423828125, -0.0146484375,
	0.0048828125, 0.0245361328125, 0.0439453125, 0.0634765625, 0.0830078125, 0.10302734375, 0.123046875, 0.142578125,
	0.162109375, 0.1826171875, 0.201171875, 0.22265625, 0.2412109375, 0.26171875, 0.283203125, 0.3046875,
	0.322265625, 0.34375, 0.365234375, 0.38671875, 0.408203125, 0.427734375, 0.44921875, 0.47265625,
	0.494140625, 0.515625, 0.5390625, 0.5625, 0.5859375, 0.609375, 0.6328125, 0.65625,
	0.6796875, 0.703125, 0.73046875, 0.7578125, 0.78515625, 0.8125, 0.83984375, 0.8671875,
	0.89453125, 0.921875, 0.95703125, 0.984375, 1.015625, 1.046875, 1.0859375, 1.125,
	1.15625, 1.1953125, 1.2421875, 1.28125, 1.328125, 1.3828125, 1.4375, 1.4921875,
	1.546875, 1.625, 1.703125, 1.7890625, 1.890625, 2.015625, 2.203125, 2.515625,
}
