package array

import "math"

// Minifloat is a floating point format without infinities.
type Minifloat struct {
	Mantissa int // bits
	Least    int // the exponent of the smallest normal numbers
	Largest  float64
}

// E2M1 are 0, 0.5, 1, 1.5, 2, 3, 4 and 6, E4M3 those of OCP 8-bit floating point, at most 448, each with both signs.
var (
	E2M1 = Minifloat{Mantissa: 1, Least: 0, Largest: 6}
	E4M3 = Minifloat{Mantissa: 3, Least: -6, Largest: 448}
)

// Near is the number of the format that is nearest to x, of two the even one; what is larger becomes the largest.
func (f Minifloat) Near(x float64) float64 {
	if x == 0 {
		return 0
	}
	ulp := math.Ldexp(1, max(Exponent(x), f.Least)-f.Mantissa)
	return math.Copysign(min(math.RoundToEven(math.Abs(x)/ulp)*ulp, f.Largest), x)
}

// Top is the exponent of the largest number.
func (f Minifloat) Top() int { return Exponent(f.Largest) }

// Exponent is floor(log2 |x|).
func Exponent(x float64) int {
	_, e := math.Frexp(x)
	return e - 1
}
