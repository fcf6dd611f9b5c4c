package compile

import (
	"fmt"
	"maps"
	"slices"

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

// wholeRows is whether the rows of a node's result consist of whole vec4, in one binding.
func wholeRows(c *Compiler, n *graph.Node) bool {
	rows, width := graph.Rows(n.Outputs[0].Shape())
	return rows > 0 && width%4 == 0 && c.allWhole(n)
}

func (c *Compiler) norm(n *graph.Node, eps float64, rms bool) {
	count, width := graph.Rows(n.Inputs[0].Shape())
	suffix := "_layer"
	if rms {
		suffix = "_rms"
	}
	operands := slices.Concat(c.rowOperands("input", n.Inputs[0]), c.scales(n.Inputs[1:]...), c.rowOperands("output", n.Outputs...))
	c.rowwise(operands, func(share func(int) int, spans []Span) {
		rows := share(count)
		k, grid, items := c.rowKernel("norm", suffix, rows, width, map[string]bool{"RMS": rms})
		c.Dispatch(k, grid, normParams{normGradParams{uint32(rows), items, float32(1 / float64(width))}, float32(eps)}, spans...)
	})
}

func lowerNormGrad(c *Compiler, n *graph.Node, e *epilogue) {
	count, width := graph.Rows(n.Inputs[0].Shape())
	_, rms := n.Op.(graph.RMSNormGrad)
	name := "_layer"
	if rms {
		name = "_rms"
	}
	operands := slices.Concat(c.rowOperands("input", n.Inputs[0]), c.scales(n.Inputs[1]), c.rowOperands("input", n.Inputs[2:]...))
	if e == nil {
		operands = append(operands, c.rowOperands("output", n.Outputs...)...)
	}
	c.rowwise(operands, func(share func(int) int, spans []Span) {
		rows := share(count)
		variant, grid, items := c.rowVariant(rows, width)
		variant.Flags["RMS"] = rms
		suffix, spans := e.finish(c, variant, spans...)
		c.Dispatch(c.kernel("norm_grad", name+suffix, variant), grid, normGradParams{uint32(rows), items, float32(1 / float64(width))}, spans...)
	})
}

// Params of softmax.wgsl and softmax_grad.wgsl.
type rowParams struct{ Rows, Width uint32 }

func lowerSoftmax(c *Compiler, n *graph.Node) { c.softmax(n, "softmax") }

func lowerSoftmaxGrad(c *Compiler, n *graph.Node) { c.softmax(n, "softmax_grad") }

func (c *Compiler) softmax(n *graph.Node, name string) {
	count, width := graph.Rows(n.Inputs[0].Shape())
	c.rowwise(append(c.rowOperands("input", n.Inputs...), c.rowOperands("output", n.Outputs...)...), func(share func(int) int, spans []Span) {
		rows := share(count)
		k, grid, items := c.rowKernel(name, "", rows, width, map[string]bool{})
		c.Dispatch(k, grid, rowParams{uint32(rows), items}, spans...)
	})
}
