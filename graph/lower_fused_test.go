package graph

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"gputrain/gpu"
	"gputrain/gpu/gputest"
)

// TestFunctionsOnDevice holds every function against its definition, at ordinary and at extreme operands.
func TestFunctionsOnDevice(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for _, size := range []int{1, 5, 64} {
			for _, fn := range functionNames() {
				g := New()
				args := make([]*Value, functions[fn].arity)
				for i := range args {
					args[i] = g.Input(fmt.Sprint("x", i), f32(size))
				}
				op := Elementwise{Fn: fn}
				if functions[fn].arg {
					op.Arg = 3
				}
				w := &twin{graph: g, values: []*Value{g.one(op, args...)}}
				rng := rand.New(rand.NewPCG(uint64(size), 1))
				w.feed(rng)
				for i, v := range w.feeds["x0"].Data {
					switch fn {
					case "log", "sqrt", "rsqrt", "sqrt_grad", "rsqrt_grad":
						w.feeds["x0"].Data[i] = v*v + 0.01
					}
				}
				t.Run(fmt.Sprintf("%s/%d", fn, size), func(t *testing.T) { w.check(t, d, 8*eps) })
			}
		}
	})
}
