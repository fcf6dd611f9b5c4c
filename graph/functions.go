package graph

import (
	"maps"
	"math"
	"slices"
)

// function is one of the functions of Elementwise: its definition in float64 and its number of operands.
type function struct {
	arity int
	arg   bool // it takes Elementwise.Arg
	eval  func(x [3]float64, arg float64) float64
}

// functions are those of Elementwise by name. A name_grad takes (x, dy), the operand of the function and the gradient of its
// result, to the gradient of x; max_grad takes (a, b, dy) to the gradient of a.
var functions = map[string]function{
	"neg":       ofOne(func(x float64) float64 { return -x }),
	"exp":       ofOne(math.Exp),
	"log":       ofOne(math.Log),
	"sqrt":      ofOne(math.Sqrt),
	"rsqrt":     ofOne(func(x float64) float64 { return 1 / math.Sqrt(x) }),
	"square":    ofOne(func(x float64) float64 { return x * x }),
	"tanh":      ofOne(math.Tanh),
	"sigmoid":   ofOne(sigmoid),
	"relu":      ofOne(func(x float64) float64 { return math.Max(x, 0) }),
	"gelu_tanh": ofOne(func(x float64) float64 { return x / 2 * (1 + math.Tanh(geluInner(x))) }),
	"gelu_erf":  ofOne(func(x float64) float64 { return x / 2 * (1 + math.Erf(x/math.Sqrt2)) }),
	"silu":      ofOne(func(x float64) float64 { return x * sigmoid(x) }),
	"recip":     ofOne(func(x float64) float64 { return 1 / x }),
	"abs":       ofOne(math.Abs),

	"stop_gradient": ofOne(func(x float64) float64 { return x }),

	"scale":     {1, true, func(x [3]float64, arg float64) float64 { return x[0] * arg }},
	"add_const": {1, true, func(x [3]float64, arg float64) float64 { return x[0] + arg }},
	"pow_const": {1, true, func(x [3]float64, arg float64) float64 { return math.Pow(x[0], arg) }},

	"add":   ofTwo(func(a, b float64) float64 { return a + b }),
	"sub":   ofTwo(func(a, b float64) float64 { return a - b }),
	"mul":   ofTwo(func(a, b float64) float64 { return a * b }),
	"div":   ofTwo(func(a, b float64) float64 { return a / b }),
	"max":   ofTwo(math.Max),
	"equal": ofTwo(func(a, b float64) float64 { return step(a == b) }), // 1 or 0

	"sqrt_grad":    ofTwo(func(x, dy float64) float64 { return dy / (2 * math.Sqrt(x)) }),
	"rsqrt_grad":   ofTwo(func(x, dy float64) float64 { return -dy / (2 * x * math.Sqrt(x)) }),
	"square_grad":  ofTwo(func(x, dy float64) float64 { return 2 * x * dy }),
	"tanh_grad":    ofTwo(func(x, dy float64) float64 { return dy * (1 - math.Tanh(x)*math.Tanh(x)) }),
	"sigmoid_grad": ofTwo(func(x, dy float64) float64 { return dy * sigmoid(x) * sigmoid(-x) }),
	"relu_grad":    ofTwo(func(x, dy float64) float64 { return dy * step(x > 0) }),
	"recip_grad":   ofTwo(func(x, dy float64) float64 { return -dy / (x * x) }),
	"abs_grad":     ofTwo(func(x, dy float64) float64 { return dy * (step(x > 0) - step(x < 0)) }),
	"gelu_tanh_grad": ofTwo(func(x, dy float64) float64 {
		t := math.Tanh(geluInner(x))
		return dy * ((1+t)/2 + x/2*(1-t*t)*geluScale*(1+3*geluCubic*x*x))
	}),
	"gelu_erf_grad": ofTwo(func(x, dy float64) float64 { // Phi(x) + x phi(x)
		return dy * ((1+math.Erf(x/math.Sqrt2))/2 + x*math.Exp(-x*x/2)/math.Sqrt(2*math.Pi))
	}),
	"silu_grad": ofTwo(func(x, dy float64) float64 { return dy * sigmoid(x) * (1 + x*sigmoid(-x)) }),
	"pow_const_grad": {2, true, func(x [3]float64, arg float64) float64 {
		return arg * math.Pow(x[0], arg-1) * x[1]
	}},
	"max_grad": {3, false, func(x [3]float64, _ float64) float64 { // halves where they are equal
		return x[2] * (step(x[0] > x[1]) + step(x[0] == x[1])/2)
	}},
}

// The approximation of gelu: x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), Hendrycks and Gimpel 2016.
const geluCubic = 0.044715

var geluScale = math.Sqrt(2 / math.Pi)

func geluInner(x float64) float64 { return geluScale * (x + geluCubic*x*x*x) }

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func step(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func ofOne(f func(x float64) float64) function {
	return function{1, false, func(x [3]float64, _ float64) float64 { return f(x[0]) }}
}

func ofTwo(f func(a, b float64) float64) function {
	return function{2, false, func(x [3]float64, _ float64) float64 { return f(x[0], x[1]) }}
}

// Functions are the names of the functions of Elementwise, in order.
func Functions() []string { return slices.Sorted(maps.Keys(functions)) }
