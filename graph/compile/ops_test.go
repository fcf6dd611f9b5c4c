package compile

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/internal/gputest"
)

// opCase builds one operation over inputs and params of its own.
type opCase struct {
	name      string
	build     func(g *graph.Graph) []*graph.Value
	tolerance float64 // of the values; gradients get four times as much, for their longer chains
}

func x(g *graph.Graph, name string, shape ...int) *graph.Value {
	return g.Input(name, graph.F32(shape...))
}

// opCases cover the general operations at sizes around a vec4, a workgroup and a level of a reduction.
func opCases() []opCase {
	var cases []opCase
	add := func(tolerance float64, build func(g *graph.Graph) []*graph.Value, format string, args ...any) {
		cases = append(cases, opCase{fmt.Sprintf(format, args...), build, tolerance})
	}
	one := func(v *graph.Value) []*graph.Value { return []*graph.Value{v} }
	for _, s := range [][]int{{1}, {3, 4}, {5, 3}, {63}, {64, 65}, {2, 3, 8}} {
		rows := append(append([]int{}, s[:len(s)-1]...), 1)
		add(2*eps, func(g *graph.Graph) []*graph.Value { return one(g.Add(x(g, "a", s...), x(g, "b", s[len(s)-1]))) }, "add bias %v", s)
		add(2*eps, func(g *graph.Graph) []*graph.Value { return one(g.Mul(x(g, "a", s...), x(g, "b", rows...))) }, "mul column %v", s)
		add(2*eps, func(g *graph.Graph) []*graph.Value { return one(g.Mul(x(g, "a", s...), x(g, "b"))) }, "mul scalar %v", s)
		add(4*eps, func(g *graph.Graph) []*graph.Value {
			return one(g.Apply("gelu_tanh", g.Add(g.Param("p.w", s...), x(g, "b", s[len(s)-1]))))
		}, "bias gelu of a param %v", s)
		add(2*eps, func(g *graph.Graph) []*graph.Value {
			return one(g.Dropout(x(g, "a", s...), g.Input("key", graph.Type{Shape: []int{2}, DType: buffers.U32}), 0.3, 7))
		}, "dropout %v", s)
		add(2*eps, func(g *graph.Graph) []*graph.Value { return one(g.BroadcastTo(x(g, "a", rows...), s...)) }, "broadcast %v", s)
		add(2*eps, func(g *graph.Graph) []*graph.Value {
			return one(g.Scale(g.Reshape(x(g, "a", s...), graph.Elements(s)), 2))
		}, "reshape %v", s)
	}
	for _, s := range [][]int{{3, 4}, {5, 3}, {8, 12}, {2, 3, 8}, {1, 5}} {
		last := len(s) - 1
		perm := []int{last}
		for i := range last {
			perm = append(perm, i)
		}
		add(eps, func(g *graph.Graph) []*graph.Value { return one(g.Transpose(x(g, "a", s...), perm...)) }, "transpose %v", s)
		add(2*eps, func(g *graph.Graph) []*graph.Value {
			a := x(g, "a", s...)
			return []*graph.Value{g.Slice(a, last, 1, s[last]-2), g.Slice(a, 0, s[0]/2, s[0]-s[0]/2), g.Scale(g.Slice(a, last, 1, 1), 3)}
		}, "slice %v", s)
		add(2*eps, func(g *graph.Graph) []*graph.Value {
			a := x(g, "a", s...)
			return []*graph.Value{g.Pad(a, last, 4, 0), g.Pad(a, 0, 1, 2), g.Scale(g.Pad(g.Scale(a, 3), last, 3, 1), 2)}
		}, "pad %v", s)
		add(2*eps, func(g *graph.Graph) []*graph.Value {
			a, b := x(g, "a", s...), g.Scale(x(g, "b", s...), 2)
			return []*graph.Value{g.Concat(last, a, b, a), g.Concat(0, b, a)}
		}, "concat %v", s)
	}
	reduced := map[string]func(g *graph.Graph, x *graph.Value, axes ...int) *graph.Value{"sum": (*graph.Graph).Sum, "mean": (*graph.Graph).Mean, "max": (*graph.Graph).Max}
	for _, s := range [][]int{{1, 1}, {5, 3}, {3, 4, 5}, {2, 700, 4}, {130, 36}, {3, 1030}, {2, 2, 3, 4}} {
		for _, axes := range [][]int{{0}, {len(s) - 1}, {0, len(s) - 1}, nil} {
			for _, fn := range []string{"sum", "mean", "max"} {
				// A sum of n numbers of either sign: each of about log2 n + 16 roundings is of at most n eps/2; a mean and a max less.
				add(64*eps, func(g *graph.Graph) []*graph.Value { return one(reduced[fn](g, x(g, "a", s...), axes...)) }, "%s %v over %v", fn, s, axes)
			}
		}
		add(64*eps, func(g *graph.Graph) []*graph.Value {
			a := x(g, "a", s...)
			return one(g.Mean(g.Apply("square", g.Sub(a, g.Scale(x(g, "b", s...), 0.5)))))
		}, "mean square error %v", s)
	}
	for _, s := range [][]int{{1, 1}, {3, 4}, {5, 7}, {65, 12}, {2, 3, 128}, {3, 300}} {
		d := s[len(s)-1]
		add(16*eps, func(g *graph.Graph) []*graph.Value { return one(g.Softmax(g.Scale(x(g, "a", s...), 3))) }, "softmax %v", s)
		if d == 1 { // the variance is 0: nothing but rounding, times 1/sqrt(eps)
			continue
		}
		add(32*eps, func(g *graph.Graph) []*graph.Value {
			return one(g.LayerNorm(x(g, "a", s...), g.Param("ln.weight", d), g.Param("ln.bias", d), 1e-5))
		}, "layer norm %v", s)
		add(32*eps, func(g *graph.Graph) []*graph.Value {
			return one(g.RMSNorm(x(g, "a", s...), g.Param("ln.weight", d), 1e-5))
		}, "rms norm %v", s)
	}
	for _, s := range [][3]int{{1, 1, 2}, {2, 5, 12}, {2, 3, 32}, {1, 4, 16}} {
		head := s[2]
		if s[2] > 8 {
			head = s[2] / 2
		}
		add(8*eps, func(g *graph.Graph) []*graph.Value { return one(g.Rope(x(g, "a", s[:]...), head, 10000)) }, "rope %v", s)
	}
	for _, frequencies := range [][]float64{{1, 0.1, 0.01, 0.001}, {1, 0.3, 0.02}} { // whole quads, and others
		op := graph.Rope{HeadDim: 12, Frequencies: frequencies, Factor: 1.25}
		add(8*eps, func(g *graph.Graph) []*graph.Value { return one(g.Append(op, x(g, "a", 2, 5, 24)).Outputs[0]) }, "rope %v", frequencies)
	}
	return cases
}

// TestOperationsOnDevice holds every general operation and its gradient against Eval.
func TestOperationsOnDevice(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for _, c := range gputest.Some(t, d, opCases()) {
			t.Run(c.name, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(1, 2))
				forward := &twin{graph: graph.New()}
				forward.values = c.build(forward.graph)
				forward.feed(rng)
				forward.check(t, d, c.tolerance)
				forward.hardware = true
				forward.check(t, d, c.tolerance)

				// The loss weighs every element of every value differently.
				g := graph.New()
				loss := g.Constant(0)
				for i, v := range c.build(g) {
					loss = g.Add(loss, g.Sum(g.Mul(v, x(g, fmt.Sprint("weight", i), v.Shape()...))))
				}
				w := &twin{graph: g, leaves: map[string]*graph.Value{}}
				var wrt []*graph.Value
				var paths []string
				for _, n := range g.Nodes() {
					switch op := n.Op.(type) {
					case graph.Param:
						wrt, paths = append(wrt, n.Outputs[0]), append(paths, op.Path)
					case graph.Input:
						if n.Outputs[0].DType() == buffers.F32 {
							wrt, paths = append(wrt, n.Outputs[0]), append(paths, "")
						}
					}
				}
				grads, err := graph.Gradients(g, loss, wrt)
				require.NoError(t, err)
				for i, path := range paths {
					if path != "" {
						w.leaves[path] = grads[i]
					} else {
						w.values = append(w.values, grads[i])
					}
				}
				w.feed(rng)
				w.check(t, d, 4*c.tolerance)
				w.hardware = true
				w.check(t, d, 4*c.tolerance)
			})
		}
	})
}
