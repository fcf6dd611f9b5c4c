package compile

import (
	"fmt"

	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/shaders"
)

func init() {
	Register(graph.LayerNorm{}, Lowering{Lower: func(c *Compiler, n *graph.Node) { c.norm(n, nil) }, Checks: normChecks})
	Register(graph.RMSNorm{}, Lowering{Lower: func(c *Compiler, n *graph.Node) { c.norm(n, nil) }})
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
		for _, d := range []int{5, 64, 1036} {
			a, gamma, beta := checkedInput(g, fmt.Sprint("a", d), 70, d), checkedInput(g, fmt.Sprint("gamma", d), d), checkedInput(g, fmt.Sprint("beta", d), d)
			n := g.Append(graph.LayerNorm{Eps: 1e-5}, a, gamma, beta)
			dy := checkedInput(g, fmt.Sprint("dy", d), 70, d)
			out = append(out, n.Outputs[0], g.Append(graph.LayerNormGrad{}, a, gamma, n.Outputs[1], dy).Outputs[0],
				g.Append(graph.NormGammaGrad{}, a, n.Outputs[1], dy).Outputs[0], g.Sum(dy, 0))
		}
		return out
	}},
	{Name: "rms norm", Tolerance: 64, Build: func(g *graph.Graph) []*graph.Value {
		var out []*graph.Value
		for _, d := range []int{5, 64, 1036} {
			a, gamma := checkedInput(g, fmt.Sprint("a", d), 70, d), checkedInput(g, fmt.Sprint("gamma", d), d)
			n := g.Append(graph.RMSNorm{Eps: 1e-5}, a, gamma)
			dy := checkedInput(g, fmt.Sprint("dy", d), 70, d)
			out = append(out, n.Outputs[0], g.Append(graph.RMSNormGrad{}, a, gamma, n.Outputs[1], dy).Outputs[0], g.Append(graph.NormGammaGrad{RMS: true}, a, n.Outputs[1], dy).Outputs[0])
		}
		return out
	}},
	{Name: "rotated norm", Tolerance: 64, Below: 2000, Build: func(g *graph.Graph) []*graph.Value {
		var out []*graph.Value
		for _, head := range []int{16, 64} { // of rows of 64
			a, gamma, positions := checkedInput(g, fmt.Sprint("a", head), 2, 35, 64), checkedInput(g, fmt.Sprint("gamma", head), 64), checkedInts(g, fmt.Sprint("positions", head), 2, 35)
			n := g.Append(graph.RMSNorm{Eps: 1e-5}, a, gamma)
			dy := g.Append(graph.Rope{HeadDim: head, Theta: 10000, Window: 2000, Inverse: true}, checkedInput(g, fmt.Sprint("dy", head), 2, 35, 64), positions).Outputs[0]
			out = append(out, g.RopeAt(n.Outputs[0], positions, head, 10000, 2000),
				g.Append(graph.RMSNormGrad{}, a, gamma, n.Outputs[1], dy).Outputs[0], g.Append(graph.NormGammaGrad{RMS: true}, a, n.Outputs[1], dy).Outputs[0])
		}
		return out
	}},
}

// rowVariant is that of a shader that works row by row (shared/row.wgsl) on vec4s where the width allows it, with the width in items.
func (c *Compiler) rowVariant(width int) (shaders.Variant, uint32) {
	t, items := "f32", width
	if width%4 == 0 {
		t, items = "vec4<f32>", width/4
	}
	v := shaders.Variant{Flags: map[string]bool{"VECTOR": width%4 == 0, "GROUP": !c.limits.Software}, Constants: map[string]string{"T": t}}
	return v, uint32(items)
}

// rowGrid is the grid of such a shader.
func (c *Compiler) rowGrid(rows int) gpu.Grid {
	if c.limits.Software {
		return c.Linear(rows)
	}
	return gpu.Linear(uint64(rows), 1, c.limits)
}

// rowNormParams is what Params of norm.wgsl and norm_grad.wgsl begin with.
type rowNormParams struct {
	Rows, Width uint32
	Reciprocal  float32
}

// normParams is Params of norm.wgsl.
type normParams struct {
	rowNormParams
	Eps float32
}

// rotatedNormParams is Params where heads are turned.
type rotatedNormParams struct {
	normParams
	rotationParams
}

// norm lowers a norm, with the rotation after it where there is one.
func (c *Compiler) norm(n, rotation *graph.Node) {
	count, width := graph.Rows(n.Inputs[0].Shape())
	suffix, eps := "_layer", 0.0
	switch op := n.Op.(type) {
	case graph.LayerNorm:
		eps = op.Eps
	case graph.RMSNorm:
		suffix, eps = "_rms", op.Eps
	}
	v, items := c.rowVariant(width)
	v.Flags["RMS"], v.Flags["ROTATE"] = suffix == "_rms", rotation != nil
	operands, outputs := append(c.rowOperands("input", n.Inputs[0]), c.scales(n.Inputs[1:]...)...), n.Outputs
	var turn rotationParams
	if rotation != nil {
		end, tables, p := c.rotation(rotation, width, v)
		suffix, operands, turn = suffix+"_rope"+end, append(operands, tables...), p
		outputs = []*graph.Value{rotation.Outputs[0], n.Outputs[1]}
	}
	k := c.kernel("norm", suffix, v)
	c.rowwise(append(operands, c.rowOperands("output", outputs...)...), func(share func(int) int, spans []Span) {
		rows := share(count)
		params := normParams{rowNormParams{uint32(rows), items, float32(1 / float64(width))}, float32(eps)}
		if rotation != nil {
			c.Dispatch(k, c.rowGrid(rows), rotatedNormParams{params, turn}, spans...)
			return
		}
		c.Dispatch(k, c.rowGrid(rows), params, spans...)
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
		v, items := c.rowVariant(width)
		c.Dispatch(c.kernel(name, "", v), c.rowGrid(rows), rowParams{uint32(rows), items}, spans...)
	})
}
