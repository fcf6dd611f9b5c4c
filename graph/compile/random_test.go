package compile

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/internal/gputest"
)

// randomGraph grows a graph of elementwise operations, moves and reductions from a seed, so that every value stays of the
// order of 1, and wants a few of its values.
func randomGraph(seed uint64) *twin {
	rng := rand.New(rand.NewPCG(seed, 3))
	g := graph.New()
	w := &twin{graph: g}
	dims := []int{1, 2, 3, 4, 8, 12, 5}
	shape := make([]int, 1+rng.IntN(3))
	for i := range shape {
		shape[i] = dims[rng.IntN(len(dims))]
	}
	values := []*graph.Value{x(g, "x0", shape...), g.Param("p.w", shape...), g.Constant(0.5)}
	pick := func() *graph.Value { return values[rng.IntN(len(values))] }
	for len(values) < 24 {
		a := pick()
		s := a.Shape()
		var v *graph.Value
		switch rng.IntN(12) {
		case 0, 1, 2:
			v = g.Apply([]string{"neg", "tanh", "sigmoid", "relu", "gelu_tanh", "gelu_erf", "abs"}[rng.IntN(7)], a)
		case 3, 4, 5:
			b := pick()
			if _, err := (graph.Elementwise{Fn: "add"}).Infer([]*graph.Value{a, b}); err != nil {
				continue
			}
			v = g.Apply([]string{"add", "sub", "max"}[rng.IntN(3)], a, b)
			v = g.Apply("tanh", v)
		case 6:
			if len(s) == 0 {
				continue
			}
			v = g.Apply("tanh", g.Append(graph.Reduce{Fn: []string{"sum", "mean"}[rng.IntN(2)], Axes: []int{rng.IntN(len(s))}, Keep: rng.IntN(2) == 0}, a).Outputs[0])
		case 7:
			if len(s) < 2 {
				continue
			}
			perm := rng.Perm(len(s))
			v = g.Transpose(a, perm...)
		case 8:
			if len(s) == 0 {
				continue
			}
			axis := rng.IntN(len(s))
			start := rng.IntN(s[axis])
			v = g.Slice(a, axis, start, 1+rng.IntN(s[axis]-start))
		case 9:
			if len(s) == 0 || graph.Elements(s) > 2000 {
				continue
			}
			v = g.Pad(a, rng.IntN(len(s)), rng.IntN(5), rng.IntN(5))
		case 10:
			if len(s) == 0 || graph.Elements(s) > 2000 {
				continue
			}
			axis := rng.IntN(len(s))
			v = g.Concat(axis, a, g.Slice(a, axis, 0, 1+rng.IntN(s[axis])))
		case 11:
			v = g.Reshape(a, graph.Elements(s))
			if graph.Elements(s)%4 == 0 && rng.IntN(2) == 0 {
				v = g.Reshape(a, graph.Elements(s)/4, 4)
			}
			if rng.IntN(2) == 0 {
				v = g.BroadcastTo(v, append([]int{2}, v.Shape()...)...)
			}
		}
		values = append(values, v)
	}
	w.values = []*graph.Value{values[len(values)-1]}
	for range 3 {
		if v := pick(); !slices.Contains(w.values, v) {
			w.values = append(w.values, v)
		}
	}
	w.feed(rng)
	return w
}

// TestRandomGraphsOnDevice compiles random graphs, which fuse, alias and share buffers in ways nobody wrote down.
func TestRandomGraphsOnDevice(t *testing.T) {
	seeds := make([]uint64, 60)
	for i := range seeds {
		seeds[i] = uint64(i)
	}
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for _, seed := range gputest.Some(t, d, gputest.Rows(seeds, 4)) {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				w := randomGraph(seed)
				require.NoError(t, w.graph.Err())
				// A chain of at most 24 operations, each with a slope of about 1 at most, or a short sum.
				p := w.check(t, d, 200*eps)
				require.LessOrEqual(t, p.Plan().Dispatches, len(w.graph.Nodes())*2)
			})
		}
	})
}
