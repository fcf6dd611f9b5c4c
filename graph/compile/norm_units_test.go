package compile

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/graph"
	"gputrain/internal/gputest"
)

// rotatedNorm is a norm over rows of a width, and the rotation of heads of tokens [2, time, heads HeadDim] behind it.
type rotatedNorm struct {
	name           string
	op             graph.Rope
	width          int // of the norm's rows
	heads, time    int
	onePlus, apart bool // the gain is stored less 1; kernels of their own are wanted
}

var rotatedNorms = []rotatedNorm{
	{name: "heads of 64", op: graph.Rope{HeadDim: 64, Theta: 10000}, width: 64, heads: 3, time: 5},
	{name: "of 96", op: graph.Rope{HeadDim: 96, Theta: 10000}, width: 96, heads: 1, time: 9},
	{name: "of 128", op: graph.Rope{HeadDim: 128, Theta: 1e6}, width: 128, heads: 2, time: 5},
	{name: "of 256, gain less 1", op: graph.Rope{HeadDim: 256, Theta: 10000}, width: 256, heads: 2, time: 3, onePlus: true},
	{name: "of 320", op: graph.Rope{HeadDim: 320, Theta: 10000}, width: 320, heads: 1, time: 3},
	{name: "all heads as one", op: graph.Rope{HeadDim: 16, Theta: 10000}, width: 80, heads: 5, time: 7},
	{name: "two heads as one", op: graph.Rope{HeadDim: 8, Theta: 10000}, width: 16, heads: 6, time: 7},
	{name: "positions given", op: graph.Rope{HeadDim: 32, Theta: 10000, Window: 2000}, width: 32, heads: 3, time: 6},
	{name: "all heads as one, positions given", op: graph.Rope{HeadDim: 16, Theta: 10000, Window: 50}, width: 48, heads: 3, time: 6},
	{name: "amplified", op: graph.Rope{HeadDim: 16, Frequencies: []float64{1, .5, .2, .1, .05, .02, .01, .001}, Factor: 1.3}, width: 16, heads: 2, time: 4},
	{name: "turned back", op: graph.Rope{HeadDim: 16, Theta: 100, Inverse: true}, width: 16, heads: 2, time: 4},
	{name: "of 320 in a row of 960", op: graph.Rope{HeadDim: 320, Theta: 10000}, width: 960, heads: 3, time: 9},
	{name: "many rows", op: graph.Rope{HeadDim: 8, Theta: 100}, width: 8, heads: 2, time: 2100},
	{name: "pairs that do not fill a head", op: graph.Rope{HeadDim: 16, Frequencies: []float64{1, .1, .01, .001}}, width: 16, heads: 2, time: 4, apart: true},
	{name: "pairs that do not come in fours", op: graph.Rope{HeadDim: 12, Theta: 100}, width: 12, heads: 2, time: 4, apart: true},
}

// build has what the norm and the rotation make, and the gradients by x and by the gain, from the graph's own differentiation.
func (r rotatedNorm) build(t *testing.T) *twin {
	g := graph.New()
	tokens := r.heads * r.op.HeadDim
	input := x(g, "x", 2*r.time*tokens/r.width, r.width)
	gain := g.Param("norm.weight", r.width)
	gamma := gain
	if r.onePlus {
		gamma = g.AddConst(gain, 1)
	}
	given := []*graph.Value{g.Reshape(g.Reshape(g.RMSNorm(input, gamma, 1e-6), 2*r.time, tokens), 2, r.time, tokens)}
	if r.op.Window > 0 {
		given = append(given, checkedInts(g, "positions", 2, r.time))
	}
	y := g.Append(r.op, given...).Outputs[0]
	grads, err := graph.Gradients(g, g.Sum(g.Mul(y, x(g, "weight", y.Shape()...))), []*graph.Value{input, gain})
	require.NoError(t, err)
	w := &twin{graph: g, values: []*graph.Value{y, grads[0]}, leaves: map[string]*graph.Value{"norm.weight": grads[1]}, feeds: map[string]*graph.Array{}}
	if r.op.Window > 0 {
		w.feeds["positions"] = (Check{Below: r.op.Window}).feeds(g)["positions"]
	}
	w.feed(rand.New(rand.NewPCG(51, 52)))
	return w
}

// TestRotatedNorms: a norm and the rotation of its heads are one kernel, on GPUs also backwards and with the gradient by the gain; there they have the bits
// of kernels of their own, and everywhere the numbers of Eval.
func TestRotatedNorms(t *testing.T) {
	d := gputest.Device(t)
	for _, r := range gputest.Rows(rotatedNorms, 2) {
		t.Run(r.name, func(t *testing.T) {
			w := r.build(t)
			tolerance := 64 * eps * float64(max(1, r.time/100)) // gains add up as many terms
			p := w.check(t, d, tolerance)
			assert.Equal(t, !r.apart, len(kernelsNamed(p, "norm_rms_rope")) == 1)
			w.accumulate, w.hardware = true, true
			p = w.check(t, d, tolerance)
			assert.Equal(t, r.apart, len(kernelsNamed(p, "rope")) > 0)
			assert.Equal(t, !r.apart, len(kernelsNamed(p, "norm_grad_rms_rope")) == 1)
			assert.Contains(t, kernelsNamed(p, "norm_grad")[0], "_gain")
			joined, _ := w.run(t, d)
			w.buffers = 4 // with which there is no room for tables and sums
			apart, q := w.run(t, d)
			for _, v := range []string{"v0", "v1"} {
				assert.Equal(t, apart[v], joined[v], v)
			}
			assert.Len(t, kernelsNamed(q, "rope"), 2)
			assert.NotContains(t, kernelsNamed(q, "norm_grad")[0], "_gain")
		})
	}
}

// What else reads the result of a norm, or wants it, has it; so has what else reads the gradient of a rotation.
func TestNormsThatOthersRead(t *testing.T) {
	d := gputest.Device(t)
	for _, wanted := range []bool{false, true} {
		g := graph.New()
		a, gamma, dy := x(g, "a", 2, 4, 32), x(g, "gamma", 32), x(g, "dy", 2, 4, 32)
		n := g.Append(graph.RMSNorm{Eps: 1e-6}, a, gamma)
		back := g.Append(graph.Rope{HeadDim: 16, Theta: 100, Inverse: true}, dy).Outputs[0]
		w := &twin{graph: g, hardware: true, values: []*graph.Value{
			g.Rope(n.Outputs[0], 16, 100), g.Append(graph.RMSNormGrad{}, a, gamma, n.Outputs[1], back).Outputs[0],
		}}
		others := []*graph.Value{g.Apply("exp", n.Outputs[0]), g.Apply("exp", back)}
		if wanted {
			others = []*graph.Value{g.Reshape(n.Outputs[0], 8, 32), g.Reshape(back, 8, 32)}
		}
		w.values = append(w.values, others...)
		w.feed(rand.New(rand.NewPCG(53, 54)))
		p := w.check(t, d, 64*eps)
		assert.Len(t, kernelsNamed(p, "rope"), 2, fmt.Sprint(wanted))
	}
}
