package compile

import (
	"fmt"
	"maps"

	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/shaders"
)

func init() {
	Register(graph.LayerNorm{}, Lowering{Lower: func(c *Compiler, n *graph.Node) { c.norm(n, n.Op.(graph.LayerNorm).Eps, false) }, Checks: normChecks})
	Register(graph.RMSNorm{}, Lowering{Lower: func(c *Compiler, n *graph.Node) { c.norm(n, n.Op.(graph.RMSNorm).Eps, true) }})
	Register(graph.LayerNormGrad{}, Lowering{Lower: func(c *Compiler, n *graph.Node) { lowerNormGrad(c, n, nil) }, finishes: wholeRows, finish: lowerNormGrad})
	Register(graph.RMSNormGrad{}, Lowering{Lower: func(c *Compiler, n *graph.Node) { lowerNormGrad(c, n, nil) }, finishes: wholeRows, finish: lowerNormGrad})
	Register(graph.Softmax{}, Lowering{Lower: lowerSoftmax, Checks: softmaxChecks})
	Register(graph.SoftmaxGrad{}, Lowering{Lower: lowerSoftmaxGrad})
}

var softmaxChecks = []Check{
	{Name: "softmax", Tolerance: 32, Build: func(g *graph.Graph) []*graph.Value {
		var out []*graph.Value
		for _, d := range []int{5, 64, 260} {
			y, dy := g.Softmax(checkedInput(g, fmt.Sprint("a", d), 70, d)), checkedInput(g, fmt.Sprint("dy", d), 70, d)
			out = append(out, y, g.Append(graph.SoftmaxGrad{}, y, dy).Outputs[0])
		}
		return out
	}},
}

var normChecks = []Check{
	{Name: "layer norm", Tolerance: 64, Build: func(g *graph.Graph) []*graph.Value {
		var out []*graph.Value
		for _, d := range []int{5, 64, 260} {
			a, gamma, beta := checkedInput(g, fmt.Sprint("a", d), 70, d), checkedInput(g, fmt.Sprint("gamma", d), d), checkedInput(g, fmt.Sprint("beta", d), d)
			n := g.Append(graph.LayerNorm{Eps: 1e-5}, a, gamma, beta)
			dy := checkedInput(g, fmt.Sprint("dy", d), 70, d)
			out = append(out, n.Outputs[0], g.Append(graph.LayerNormGrad{}, a, gamma, n.Outputs[1], dy).Outputs[0], g.Append(graph.NormGammaGrad{}, a, n.Outputs[1], dy).Outputs[0])
		}
		return out
	}},
	{Name: "rms norm", Tolerance: 64, Build: func(g *graph.Graph) []*graph.Value {
		var out []*graph.Value
		for _, d := range []int{5, 64, 260} {
			a, gamma := checkedInput(g, fmt.Sprint("a", d), 70, d), checkedInput(g, fmt.Sprint("gamma", d), d)
			n := g.Append(graph.RMSNorm{Eps: 1e-5}, a, gamma)
			dy := checkedInput(g, fmt.Sprint("dy", d), 70, d)
			out = append(out, n.Outputs[0], g.Append(graph.RMSNormGrad{}, a, gamma, n.Outputs[1], dy).Outputs[0], g.Append(graph.NormGammaGrad{RMS: true}, a, n.Outputs[1], dy).Outputs[0])
		}
		return out
	}},
}

// rowVariant is that of a shader that works row by row (shared/row.wgsl) on vec4s where the width allows it, with its grid and
// the width in items.
func (c *Compiler) rowVariant(rows, width int) (shaders.Variant, gpu.Grid, uint32) {
	t, items, grid := "f32", width, c.Linear(rows)
	if width%4 == 0 {
		t, items = "vec4<f32>", width/4
	}
	if !c.limits.Software {
		grid = gpu.Linear(uint64(rows), 1, c.limits)
	}
	v := shaders.Variant{Flags: map[string]bool{"VECTOR": width%4 == 0, "GROUP": !c.limits.Software}, Constants: map[string]string{"T": t}}
	return v, grid, uint32(items)
}

// rowKernel is the shader of that name in the variant for such rows.
func (c *Compiler) rowKernel(name, suffix string, rows, width int, flags map[string]bool) (*gpu.Kernel, gpu.Grid, uint32) {
	v, grid, items := c.rowVariant(rows, width)
	maps.Copy(v.Flags, flags)
	return c.kernel(name, suffix, v), grid, items
}

// normParams is Params of norm.wgsl.
type normParams struct {
	normGradParams
	Eps float32
}

// normGradParams is Params of norm_grad.wgsl.
type normGradParams struct {
	Rows, Width uint32
	Reciprocal  float32
}

// wholeRows is whether the rows of a node's result consist of whole vec4.
func wholeRows(_ *Compiler, n *graph.Node) bool {
	rows, width := graph.Rows(n.Outputs[0].Shape())
	return rows > 0 && width%4 == 0
}

func (c *Compiler) norm(n *graph.Node, eps float64, rms bool) {
	count, width := graph.Rows(n.Inputs[0].Shape())
	suffix := "_layer"
	if rms {
		suffix = "_rms"
	}
	k, grid, items := c.rowKernel("norm", suffix, count, width, map[string]bool{"RMS": rms})
	spans := c.operands(n)
	spans = append(spans, c.One(c.Out(n.Outputs[0]), "y"), c.One(c.Out(n.Outputs[1]), "stats"))
	c.Dispatch(k, grid, normParams{normGradParams{uint32(count), items, float32(1 / float64(width))}, float32(eps)}, spans...)
}

func lowerNormGrad(c *Compiler, n *graph.Node, e *epilogue) {
	count, width := graph.Rows(n.Inputs[0].Shape())
	_, rms := n.Op.(graph.RMSNormGrad)
	name := "_layer"
	if rms {
		name = "_rms"
	}
	variant, grid, items := c.rowVariant(count, width)
	variant.Flags["RMS"] = rms
	suffix, spans := e.finish(c, variant, c.operands(n)...)
	if e == nil {
		spans = append(spans, c.One(c.Out(n.Outputs[0]), "dx"))
	}
	c.Dispatch(c.kernel("norm_grad", name+suffix, variant), grid, normGradParams{uint32(count), items, float32(1 / float64(width))}, spans...)
}

// Params of softmax.wgsl and softmax_grad.wgsl.
type rowParams struct{ Rows, Width uint32 }

func lowerSoftmax(c *Compiler, n *graph.Node) {
	count, width := graph.Rows(n.Inputs[0].Shape())
	k, grid, items := c.rowKernel("softmax", "", count, width, map[string]bool{})
	c.Dispatch(k, grid, rowParams{uint32(count), items}, append(c.operands(n), c.One(c.Out(n.Outputs[0]), "y"))...)
}

func lowerSoftmaxGrad(c *Compiler, n *graph.Node) {
	count, width := graph.Rows(n.Inputs[0].Shape())
	k, grid, items := c.rowKernel("softmax_grad", "", count, width, map[string]bool{})
	c.Dispatch(k, grid, rowParams{uint32(count), items}, append(c.operands(n), c.One(c.Out(n.Outputs[0]), "dx"))...)
}

// operands are the spans of all inputs of a node, each of which must lie in one binding.
func (c *Compiler) operands(n *graph.Node) []Span {
	var spans []Span
	for i, v := range n.Inputs {
		spans = append(spans, c.One(c.In(v), fmt.Sprintf("input %d", i)))
	}
	return spans
}
