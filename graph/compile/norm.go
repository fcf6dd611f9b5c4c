package compile

import (
	"fmt"

	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/shaders"
)

func init() {
	lowerings["layer_norm"] = lowering{lower: func(c *compiler, n *graph.Node) { c.norm(n, n.Op.(graph.LayerNorm).Eps, false) }}
	lowerings["rms_norm"] = lowering{lower: func(c *compiler, n *graph.Node) { c.norm(n, n.Op.(graph.RMSNorm).Eps, true) }}
	lowerings["layer_norm_grad"] = lowering{lower: func(c *compiler, n *graph.Node) { c.normGrad(n, false) }}
	lowerings["rms_norm_grad"] = lowering{lower: func(c *compiler, n *graph.Node) { c.normGrad(n, true) }}
	lowerings["softmax"] = lowering{lower: lowerSoftmax}
	lowerings["softmax_grad"] = lowering{lower: lowerSoftmaxGrad}
}

// rowKernel is a shader that works row by row (shared/row.wgsl) on vec4s where the width allows it, with its grid and
// the width in items.
func (c *compiler) rowKernel(name, suffix string, rows, width int, flags map[string]bool) (*gpu.Kernel, gpu.Grid, uint32) {
	flags["VECTOR"], flags["GROUP"] = width%4 == 0, !c.cpu
	t, items, grid := "f32", width, c.linear(rows)
	if width%4 == 0 {
		t, items = "vec4<f32>", width/4
	}
	if !c.cpu {
		grid = gpu.Linear(uint64(rows), 1, c.limits)
	}
	return c.kernel(name, suffix, shaders.Variant{Flags: flags, Constants: map[string]string{"T": t}}), grid, uint32(items)
}

// Params of norm.wgsl and norm_grad.wgsl.
type normParams struct {
	Rows, Width uint32
	Reciprocal  float32
	Eps         float32
}

func (c *compiler) norm(n *graph.Node, eps float64, rms bool) {
	count, width := graph.Rows(n.Inputs[0].Shape())
	suffix := "_layer"
	if rms {
		suffix = "_rms"
	}
	k, grid, items := c.rowKernel("norm", suffix, count, width, map[string]bool{"RMS": rms})
	spans := c.operands(n)
	spans = append(spans, c.one(c.out(n.Outputs[0]), "y"), c.one(c.out(n.Outputs[1]), "stats"))
	c.dispatch(k, grid, normParams{uint32(count), items, float32(1 / float64(width)), float32(eps)}, spans...)
}

func (c *compiler) normGrad(n *graph.Node, rms bool) {
	count, width := graph.Rows(n.Inputs[0].Shape())
	suffix := "_layer"
	if rms {
		suffix = "_rms"
	}
	k, grid, items := c.rowKernel("norm_grad", suffix, count, width, map[string]bool{"RMS": rms})
	params := normParams{Rows: uint32(count), Width: items, Reciprocal: float32(1 / float64(width))}
	c.dispatch(k, grid, params, append(c.operands(n), c.one(c.out(n.Outputs[0]), "dx"))...)
}

// Params of softmax.wgsl and softmax_grad.wgsl.
type rowParams struct{ Rows, Width uint32 }

func lowerSoftmax(c *compiler, n *graph.Node) {
	count, width := graph.Rows(n.Inputs[0].Shape())
	k, grid, items := c.rowKernel("softmax", "", count, width, map[string]bool{})
	c.dispatch(k, grid, rowParams{uint32(count), items}, append(c.operands(n), c.one(c.out(n.Outputs[0]), "y"))...)
}

func lowerSoftmaxGrad(c *compiler, n *graph.Node) {
	count, width := graph.Rows(n.Inputs[0].Shape())
	k, grid, items := c.rowKernel("softmax_grad", "", count, width, map[string]bool{})
	c.dispatch(k, grid, rowParams{uint32(count), items}, append(c.operands(n), c.one(c.out(n.Outputs[0]), "dx"))...)
}

// operands are the spans of all inputs of a node, each of which must lie in one binding.
func (c *compiler) operands(n *graph.Node) []span {
	var spans []span
	for i, v := range n.Inputs {
		spans = append(spans, c.one(c.in(v), fmt.Sprintf("input %d", i)))
	}
	return spans
}
