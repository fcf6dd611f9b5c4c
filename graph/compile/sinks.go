package compile

import (
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/shaders"
)

func init() { Register(graph.SinkGrad{}, Lowering{Lower: lowerSinkGrad, Leaf: true}) }

// sinkParams is Params of attention_sinks.wgsl and attention_sinks_grad.wgsl.
type sinkParams struct{ Count, Head, Heads, T uint32 }

// sinkKernel is a kernel for rows [batch, tokens, heads width], of which it counts heads of tokens.
func (c *Compiler) sinkKernel(suffix string, heads int, shape []int) (sinkParams, *gpu.Kernel) {
	kind, units := rowElement(shape[2] / heads)
	v := shaders.Variant{Constants: map[string]string{"ELEMENT": kind}}
	if suffix != "" {
		v.Flags = map[string]bool{"QUADS": kind != "f32"}
	}
	k := c.kernel("attention_sinks"+suffix, "", v)
	return sinkParams{Count: uint32(shape[0] * shape[1] * heads), Head: uint32(units), Heads: uint32(heads), T: uint32(shape[1])}, k
}

// lowerSinkGrad computes what each head of each token adds, and adds that up.
func lowerSinkGrad(c *Compiler, n *graph.Node) {
	heads, shape, out := n.Inputs[0].Type().Elements(), n.Inputs[1].Shape(), c.Out(n.Outputs[0])
	if graph.Elements(shape) == 0 {
		if !out.Accumulate {
			c.zero(c.One(out, "result"))
		}
		return
	}
	p, k := c.sinkKernel("_grad", heads, shape)
	each := c.workspace("sinks", shape[0]*shape[1], heads)
	c.Dispatch(k, c.Linear(int(p.Count)), p, append(c.spans(n.Inputs), c.One(each, "sinks"))...)
	c.reduce(reduction{outer: 1, length: shape[0] * shape[1], inner: heads}, []int{each.elements()}, plainLoad(each), out, -1)
}
