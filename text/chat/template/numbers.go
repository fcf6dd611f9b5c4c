package template

import (
	"cmp"
	"math"
	"strconv"
	"strings"
)

// number says whether a value is one, as bool is in Python.
func number(v any) bool {
	switch v.(type) {
	case bool, int64, float64:
		return true
	}
	return false
}

// integer is an int or bool.
func integer(v any) (int64, bool) {
	switch v := v.(type) {
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	case int64:
		return v, true
	}
	return 0, false
}

// float is any number as one.
func float(v any) float64 {
	if f, ok := v.(float64); ok {
		return f
	}
	n, _ := integer(v)
	return float64(n)
}

func compareNumbers(a, b any) int {
	if x, ok := integer(a); ok {
		if y, ok := integer(b); ok {
			return cmp.Compare(x, y)
		}
	}
	return cmp.Compare(float(a), float(b))
}

// arithmetic is + - * / // % of numbers.
func (r *run) arithmetic(op string, a, b any) any {
	x, left := integer(a)
	y, right := integer(b)
	if !left || !right || op == "/" {
		return r.floats(op, float(a), float(b))
	}
	var z int64
	fits := true
	switch op {
	case "+":
		z = x + y
		fits = (z > x) == (y > 0)
	case "-":
		z = x - y
		fits = (z < x) == (y > 0)
	case "*":
		z = x * y
		fits = x == 0 || z/x == y && (x != -1 || y != math.MinInt64)
	default:
		if y == 0 {
			r.fail("integer division or modulo by zero")
		}
		rest := x % y
		z = x / y
		fits = x != math.MinInt64 || y != -1
		if rest != 0 && (rest < 0) != (y < 0) {
			z--
			rest += y
		}
		if op == "%" {
			return rest
		}
	}
	if !fits {
		r.fail("%d %s %d is an integer of more than 64 bits, wanted a smaller one", x, op, y)
	}
	return z
}

func (r *run) floats(op string, x, y float64) any {
	switch op {
	case "+":
		return x + y
	case "-":
		return x - y
	case "*":
		return x * y
	case "/":
		if y == 0 {
			r.fail("division by zero")
		}
		return x / y
	}
	r.fail("found %s of a float, wanted integers", op)
	return nil
}

// printFloat is Python's repr of a float.
func printFloat(f float64) string {
	s := strconv.FormatFloat(f, 'e', -1, 64)
	_, after, finite := strings.Cut(s, "e")
	if !finite {
		return strings.ToLower(strings.TrimPrefix(s, "+"))
	}
	if exponent, _ := strconv.Atoi(after); exponent < -4 || exponent >= 16 {
		return s
	}
	s = strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// parseFloat reads a number as Python's float(text) does.
func parseFloat(s string) (float64, bool) {
	f, err := strconv.ParseFloat(trimSpace(s), 64)
	return f, (err == nil || math.IsInf(f, 0)) && !strings.ContainsAny(s, "xX_")
}
