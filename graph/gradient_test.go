package graph

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers/array"
)

// problem is a graph under construction with the numbers for its inputs.
type problem struct {
	*Graph
	random *rand.Rand
	feeds  map[string]*Array
	wrt    []*Value
}

func newProblem() *problem {
	return &problem{Graph: New(), random: rand.New(rand.NewPCG(1, 2)), feeds: map[string]*Array{}}
}

// x is a new f32 input, normally distributed, whose gradient is checked.
func (p *problem) x(shape ...int) *Value {
	return p.given(p.random.NormFloat64, shape...)
}

// positive is between 0.5 and 2.
func (p *problem) positive(shape ...int) *Value {
	return p.given(func() float64 { return 0.5 + 1.5*p.random.Float64() }, shape...)
}

func (p *problem) given(draw func() float64, shape ...int) *Value {
	v := p.fixed(draw, shape...)
	p.wrt = append(p.wrt, v)
	return v
}

// fixed is an f32 input whose gradient nobody wants.
func (p *problem) fixed(draw func() float64, shape ...int) *Value {
	return p.input(array.F32, draw, shape...)
}

func (p *problem) input(d array.DType, draw func() float64, shape ...int) *Value {
	a := NewArray(slices.Clone(shape))
	for i := range a.Data {
		a.Data[i] = draw()
	}
	name := fmt.Sprintf("x%d", len(p.feeds))
	p.feeds[name] = a
	return p.Input(name, Type{Shape: shape, DType: d})
}

// integers is an i32 input with the given values.
func (p *problem) integers(shape []int, values ...float64) *Value {
	i := -1
	return p.input(array.I32, func() float64 { i++; return values[i] }, shape...)
}

// key is a u32 pair.
func (p *problem) key() *Value {
	return p.input(array.U32, func() float64 { return float64(p.random.Uint32()) }, 2)
}

// weighted is the sum of y times fixed random numbers: a scalar whose gradient differs from element to element.
func (p *problem) weighted(y *Value) *Value {
	return p.Sum(p.Mul(y, p.fixed(p.random.NormFloat64, y.Shape()...)))
}

// experts is a mixture of 4, of which the last has no rows, with matrices as they lie.
func (p *problem) experts(inOut bool) *Value {
	group := p.Append(Group{Experts: 4, Tile: 3}, p.integers([]int{3, 2}, 1, 0, 2, 1, 1, 2))
	rows, slots, offsets := group.Outputs[0], group.Outputs[1], group.Outputs[2]
	shape := []int{4, 5, 2}
	if inOut {
		shape = []int{4, 2, 5}
	}
	y := p.one(RaggedMatMul{TransW: !inOut, Tile: 3, Rows: 6}, p.one(Spread{}, p.x(3, 2), rows, slots), p.x(shape...), offsets)
	return p.one(Combine{}, y, rows, slots, p.x(3, 2))
}

// gradientCases hold every operation and form; each builds something that is summed with random weights, unless it is a scalar.
var gradientCases = map[string]func(p *problem) *Value{
	"matmul nn":          func(p *problem) *Value { return p.MatMul(p.x(3, 4), p.x(4, 5), false, false) },
	"matmul nt":          func(p *problem) *Value { return p.MatMul(p.x(3, 4), p.x(5, 4), false, true) },
	"matmul tn":          func(p *problem) *Value { return p.MatMul(p.x(4, 3), p.x(4, 5), true, false) },
	"matmul tt":          func(p *problem) *Value { return p.MatMul(p.x(4, 3), p.x(5, 4), true, true) },
	"matmul batch nn":    func(p *problem) *Value { return p.MatMul(p.x(2, 3, 4), p.x(2, 4, 5), false, false) },
	"matmul batch nt":    func(p *problem) *Value { return p.MatMul(p.x(2, 2, 3, 4), p.x(2, 2, 5, 4), false, true) },
	"matmul batch tn":    func(p *problem) *Value { return p.MatMul(p.x(2, 4, 3), p.x(2, 4, 5), true, false) },
	"matmul batch tt":    func(p *problem) *Value { return p.MatMul(p.x(2, 4, 3), p.x(2, 5, 4), true, true) },
	"matmul shared b nn": func(p *problem) *Value { return p.MatMul(p.x(2, 3, 4), p.x(4, 5), false, false) },
	"matmul shared b nt": func(p *problem) *Value { return p.MatMul(p.x(2, 2, 3, 4), p.x(5, 4), false, true) },
	"matmul shared b tn": func(p *problem) *Value { return p.MatMul(p.x(2, 4, 3), p.x(4, 5), true, false) },
	"matmul shared a nn": func(p *problem) *Value { return p.MatMul(p.x(3, 4), p.x(2, 4, 5), false, false) },
	"matmul shared a nt": func(p *problem) *Value { return p.MatMul(p.x(3, 4), p.x(2, 2, 5, 4), false, true) },
	"matmul shared a tn": func(p *problem) *Value { return p.MatMul(p.x(4, 3), p.x(2, 4, 5), true, false) },
	"matmul sum":         func(p *problem) *Value { return p.Sum(p.MatMul(p.x(3, 4), p.x(4, 5), false, false)) },
	"matmul of itself":   func(p *problem) *Value { a := p.x(3, 3); return p.MatMul(a, a, false, true) },
	"linear with bias":   func(p *problem) *Value { return p.Add(p.MatMul(p.x(2, 3, 4), p.x(4, 5), false, false), p.x(5)) },
	"neg":                func(p *problem) *Value { return p.Apply("neg", p.x(5)) },
	"exp":                func(p *problem) *Value { return p.Apply("exp", p.x(5)) },
	"log":                func(p *problem) *Value { return p.Apply("log", p.positive(5)) },
	"sqrt":               func(p *problem) *Value { return p.Apply("sqrt", p.positive(5)) },
	"rsqrt":              func(p *problem) *Value { return p.Apply("rsqrt", p.positive(5)) },
	"square":             func(p *problem) *Value { return p.Apply("square", p.x(5)) },
	"tanh":               func(p *problem) *Value { return p.Apply("tanh", p.x(5)) },
	"sigmoid":            func(p *problem) *Value { return p.Apply("sigmoid", p.x(5)) },
	"relu":               func(p *problem) *Value { return p.Apply("relu", p.x(9)) },
	"gelu_tanh":          func(p *problem) *Value { return p.Apply("gelu_tanh", p.x(9)) },
	"gelu_erf":           func(p *problem) *Value { return p.Apply("gelu_erf", p.x(9)) },
	"silu":               func(p *problem) *Value { return p.Apply("silu", p.x(9)) },
	"recip":              func(p *problem) *Value { return p.Apply("recip", p.positive(5)) },
	"abs":                func(p *problem) *Value { return p.Apply("abs", p.x(9)) },
	"scale":              func(p *problem) *Value { return p.Scale(p.x(5), -2.5) },
	"add_const":          func(p *problem) *Value { return p.AddConst(p.x(5), 3) },
	"pow_const":          func(p *problem) *Value { return p.one(Elementwise{Fn: "pow_const", Arg: 2.5}, p.positive(5)) },
	"add":                func(p *problem) *Value { return p.Add(p.x(2, 3), p.x(2, 3)) },
	"add row":            func(p *problem) *Value { return p.Add(p.x(2, 4, 3), p.x(3)) },
	"add middle":         func(p *problem) *Value { return p.Add(p.x(4, 1), p.x(2, 4, 3)) },
	"add outer":          func(p *problem) *Value { return p.Add(p.x(4, 1), p.x(1, 3)) },
	"add itself":         func(p *problem) *Value { a := p.x(4); return p.Add(a, a) },
	"add constant":       func(p *problem) *Value { return p.Add(p.x(4), p.Constant(2)) },
	"add leading one":    func(p *problem) *Value { return p.Add(p.x(1, 4), p.x(3, 4)) },
	"sub":                func(p *problem) *Value { return p.Sub(p.x(2, 3), p.x(3)) },
	"sub scalar":         func(p *problem) *Value { return p.Sub(p.x(), p.x(2, 3)) },
	"mul":                func(p *problem) *Value { return p.Mul(p.x(2, 3), p.x(2, 3)) },
	"mul outer":          func(p *problem) *Value { return p.Mul(p.x(2, 1, 3), p.x(4, 1)) },
	"mul scalar":         func(p *problem) *Value { return p.Mul(p.x(2, 3), p.x()) },
	"mul itself":         func(p *problem) *Value { a := p.x(4); return p.Mul(a, a) },
	"mul constant":       func(p *problem) *Value { return p.Mul(p.Constant(3), p.x(4)) },
	"div":                func(p *problem) *Value { return p.Div(p.x(2, 3), p.positive(2, 3)) },
	"div row":            func(p *problem) *Value { return p.Div(p.x(2, 3), p.positive(3)) },
	"div column":         func(p *problem) *Value { return p.Div(p.x(3), p.positive(2, 1)) },
	"max":                func(p *problem) *Value { return p.Apply("max", p.x(4, 3), p.x(3)) },
	"equal": func(p *problem) *Value {
		a := p.x(4)
		return p.Add(a, p.Apply("equal", a, p.fixed(func() float64 { return 9 }, 4)))
	},
	"stop_gradient": func(p *problem) *Value { // of what the differences do not move
		return p.Mul(p.x(4), p.StopGradient(p.fixed(p.random.NormFloat64, 4)))
	},
	"sum":                  func(p *problem) *Value { return p.Sum(p.x(2, 3, 4), 0, 2) },
	"sum all":              func(p *problem) *Value { return p.Sum(p.x(2, 3)) },
	"sum last":             func(p *problem) *Value { return p.Sum(p.x(2, 3, 4), 2) },
	"sum first":            func(p *problem) *Value { return p.Sum(p.x(2, 3), 0) },
	"sum keep":             func(p *problem) *Value { return p.one(Reduce{Fn: "sum", Axes: []int{1}, Keep: true}, p.x(2, 3, 4)) },
	"sum of nothing":       func(p *problem) *Value { return p.one(Reduce{Fn: "sum"}, p.x(2, 3)) },
	"sums of sums":         func(p *problem) *Value { return p.Sum(p.Mul(p.Sum(p.x(2, 3, 4), 2), p.x(3))) },
	"sum of broadcast":     func(p *problem) *Value { return p.Sum(p.Add(p.x(4, 1), p.x(2, 1, 3))) },
	"sum of sum broadcast": func(p *problem) *Value { return p.Sum(p.Sum(p.Add(p.x(4, 1), p.x(2, 1, 3)), 1)) },
	"sum keep then sum": func(p *problem) *Value {
		return p.Sum(p.Sum(p.one(Reduce{Fn: "sum", Axes: []int{2}, Keep: true}, p.Mul(p.x(2, 3, 4), p.x(3, 1))), 0), 1)
	},
	"mean":           func(p *problem) *Value { return p.Mean(p.x(2, 3, 4), 1) },
	"mean all":       func(p *problem) *Value { return p.Mean(p.Mul(p.x(2, 3), p.x(3))) },
	"mean keep":      func(p *problem) *Value { return p.one(Reduce{Fn: "mean", Axes: []int{0, 2}, Keep: true}, p.x(2, 3, 4)) },
	"reduce max":     func(p *problem) *Value { return p.Max(p.x(3, 4), 1) },
	"reduce max all": func(p *problem) *Value { return p.Max(p.x(3, 4)) },
	"reduce max keep": func(p *problem) *Value {
		return p.one(Reduce{Fn: "max", Axes: []int{0}, Keep: true}, p.x(3, 4))
	},
	"broadcast":      func(p *problem) *Value { return p.BroadcastTo(p.x(3, 1), 2, 3, 4) },
	"broadcast sum":  func(p *problem) *Value { return p.Sum(p.BroadcastTo(p.x(3, 1), 2, 3, 4)) },
	"broadcast ones": func(p *problem) *Value { return p.BroadcastTo(p.x(3), 1, 1, 3) },
	"reshape":        func(p *problem) *Value { return p.Reshape(p.x(2, 6), 3, 4) },
	"reshape sum":    func(p *problem) *Value { return p.Sum(p.Reshape(p.Mul(p.x(2, 6), p.x(6)), 3, 4)) },
	"transpose":      func(p *problem) *Value { return p.Transpose(p.x(2, 3, 4), 2, 0, 1) },
	"slice":          func(p *problem) *Value { return p.Slice(p.x(3, 5), 1, 1, 3) },
	"slice and whole": func(p *problem) *Value {
		x := p.x(3, 5)
		return p.Mul(p.Slice(x, 1, 1, 3), p.Sum(x, 1).reshaped(p, 3, 1))
	},
	"slices": func(p *problem) *Value {
		x := p.x(3, 6)
		return p.Mul(p.Mul(p.Slice(x, 1, 4, 2), p.Slice(x, 1, 0, 2)), p.Slice(x, 1, 2, 2))
	},
	"slices that overlap": func(p *problem) *Value {
		x := p.x(6)
		return p.Mul(p.Slice(x, 0, 1, 3), p.Slice(x, 0, 2, 3))
	},
	"slices of the front": func(p *problem) *Value {
		x := p.x(6)
		return p.Mul(p.Slice(x, 0, 0, 2), p.Slice(x, 0, 2, 2))
	},
	"slices of two axes": func(p *problem) *Value {
		x := p.x(4, 4)
		return p.Mul(p.Slice(x, 0, 0, 2).reshaped(p, 8), p.Slice(x, 1, 2, 2).reshaped(p, 8))
	},
	"pad":    func(p *problem) *Value { return p.Pad(p.x(2, 3), 1, 1, 2) },
	"concat": func(p *problem) *Value { return p.Concat(1, p.x(2, 3), p.x(2, 1), p.x(2, 2)) },
	"concat part": func(p *problem) *Value {
		return p.Concat(0, p.fixed(p.random.NormFloat64, 2, 3), p.x(1, 3))
	},
	"softmax":    func(p *problem) *Value { return p.Softmax(p.x(3, 5)) },
	"layer norm": func(p *problem) *Value { return p.LayerNorm(p.x(2, 3, 6), p.x(6), p.x(6), 1e-5) },
	"layer norm fixed": func(p *problem) *Value {
		return p.LayerNorm(p.x(3, 6), p.fixed(p.random.NormFloat64, 6), p.fixed(p.random.NormFloat64, 6), 1e-5)
	},
	"layer norm sum": func(p *problem) *Value { return p.Sum(p.LayerNorm(p.x(3, 6), p.x(6), p.x(6), 0.5)) },
	"rms norm":       func(p *problem) *Value { return p.RMSNorm(p.x(2, 3, 6), p.x(6), 1e-5) },
	"attention": func(p *problem) *Value {
		return p.one(Attention{Heads: 2, KVHeads: 2, HeadDim: 3, Causal: true}, p.x(2, 4, 6), p.x(2, 4, 6), p.x(2, 4, 6))
	},
	"attention not causal": func(p *problem) *Value {
		return p.one(Attention{Heads: 2, KVHeads: 2, HeadDim: 3}, p.x(2, 4, 6), p.x(2, 4, 6), p.x(2, 4, 6))
	},
	"attention grouped": func(p *problem) *Value {
		return p.one(Attention{Heads: 4, KVHeads: 2, HeadDim: 3, Causal: true}, p.x(1, 5, 12), p.x(1, 5, 6), p.x(1, 5, 6))
	},
	"attention one kv head": func(p *problem) *Value {
		return p.one(Attention{Heads: 4, KVHeads: 1, HeadDim: 2}, p.x(1, 3, 8), p.x(1, 3, 2), p.x(1, 3, 2))
	},
	"attention packed":            func(p *problem) *Value { return p.PackedAttention(p.x(2, 4, 18), 2, 2, 3, true) },
	"attention packed grouped":    func(p *problem) *Value { return p.PackedAttention(p.x(1, 4, 24), 4, 2, 3, true) },
	"attention packed not causal": func(p *problem) *Value { return p.PackedAttention(p.x(2, 3, 24), 4, 2, 3, false) },
	"attention capped, in a window": func(p *problem) *Value {
		op := Attention{Heads: 4, KVHeads: 2, HeadDim: 3, Packed: true, Causal: true, Scale: 0.8, Cap: 1.5, Window: 2}
		return p.one(op, p.x(2, 4, 24))
	},
	"attention of documents": func(p *problem) *Value {
		op := Attention{Heads: 2, KVHeads: 1, HeadDim: 3, Causal: true, Documents: true}
		return p.one(op, p.x(2, 4, 6), p.x(2, 4, 3), p.x(2, 4, 3), p.integers([]int{2, 4}, 0, 1, 0, 1, 0, 0, 1, 2))
	},
	"convolution": func(p *problem) *Value { return p.one(Convolution{}, p.x(2, 5, 3), p.x(3, 3)) },
	"convolution of documents": func(p *problem) *Value {
		return p.one(Convolution{Documents: true}, p.x(2, 5, 3), p.x(3, 4), p.integers([]int{2, 5}, 0, 1, 0, 0, 1, 0, 1, 2, 3, 0))
	},
	"gated delta": func(p *problem) *Value {
		return gatedDelta(p, GatedDelta{Heads: 4, KeyHeads: 2, KeyDim: 3, ValueDim: 2, Chunk: 8}, 2, 11)
	},
	"gated delta of documents": func(p *problem) *Value {
		op := GatedDelta{Heads: 1, KeyHeads: 1, KeyDim: 2, ValueDim: 3, Chunk: 8, Documents: true}
		return gatedDelta(p, op, 1, 11, p.integers([]int{1, 11}, 0, 1, 0, 0, 1, 2, 3, 4, 5, 6, 0))
	},
	"rope of frequencies": func(p *problem) *Value {
		return p.one(Rope{HeadDim: 6, Frequencies: []float64{1, 0.3}, Factor: 1.5}, p.x(1, 5, 12))
	},
	"rope": func(p *problem) *Value { return p.Rope(p.x(2, 5, 12), 6, 100) },
	"rope at positions": func(p *problem) *Value {
		return p.RopeAt(p.x(2, 3, 12), p.integers([]int{2, 3}, 4, 0, 2, 1, 8, 3), 6, 100, 9)
	},
	"rope inverse": func(p *problem) *Value {
		return p.one(Rope{HeadDim: 4, Theta: 10000, Inverse: true}, p.x(1, 5, 8))
	},
	"attention with sinks": func(p *problem) *Value {
		op := Attention{Heads: 4, KVHeads: 2, HeadDim: 2, Causal: true, Sinks: true}
		return p.one(op, p.x(2, 3, 8), p.x(2, 3, 4), p.x(2, 3, 4), p.x(4))
	},
	"clamped gates": func(p *problem) *Value { // some clamped, none near a limit
		return p.one(ClampedSwiGLU{Limit: 0.75, Alpha: 1.702}, p.given(func() float64 { return math.Round(4*p.random.NormFloat64())/2 + 0.1 }, 5, 8))
	},
	"load balance": func(p *problem) *Value {
		counts := p.one(RouterCounts{Experts: 4}, p.integers([]int{3, 2}, 1, 0, 3, 1, 1, 3), p.fixed(func() float64 { return float64(1 + p.random.IntN(2)) }, 3))
		return p.one(LoadBalance{Chosen: 2}, p.Concat(0, counts, p.Scale(counts, 3)), p.x(2, 4))
	},
	"route":           func(p *problem) *Value { return p.one(Router{K: 3}, p.x(5, 7)) },
	"route all":       func(p *problem) *Value { return p.one(Router{K: 3, All: true}, p.x(5, 7)) },
	"experts":         func(p *problem) *Value { return p.experts(false) },
	"experts, in out": func(p *problem) *Value { return p.experts(true) },
	"embedding":       func(p *problem) *Value { return p.Embedding(p.x(5, 3), p.integers([]int{2, 3}, 4, 1, 4, 0, 4, 1)) },
	"embedding fixed": func(p *problem) *Value {
		return p.Add(p.x(3), p.Embedding(p.fixed(p.random.NormFloat64, 5, 3), p.integers([]int{2}, 1, 1)))
	},
	"cross entropy": func(p *problem) *Value { return p.CrossEntropy(p.x(4, 5), p.integers([]int{4}, 2, 0, 2, 4)) },
	"cross entropy ignored": func(p *problem) *Value {
		return p.Mul(p.x(), p.CrossEntropy(p.x(4, 5), p.integers([]int{4}, -100, 0, -100, 4)))
	},
	"cross entropy all ignored": func(p *problem) *Value {
		return p.CrossEntropy(p.x(2, 5), p.integers([]int{2}, -100, -100))
	},
	"head loss": func(p *problem) *Value {
		return p.Mul(p.Constant(0.25), p.one(HeadLoss{}, p.x(4, 3), p.x(5, 3), p.integers([]int{4}, 2, -100, 2, 4)))
	},
	"head loss all ignored": func(p *problem) *Value {
		return p.one(HeadLoss{}, p.x(2, 3), p.x(5, 3), p.integers([]int{2}, -100, -100))
	},
	"head loss of a cap": func(p *problem) *Value {
		return p.one(HeadLoss{Cap: 1.5}, p.x(4, 3), p.x(5, 3), p.integers([]int{4}, 2, -100, 2, 4))
	},
	"head loss with options": func(p *problem) *Value {
		return p.Mul(p.x(), p.one(HeadLoss{Smoothing: 0.3, ZLoss: 0.7, Cap: 1.5}, p.x(4, 3), p.x(5, 3), p.integers([]int{4}, 2, -100, 2, 4)))
	},
	"head loss of each row": func(p *problem) *Value {
		each := p.one(HeadLoss{Each: true}, p.x(4, 3), p.x(5, 3), p.integers([]int{4}, 2, -100, 2, 4))
		return p.Sum(p.Mul(each, p.Add(each, p.x(4))))
	},
	"head divergence, forward":     divergence(HeadDivergence{Temperature: 0.8}),
	"head divergence, reverse":     divergence(HeadDivergence{Beta: 1, Temperature: 1.3, Cap: 1.5}),
	"head divergence, between":     divergence(HeadDivergence{Beta: 0.3, Temperature: 1, TeacherCap: 2}),
	"head divergence, listed":      divergence(HeadDivergence{Temperature: 1.2, Listed: 2}),
	"head divergence, listed back": divergence(HeadDivergence{Beta: 1, Temperature: 0.7, Listed: 2}),
	"head divergence, listed half": divergence(HeadDivergence{Beta: 0.5, Temperature: 1, Listed: 2}),
	"head loss fixed": func(p *problem) *Value {
		return p.one(HeadLoss{}, p.x(2, 3), p.fixed(p.random.NormFloat64, 5, 3), p.integers([]int{2}, 1, 0))
	},
	"quantize": func(p *problem) *Value { // its own gradient is none that differences show
		return p.Mul(p.x(3, 40), p.Quantize(p.fixed(p.random.NormFloat64, 3, 40), Quantize{Mode: "nf4", Group: 32}))
	},
	"dropout": func(p *problem) *Value { return p.Dropout(p.x(4, 6), p.key(), 0.4, 7) },
	"tied": func(p *problem) *Value { // embedding and head share the matrix
		w := p.x(5, 3)
		return p.one(HeadLoss{}, p.Embedding(w, p.integers([]int{3}, 4, 1, 4)), w, p.integers([]int{3}, 1, 4, 0))
	},
}

// gatedDelta has decays of 0 and below, and rates in (0, 1).
func gatedDelta(p *problem, op GatedDelta, b, t int, positions ...*Value) *Value {
	in := []*Value{
		p.x(b, t, op.KeyHeads*op.KeyDim), p.x(b, t, op.KeyHeads*op.KeyDim), p.x(b, t, op.Heads*op.ValueDim),
		p.Apply("neg", p.positive(b, t, op.Heads)), p.Apply("sigmoid", p.x(b, t, op.Heads)),
	}
	return p.one(op, append(in, positions...)...)
}

// divergence is from a teacher that is fixed.
func divergence(op HeadDivergence) func(p *problem) *Value {
	return func(p *problem) *Value {
		in := []*Value{p.x(4, 3), p.x(5, 3), p.integers([]int{4}, 2, -100, 2, 4)}
		fixed := func(values ...float64) func() float64 {
			i := -1
			return func() float64 { i++; return values[i] }
		}
		if op.Listed > 0 {
			third, half := math.Log(1./3), math.Log(0.5)
			in = append(in, p.fixed(fixed(1, 4, 0, 2, 3, 2, 0, 1), 4, 2),
				p.fixed(fixed(third, third, third, 2*half, half, 2*half, 3*half, 2*half), 4, 2), p.fixed(fixed(third, math.Log(5./12), 2*half, math.Log(0.625)), 4))
		} else {
			in = append(in, p.fixed(p.random.NormFloat64, 4, 2), p.fixed(p.random.NormFloat64, 5, 2))
		}
		return p.Mul(p.x(), p.one(op, in...))
	}
}

func (v *Value) reshaped(p *problem, shape ...int) *Value { return p.Reshape(v, shape...) }

// differences is the gradient of loss with respect to the input called name by central differences.
func differences(t *testing.T, p *problem, loss, x *Value) *Array {
	t.Helper()
	const h = 1e-5 // error of the order of h^2 from the third derivative, and of 1e-16/h from rounding
	in := p.feeds[x.node.Op.(Input).Name]
	out := NewArray(in.Shape)
	for i, at := range in.Data {
		var f [2]float64
		for side, d := range []float64{h, -h} {
			in.Data[i] = at + d
			y, err := Eval(p.Graph, p.feeds, loss)
			require.NoError(t, err)
			f[side] = y[0].Data[0]
		}
		in.Data[i] = at
		out.Data[i] = (f[0] - f[1]) / (2 * h)
	}
	return out
}

// near tells the worst difference where a gradient is off by more than 1e-8 of the largest of its elements, or of 1.
func near(got, want *Array) error {
	if !slices.Equal(got.Shape, want.Shape) {
		return fmt.Errorf("shape %v, want %v", got.Shape, want.Shape)
	}
	scale := 1.0
	for _, w := range want.Data {
		scale = max(scale, math.Abs(w))
	}
	for i, w := range want.Data {
		if d := math.Abs(got.Data[i] - w); !(d <= 1e-8*scale) {
			return fmt.Errorf("element %d is %v, want %v", i, got.Data[i], w)
		}
	}
	return nil
}

func TestGradients(t *testing.T) {
	kinds, fns := map[string]bool{}, map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(gradientCases)) {
		t.Run(name, func(t *testing.T) {
			p := newProblem()
			loss := gradientCases[name](p)
			require.NoError(t, p.Err())
			if len(loss.Shape()) > 0 {
				loss = p.weighted(loss)
			}
			forward := len(p.nodes)
			grads, err := Gradients(p.Graph, loss, p.wrt)
			require.NoError(t, err)
			got, err := Eval(p.Graph, p.feeds, grads...)
			require.NoError(t, err)
			for i, x := range p.wrt {
				assert.NoError(t, near(got[i], differences(t, p, loss, x)), "gradient of input %d\n%v", i, p.Graph)
			}
			needed := map[*Node]bool{}
			for _, n := range p.ancestors(grads) {
				needed[n] = true
			}
			for _, n := range p.nodes[forward:] {
				if _, constant := n.Op.(Constant); !constant {
					assert.True(t, needed[n], "%v is of no use\n%v", n, p.Graph)
				}
			}
			for _, n := range p.nodes {
				kinds[n.Op.Kind()] = true
				if e, ok := n.Op.(Elementwise); ok {
					fns[e.Fn] = true
				}
			}
		})
	}
	for _, kind := range kindsHere(t) {
		passes := slices.Contains([]string{"param", "cached_attention", "cached_convolution", "cached_delta", "sample"}, kind) // what training has no gradient through
		assert.True(t, kinds[kind] || passes, "no gradient case has the operation %s", kind)
	}
	for fn := range functions {
		assert.True(t, fns[fn], "no gradient case has the function %s", fn)
	}
}

// kindsHere are the kinds of all operations that this folder declares.
func kindsHere(t *testing.T) (kinds []string) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	declared := regexp.MustCompile(`\) Kind\(\) string \{ return "(\w+)" \}`)
	for _, f := range files {
		source, err := os.ReadFile(f)
		require.NoError(t, err)
		for _, m := range declared.FindAllStringSubmatch(string(source), -1) {
			kinds = append(kinds, m[1])
		}
	}
	require.Contains(t, kinds, "matmul")
	return kinds
}

func TestGradientComparatorRejectsOneElement(t *testing.T) {
	want := &Array{Shape: []int{3}, Data: []float64{1, -2, 300}}
	for i := range want.Data {
		got := &Array{Shape: []int{3}, Data: slices.Clone(want.Data)}
		require.NoError(t, near(got, want))
		got.Data[i] += 1e-5
		assert.Error(t, near(got, want))
		got.Data[i] = math.NaN()
		assert.Error(t, near(got, want))
	}
}

// backward is the dump of the nodes that Gradients adds.
func backward(t *testing.T, p *problem, loss *Value, wrt ...*Value) string {
	t.Helper()
	n := len(p.nodes)
	_, err := Gradients(p.Graph, loss, wrt)
	require.NoError(t, err)
	return strings.Join(strings.SplitAfter(p.String(), "\n")[n:], "")
}
