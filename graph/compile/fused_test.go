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

func inferred(op graph.Op, args []*graph.Value) bool {
	_, err := op.Infer(args)
	return err == nil
}

// TestFunctionsOnDevice holds every function against its definition, at ordinary and at extreme operands.
func TestFunctionsOnDevice(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for _, size := range gputest.Some(t, d, []int{5, 1, 64}) {
			for _, fn := range graph.Functions() {
				g := graph.New()
				args := make([]*graph.Value, graph.Elementwise{Fn: fn}.Operands())
				for i := range args {
					args[i] = g.Input(fmt.Sprint("x", i), graph.F32(size))
				}
				op := graph.Elementwise{Fn: fn}
				if with := (graph.Elementwise{Fn: fn, Arg: 3}); inferred(with, args) {
					op = with
				}
				w := &twin{graph: g, values: []*graph.Value{g.Append(op, args...).Outputs[0]}}
				rng := rand.New(rand.NewPCG(uint64(size), 1))
				w.feed(rng)
				for i, v := range w.feeds["x0"].Data {
					switch fn {
					case "log", "sqrt", "rsqrt", "sqrt_grad", "rsqrt_grad":
						w.feeds["x0"].Data[i] = v*v + 0.01
					case "equal", "max", "max_grad":
						if i%2 == 0 {
							w.feeds["x0"].Data[i] = w.feeds["x1"].Data[i]
						}
					}
				}
				t.Run(fmt.Sprintf("%s/%d", fn, size), func(t *testing.T) { w.check(t, d, 8*eps) })
			}
		}
	})
}

// Dropouts share a kernel whatever their salts, alone and two in one kernel, each with masks of its own: a model compiles no more for more layers.
func TestDropoutsShareAKernel(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		w := &twin{graph: graph.New()}
		g := w.graph
		a, key := x(g, "a", 8, 12), g.Input("key", graph.Type{Shape: []int{2}, DType: buffers.U32})
		drop := func(salt uint32) *graph.Value { return g.Dropout(a, key, 0.3, salt) }
		w.values = []*graph.Value{drop(1), drop(2), drop(1 << 31), g.Mul(drop(4), drop(5)), g.Mul(drop(5), drop(6))}
		w.feed(rand.New(rand.NewPCG(43, 44)))
		p := w.check(t, d, 4*eps)
		require.Len(t, kernelsNamed(p, "elementwise"), 2)
	})
}

// TestFunctionsAtExtremes: what saturates does so at both ends, without NaN and without infinities.
func TestFunctionsAtExtremes(t *testing.T) {
	at := []float64{0, 1e-30, -1e-30, 9, -9, 20, -20, 90, -90, 1e4, -1e4, 1e30, -1e30}
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for _, fn := range []string{
			"tanh", "sigmoid", "gelu_tanh", "gelu_erf", "silu", "relu", "abs",
			"tanh_grad", "sigmoid_grad", "gelu_tanh_grad", "gelu_erf_grad", "silu_grad", "relu_grad", "abs_grad",
		} {
			g := graph.New()
			args := []*graph.Value{x(g, "x0", len(at))}
			w := &twin{graph: g, feeds: map[string]*graph.Array{"x0": {Shape: []int{len(at)}, Data: at}}}
			if (graph.Elementwise{Fn: fn}).Operands() == 2 {
				args = append(args, g.Constant(1.5))
			}
			w.values = []*graph.Value{g.Apply(fn, args...)}
			t.Run(fn, func(t *testing.T) { w.check(t, d, 8*eps) })
		}
	})
}

// TestDivided divides by the reciprocals that kernels have in their params, as they do.
func TestDivided(t *testing.T) {
	for d := 1; d <= maxQuickItems; d += 1 + d/64 {
		reciprocal := float32(1 / float64(d))
		for i := range maxQuickItems / d {
			for _, n := range []int{i * d, i*d + d - 1} {
				if got := int32((float32(n) + 0.5) * reciprocal); int(got) != n/d {
					t.Fatalf("%d / %d: found %d, wanted %d", n, d, got, n/d)
				}
			}
		}
	}
}
