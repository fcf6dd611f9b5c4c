package array

import "math"

// minifloat is a floating point format without infinities.
type minifloat struct {
	Mantissa int // bits
	Least    int // the exponent of the smallest normal numbers
	Largest  float64
}

// e2m1 are 0, 0.5, 1, 1.5, 2, 3, 4 and 6, e4m3 those of OCP 8-bit floating point, at most 448, each with both signs.
var (
	e2m1 = minifloat{Mantissa: 1, Least: 0, Largest: 6}
	e4m3 = minifloat{Mantissa: 3, Least: -6, Largest: 448}
)

// Near is the number of the format that is nearest to x, of two the even one; what is larger becomes the largest.
func (f minifloat) Near(x float64) float64 {
	if x == 0 {
		return 0
	}
	ulp := math.Ldexp(1, max(exponent(x), f.Least)-f.Mantissa)
	return math.Copysign(min(math.RoundToEven(math.Abs(x)/ulp)*ulp, f.Largest), x)
}

// Top is the exponent of the largest number.
func (f minifloat) Top() int { return exponent(f.Largest) }

// Power is the power of two by which numbers of the largest magnitude top are divided: it has the largest number's exponent then.
func (f minifloat) Power(top float64) float64 {
	return math.Ldexp(1, exponent(top)-f.Top())
}

// exponent is floor(log2 |x|).
func exponent(x float64) int {
	_, e := math.Frexp(x)
	return e - 1
}
