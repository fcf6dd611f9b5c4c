package graph

import (
	"fmt"

	"gputrain/buffers"
)

// Checks of the kernels that this package writes itself or shares between operations; see lower_fused.go, lower_reduce.go,
// lower_norm.go, lower_rope.go.
func init() {
	input := func(g *Graph, name string, shape ...int) *Value { return g.Input(name, f32(shape...)) }
	checks = append(checks,
		kernelCheck{name: "elementwise functions", tolerance: 16, build: func(g *Graph) []*Value {
			a, b, c := input(g, "a", 5, 64), input(g, "b", 64), input(g, "c", 5, 1)
			var out []*Value
			for _, fn := range functionNames() {
				args := []*Value{a, b, c}[:functions[fn].arity]
				switch fn {
				case "log", "sqrt", "rsqrt", "recip", "sqrt_grad", "rsqrt_grad", "recip_grad":
					args[0] = g.AddConst(g.Apply("square", a), 0.25)
				case "div":
					args = []*Value{a, g.AddConst(g.Apply("square", b), 0.25)}
				case "pow_const", "pow_const_grad":
					out = append(out, g.one(Elementwise{Fn: fn, Arg: 3}, args...))
					continue
				}
				out = append(out, g.Apply(fn, args...))
			}
			return out
		}},
		kernelCheck{name: "elementwise moves", tolerance: 2, build: func(g *Graph) []*Value {
			a := input(g, "a", 6, 8, 12)
			return []*Value{g.Transpose(a, 2, 0, 1), g.Slice(a, 2, 3, 5), g.Pad(a, 1, 2, 3), g.Concat(2, a, a), g.Pad(g.Slice(a, 0, 1, 3), 2, 4, 4)}
		}},
		kernelCheck{name: "dropout", tolerance: 2, build: func(g *Graph) []*Value {
			key := g.Input("key", Type{Shape: []int{2}, DType: buffers.U32})
			return []*Value{g.Dropout(input(g, "a", 33, 64), key, 0.25, 1), g.Dropout(input(g, "b", 7, 5), key, 0.5, 2)}
		}},
		kernelCheck{name: "softmax", tolerance: 32, build: func(g *Graph) []*Value {
			var out []*Value
			for _, d := range []int{5, 64, 260} {
				y, dy := g.Softmax(input(g, fmt.Sprint("a", d), 70, d)), input(g, fmt.Sprint("dy", d), 70, d)
				out = append(out, y, g.one(SoftmaxGrad{}, y, dy))
			}
			return out
		}},
		kernelCheck{name: "layer norm", tolerance: 64, build: func(g *Graph) []*Value {
			var out []*Value
			for _, d := range []int{5, 64, 260} {
				a, gamma, beta := input(g, fmt.Sprint("a", d), 70, d), input(g, fmt.Sprint("gamma", d), d), input(g, fmt.Sprint("beta", d), d)
				n := g.add(LayerNorm{Eps: 1e-5}, a, gamma, beta)
				dy := input(g, fmt.Sprint("dy", d), 70, d)
				out = append(out, n.Outputs[0], g.one(LayerNormGrad{}, a, gamma, n.Outputs[1], dy), g.one(NormGammaGrad{}, a, n.Outputs[1], dy))
			}
			return out
		}},
		kernelCheck{name: "rms norm", tolerance: 64, build: func(g *Graph) []*Value {
			var out []*Value
			for _, d := range []int{5, 64, 260} {
				a, gamma := input(g, fmt.Sprint("a", d), 70, d), input(g, fmt.Sprint("gamma", d), d)
				n := g.add(RMSNorm{Eps: 1e-5}, a, gamma)
				dy := input(g, fmt.Sprint("dy", d), 70, d)
				out = append(out, n.Outputs[0], g.one(RMSNormGrad{}, a, gamma, n.Outputs[1], dy), g.one(NormGammaGrad{RMS: true}, a, n.Outputs[1], dy))
			}
			return out
		}},
		kernelCheck{name: "rope", tolerance: 8, below: 2000, build: func(g *Graph) []*Value {
			a, positions := input(g, "a", 2, 9, 48), g.Input("positions", Type{Shape: []int{2, 9}, DType: buffers.I32})
			return []*Value{g.Rope(a, 16, 10000), g.one(Rope{HeadDim: 12, Theta: 500, Inverse: true}, a), g.RopeAt(a, positions, 16, 10000, 2000)}
		}})
	for _, fn := range []string{"sum", "mean", "max"} {
		checks = append(checks, kernelCheck{name: "reduce " + fn, tolerance: 256, build: func(g *Graph) []*Value {
			var out []*Value
			for _, s := range [][]int{{300, 64}, {33, 5}, {7, 1030}} {
				a := input(g, fmt.Sprint("a", s), s...)
				out = append(out, g.reduce(fn, a, []int{0}), g.reduce(fn, a, []int{1}), g.reduce(fn, a, []int{0, 1}))
			}
			return out
		}})
	}
}
