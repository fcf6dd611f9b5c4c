package template

import (
	"cmp"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// number says whether a value is one, as bool is in Python.
func number(v any) bool {
	switch v.(type) {
	case bool, int64, *big.Int, float64:
		return true
	}
	return false
}

// integer is an int or bool as a large one; nil for anything else.
func integer(v any) *big.Int {
	switch v := v.(type) {
	case bool:
		if v {
			return big.NewInt(1)
		}
		return big.NewInt(0)
	case int64:
		return big.NewInt(v)
	case *big.Int:
		return v
	}
	return nil
}

// small gives back an int64 where a large integer is one.
func small(n *big.Int) any {
	if n.IsInt64() {
		return n.Int64()
	}
	return n
}

// whole is the integer that a float is.
func whole(f float64) (*big.Int, bool) {
	if math.IsInf(f, 0) || f != math.Trunc(f) {
		return nil, false
	}
	i, _ := big.NewFloat(f).Int(nil)
	return i, true
}

// float is any number as one.
func (r *run) float(v any) float64 {
	if f, ok := v.(float64); ok {
		return f
	}
	f, _ := new(big.Float).SetInt(integer(v)).Float64()
	if math.IsInf(f, 0) {
		r.fail("int too large to convert to float")
	}
	return f
}

// compareNumbers orders numbers exactly; NaN has no order.
func compareNumbers(a, b any) (int, bool) {
	x, af := a.(float64)
	y, bf := b.(float64)
	if af && math.IsNaN(x) || bf && math.IsNaN(y) {
		return 0, false
	}
	if af && bf {
		return cmp.Compare(x, y), true
	}
	if i, ok := a.(int64); ok {
		if j, ok := b.(int64); ok {
			return cmp.Compare(i, j), true
		}
	}
	return precise(a).Cmp(precise(b)), true
}

func precise(v any) *big.Float {
	if f, ok := v.(float64); ok {
		return big.NewFloat(f)
	}
	return new(big.Float).SetInt(integer(v))
}

// arithmetic is + - * / // % ** of numbers.
func (r *run) arithmetic(op string, a, b any) any {
	if op == "/" {
		y := r.float(b)
		if y == 0 {
			r.fail("division by zero")
		}
		return r.float(a) / y
	}
	x, y := integer(a), integer(b)
	if x == nil || y == nil || op == "**" && y.Sign() < 0 {
		return r.floats(op, r.float(a), r.float(b))
	}
	r.step((x.BitLen() + y.BitLen()) / 64)
	z := new(big.Int)
	switch op {
	case "+":
		z.Add(x, y)
	case "-":
		z.Sub(x, y)
	case "*":
		r.fits(x.BitLen() + y.BitLen())
		z.Mul(x, y)
	case "**":
		if x.BitLen() <= 1 {
			return unit(x, y)
		}
		if !y.IsInt64() || y.Int64() > largestNumber {
			r.fits(largestNumber + 1)
		}
		r.fits((x.BitLen() - 1) * int(y.Int64()))
		r.step(x.BitLen() * int(y.Int64()) / 8)
		z.Exp(x, y, nil)
	default:
		if y.Sign() == 0 {
			r.fail("integer division or modulo by zero")
		}
		rest := new(big.Int)
		z.QuoRem(x, y, rest)
		if rest.Sign() != 0 && rest.Sign() != y.Sign() {
			z.Sub(z, big.NewInt(1))
			rest.Add(rest, y)
		}
		if op == "%" {
			z = rest
		}
	}
	r.fits(z.BitLen())
	return small(z)
}

// unit is a power of 0, 1 or -1.
func unit(x, y *big.Int) any {
	switch {
	case y.Sign() == 0:
		return int64(1)
	case x.Sign() < 0 && y.Bit(0) == 0:
		return int64(1)
	}
	return small(x)
}

// fits refuses integers that nobody needs.
func (r *run) fits(bits int) {
	if bits > largestNumber {
		r.fail("an integer of more than %d bits, wanted a smaller one (limit: integers)", largestNumber)
	}
}

func (r *run) floats(op string, x, y float64) any {
	switch op {
	case "+":
		return x + y
	case "-":
		return x - y
	case "*":
		return x * y
	case "**":
		if x == 0 && y < 0 {
			r.fail("0.0 cannot be raised to a negative power")
		}
		z := math.Pow(x, y)
		if math.IsInf(z, 0) && !math.IsInf(x, 0) && !math.IsInf(y, 0) || math.IsNaN(z) && !math.IsNaN(x) && !math.IsNaN(y) {
			r.fail("the result of ** is no number")
		}
		return z
	}
	if y == 0 {
		r.fail("float modulo")
	}
	rest := math.Mod(x, y)
	if rest != 0 && (rest < 0) != (y < 0) {
		rest += y
	}
	if op == "%" {
		if rest == 0 {
			return math.Copysign(0, y)
		}
		return rest
	}
	return math.Round((x - rest) / y)
}

// printFloat is Python's repr of a float.
func printFloat(f float64) string {
	switch {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case math.IsNaN(f):
		return "nan"
	}
	s := strconv.FormatFloat(f, 'e', -1, 64)
	_, after, _ := strings.Cut(s, "e")
	if exponent, _ := strconv.Atoi(after); exponent < -4 || exponent >= 16 {
		return s
	}
	s = strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// parseInt reads an integer as Python's int(text, base) does.
func parseInt(s string, base int64) (any, bool) {
	s = trimSpace(s)
	if base != 0 && (base < 2 || base > 36) || len(s) > largestNumber/4 || strings.HasPrefix(s, "_") || strings.HasSuffix(s, "_") || strings.Contains(s, "__") {
		return nil, false
	}
	sign, digits := "", s
	if s != "" && (s[0] == '-' || s[0] == '+') {
		sign, digits = strings.TrimPrefix(s[:1], "+"), s[1:]
	}
	lower := strings.ToLower(digits)
	for prefix, of := range map[string]int64{"0x": 16, "0o": 8, "0b": 2} {
		if (base == of || base == 0) && strings.HasPrefix(lower, prefix) {
			lower, base = lower[2:], of
		}
	}
	if base == 0 {
		base = 10
	}
	lower = strings.ReplaceAll(lower, "_", "")
	if lower == "" || strings.ContainsAny(lower, "+-") {
		return nil, false
	}
	n, ok := new(big.Int).SetString(sign+lower, int(base))
	if !ok {
		return nil, false
	}
	return small(n), true
}

// parseFloat reads a number as Python's float(text) does.
func parseFloat(s string) (float64, bool) {
	s = strings.ToLower(trimSpace(s))
	if strings.ContainsAny(s, "xp_") && !underscored(s) {
		return 0, false
	}
	f, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
	if err != nil && !math.IsInf(f, 0) {
		return 0, false
	}
	return f, true
}

// underscored says whether underscores stand between digits alone.
func underscored(s string) bool {
	for i := range len(s) {
		switch {
		case s[i] == 'x' || s[i] == 'p':
			return false
		case s[i] == '_' && (i == 0 || i == len(s)-1 || !digit(s[i-1]) || !digit(s[i+1])):
			return false
		}
	}
	return true
}

func digit(c byte) bool { return c >= '0' && c <= '9' }
