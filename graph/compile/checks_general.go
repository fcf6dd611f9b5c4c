package compile

import (
	"fmt"

	"gputrain/buffers"
	"gputrain/graph"
)

// Checks of the kernels that this package writes itself or shares between operations; see fused.go, reduce.go, norm.go,
// rope.go.
func init() {
	input := func(g *graph.Graph, name string, shape ...int) *graph.Value {
		return g.Input(name, graph.F32(shape...))
	}
	checks = append(checks,
		kernelCheck{name: "elementwise functions", tolerance: 16, build: func(g *graph.Graph) []*graph.Value {
			a, b, c := input(g, "a", 5, 64), input(g, "b", 64), input(g, "c", 5, 1)
			var out []*graph.Value
			for _, fn := range graph.Functions() {
				args := []*graph.Value{a, b, c}[:graph.Elementwise{Fn: fn}.Operands()]
				switch fn {
				case "log", "sqrt", "rsqrt", "recip", "sqrt_grad", "rsqrt_grad", "recip_grad":
					args[0] = g.AddConst(g.Apply("square", a), 0.25)
				case "div":
					args = []*graph.Value{a, g.AddConst(g.Apply("square", b), 0.25)}
				case "pow_const", "pow_const_grad":
					out = append(out, g.Append(graph.Elementwise{Fn: fn, Arg: 3}, args...).Outputs[0])
					continue
				}
				out = append(out, g.Apply(fn, args...))
			}
			return out
		}},
		kernelCheck{name: "elementwise moves", tolerance: 2, build: func(g *graph.Graph) []*graph.Value {
			a := input(g, "a", 6, 8, 12)
			return []*graph.Value{g.Transpose(a, 2, 0, 1), g.Slice(a, 2, 3, 5), g.Pad(a, 1, 2, 3), g.Concat(2, a, a), g.Pad(g.Slice(a, 0, 1, 3), 2, 4, 4)}
		}},
		kernelCheck{name: "dropout", tolerance: 2, build: func(g *graph.Graph) []*graph.Value {
			key := g.Input("key", graph.Type{Shape: []int{2}, DType: buffers.U32})
			return []*graph.Value{g.Dropout(input(g, "a", 33, 64), key, 0.25, 1), g.Dropout(input(g, "b", 7, 5), key, 0.5, 2)}
		}},
		kernelCheck{name: "softmax", tolerance: 32, build: func(g *graph.Graph) []*graph.Value {
			var out []*graph.Value
			for _, d := range []int{5, 64, 260} {
				y, dy := g.Softmax(input(g, fmt.Sprint("a", d), 70, d)), input(g, fmt.Sprint("dy", d), 70, d)
				out = append(out, y, g.Append(graph.SoftmaxGrad{}, y, dy).Outputs[0])
			}
			return out
		}},
		kernelCheck{name: "layer norm", tolerance: 64, build: func(g *graph.Graph) []*graph.Value {
			var out []*graph.Value
			for _, d := range []int{5, 64, 260} {
				a, gamma, beta := input(g, fmt.Sprint("a", d), 70, d), input(g, fmt.Sprint("gamma", d), d), input(g, fmt.Sprint("beta", d), d)
				n := g.Append(graph.LayerNorm{Eps: 1e-5}, a, gamma, beta)
				dy := input(g, fmt.Sprint("dy", d), 70, d)
				out = append(out, n.Outputs[0], g.Append(graph.LayerNormGrad{}, a, gamma, n.Outputs[1], dy).Outputs[0], g.Append(graph.NormGammaGrad{}, a, n.Outputs[1], dy).Outputs[0])
			}
			return out
		}},
		kernelCheck{name: "rms norm", tolerance: 64, build: func(g *graph.Graph) []*graph.Value {
			var out []*graph.Value
			for _, d := range []int{5, 64, 260} {
				a, gamma := input(g, fmt.Sprint("a", d), 70, d), input(g, fmt.Sprint("gamma", d), d)
				n := g.Append(graph.RMSNorm{Eps: 1e-5}, a, gamma)
				dy := input(g, fmt.Sprint("dy", d), 70, d)
				out = append(out, n.Outputs[0], g.Append(graph.RMSNormGrad{}, a, gamma, n.Outputs[1], dy).Outputs[0], g.Append(graph.NormGammaGrad{RMS: true}, a, n.Outputs[1], dy).Outputs[0])
			}
			return out
		}},
		kernelCheck{name: "rope", tolerance: 8, below: 2000, build: func(g *graph.Graph) []*graph.Value {
			a, positions := input(g, "a", 2, 9, 48), g.Input("positions", graph.Type{Shape: []int{2, 9}, DType: buffers.I32})
			return []*graph.Value{g.Rope(a, 16, 10000), g.Append(graph.Rope{HeadDim: 12, Theta: 500, Inverse: true}, a).Outputs[0], g.RopeAt(a, positions, 16, 10000, 2000)}
		}})
	for _, fn := range []string{"sum", "mean", "max"} {
		checks = append(checks, kernelCheck{name: "reduce " + fn, tolerance: 256, build: func(g *graph.Graph) []*graph.Value {
			var out []*graph.Value
			for _, s := range [][]int{{300, 64}, {33, 5}, {7, 1030}} {
				a := input(g, fmt.Sprint("a", s), s...)
				reduced := func(axes ...int) *graph.Value { return g.Append(graph.Reduce{Fn: fn, Axes: axes}, a).Outputs[0] }
				out = append(out, reduced(0), reduced(1), reduced(0, 1))
			}
			return out
		}})
	}
}
