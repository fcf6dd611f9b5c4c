package compile

import (
	"fmt"
	"math"
	"strings"
)

// functionText is the WGSL of each function of functions.go over T, f32 or vec4<f32>; $a, $b, $c are its operands. What
// has a name starting in f_ stands in shaders/shared/functions.wgsl.
var functionText = map[string]string{
	"neg":       "-$a",
	"exp":       "exp($a)",
	"log":       "log($a)",
	"sqrt":      "sqrt($a)",
	"rsqrt":     "T(1.0) / sqrt($a)", // inverseSqrt is an estimate on some devices
	"square":    "$a * $a",
	"tanh":      "f_tanh($a)",
	"sigmoid":   "f_sigmoid($a)",
	"relu":      "max($a, T(0.0))",
	"gelu_tanh": "$a * f_sigmoid(2.0 * f_gelu_inner($a))",
	"gelu_erf":  "$a * f_normal_cdf($a)",
	"silu":      "$a * f_sigmoid($a)",
	"recip":     "T(1.0) / $a",
	"abs":       "abs($a)",

	"stop_gradient": "$a",

	"add":   "$a + $b",
	"sub":   "$a - $b",
	"mul":   "$a * $b",
	"div":   "$a / $b",
	"max":   "max($a, $b)",
	"equal": "select(T(0.0), T(1.0), $a == $b)",

	"sqrt_grad":      "$b / (2.0 * sqrt($a))",
	"rsqrt_grad":     "-$b / (2.0 * $a * sqrt($a))",
	"square_grad":    "2.0 * $a * $b",
	"tanh_grad":      "$b * f_tanh_slope($a)",
	"sigmoid_grad":   "$b * f_sigmoid_slope($a)",
	"relu_grad":      "select(T(0.0), $b, $a > T(0.0))",
	"recip_grad":     "-$b / ($a * $a)",
	"abs_grad":       "$b * sign($a)",
	"gelu_tanh_grad": "$b * f_gelu_tanh_slope($a)",
	"gelu_erf_grad":  "$b * f_gelu_erf_slope($a)",
	"silu_grad":      "$b * f_silu_slope($a)",
	"max_grad":       "$c * (select(T(0.0), T(1.0), $a > $b) + select(T(0.0), T(0.5), $a == $b))",
}

// callText is the expression of a call.
func (b *body) callText(fn string, arg float64, args []string) string {
	switch fn {
	case "scale":
		return fmt.Sprintf("%s * %s", args[0], b.literal(arg))
	case "add_const":
		return fmt.Sprintf("%s + %s", args[0], b.literal(arg))
	case roundBF16:
		if b.f.vec {
			return fmt.Sprintf("bf16_unpack4(bf16_pack4(%s))", args[0])
		}
		return fmt.Sprintf("bitcast<f32>(bf16_round(%s) << 16u)", args[0])
	case "pow_const":
		return b.power(args[0], arg)
	case "pow_const_grad":
		return fmt.Sprintf("%s * %s * (%s)", b.literal(arg), args[1], b.power(args[0], arg-1))
	}
	text, ok := functionText[fn]
	if !ok {
		b.f.c.fail("function %q: no kernel text", fn)
	}
	names := []string{"$a", "$b", "$c"}
	for i, a := range args {
		text = strings.ReplaceAll(text, names[i], a)
	}
	return strings.ReplaceAll(text, "T(", b.f.typeName(b.f.vec)+"(")
}

// maxUnrolledPower is the largest integer power written as products: WGSL's pow is not defined for negative bases, and
// less exact.
const maxUnrolledPower = 16

// power is x to a power that is a number.
func (b *body) power(x string, p float64) string {
	one := b.literal(1)
	switch n := math.Abs(p); {
	case p == 0:
		return one
	case n == math.Trunc(n) && n <= maxUnrolledPower:
		product := x + strings.Repeat(" * "+x, int(n)-1)
		if p < 0 {
			return fmt.Sprintf("%s / (%s)", one, product)
		}
		return product
	case p == 0.5:
		return fmt.Sprintf("sqrt(%s)", x)
	case p == -0.5:
		return fmt.Sprintf("%s / sqrt(%s)", one, x)
	}
	return fmt.Sprintf("pow(%s, %s)", x, b.literal(p))
}
