package compile

import (
	"slices"

	"gputrain/graph"
	"gputrain/shaders"
)

func init() {
	Register(graph.ClampedSwiGLU{}, Lowering{Checks: clampedChecks, Lower: func(c *Compiler, n *graph.Node) {
		c.clamped(n, n.Op.(graph.ClampedSwiGLU), n.Outputs[0].Shape(), false)
	}})
	Register(graph.ClampedSwiGLUGrad{}, Lowering{Lower: func(c *Compiler, n *graph.Node) {
		c.clamped(n, graph.ClampedSwiGLU(n.Op.(graph.ClampedSwiGLUGrad)), n.Inputs[1].Shape(), true)
	}})
}

var clampedChecks = []Check{{Name: "clamped gates", Tolerance: 64, Build: func(g *graph.Graph) (out []*graph.Value) {
	for _, s := range [][]int{{5, 16}, {2, 3, 10}} { // limits that many of the normally distributed numbers are beyond
		op, y := graph.ClampedSwiGLU{Limit: 0.8, Alpha: 1.702}, slices.Clone(s)
		y[len(y)-1] /= 2
		x, dy := checkedInput(g, graph.F32(s...).String(), s...), checkedInput(g, "d"+graph.F32(s...).String(), y...)
		out = append(out, g.Append(op, x).Outputs[0], g.Append(graph.ClampedSwiGLUGrad(op), x, dy).Outputs[0])
	}
	return out
}}}

// clampedParams is Params of clamped_swiglu.wgsl.
type clampedParams struct {
	Count        uint32
	Limit, Alpha float32
}

// clamped lowers the gate, or its gradient, of results of a shape.
func (c *Compiler) clamped(n *graph.Node, op graph.ClampedSwiGLU, shape []int, back bool) {
	count, width := graph.Rows(shape)
	if count*width == 0 {
		return
	}
	kind, units := rowElement(width)
	suffix := ""
	if back {
		suffix = "_grad"
	}
	k := c.kernel("clamped_swiglu", suffix, shaders.Variant{Flags: map[string]bool{"BACK": back, "QUADS": units < width}, Constants: map[string]string{"T": kind}})
	c.rowwise(append(c.rowOperands("input", n.Inputs...), c.rowOperands("output", n.Outputs...)...), func(share func(int) int, spans []Span) {
		items := share(count) * units
		c.Dispatch(k, c.Linear(items), clampedParams{uint32(items), float32(op.Limit), float32(op.Alpha)}, spans...)
	})
}
