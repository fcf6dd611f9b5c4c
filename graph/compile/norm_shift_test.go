package compile

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/graph"
	"gputrain/internal/gputest"
)

// On GPUs the kernel of a norm's gradient adds up the gradients of gain and shift, which one reduction takes from its partials where the leaves lie side by
// side; elsewhere, and of rows for whose sums there are no registers, the shift's is a pass of its own.
func TestShiftsOfNorms(t *testing.T) {
	d := gputest.Device(t)
	for _, c := range []struct {
		name            string
		rows, width     int
		hardware        bool
		joined, reduced int // norms' gradients that add up the shift's, reductions
	}{
		{"side by side", 70, 256, true, 1, 1},
		{"many rows", 2100, 256, true, 1, 1},
		{"apart", 70, 20, true, 1, 2},
		{"no whole quads", 9, 65, true, 1, 2},
		{"more items than lanes", 17, 1280, true, 1, 1},
		{"wide", 9, 5120, true, 0, 2},
		{"software", 70, 64, false, 0, 2},
	} {
		for _, add := range []bool{false, true} {
			g := graph.New()
			if add { // the leaf of the shift comes first
				g.Param("norm.bias", c.width)
			}
			in, gain, shift := x(g, "x", c.rows, c.width), g.Param("norm.weight", c.width), g.Param("norm.bias", c.width)
			y := g.LayerNorm(in, gain, shift, 1e-5)
			grads, err := graph.Gradients(g, g.Sum(g.Mul(y, x(g, "dy", y.Shape()...))), []*graph.Value{in, gain, shift})
			require.NoError(t, err)
			w := &twin{
				graph: g, hardware: c.hardware, accumulate: add, values: grads[:1],
				leaves: map[string]*graph.Value{"norm.weight": grads[1], "norm.bias": grads[2]},
			}
			w.feed(rand.New(rand.NewPCG(71, 72)))
			p := w.check(t, d, 64*eps*float64(max(1, c.rows/100)))
			assert.Len(t, kernelsNamed(p, "norm_grad_layer_gain_shift"), c.joined, c.name)
			reduced := 0
			for _, label := range labelsOf(p) {
				if strings.HasPrefix(label, "reduce_") {
					reduced++
				}
			}
			assert.Equal(t, c.reduced, reduced, "%s %v", c.name, kernelsNamed(p, "reduce"))
		}
	}
}
