package compile

import (
	"strconv"

	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/shaders"
)

func init() {
	Register(graph.RouterCounts{}, Lowering{Lower: lowerRouterCounts})
	Register(graph.LoadBalance{}, Lowering{Checks: balanceChecks, Lower: func(c *Compiler, n *graph.Node) { c.balance(n, n.Op.(graph.LoadBalance), false) }})
	Register(graph.LoadBalanceGrad{}, Lowering{Lower: func(c *Compiler, n *graph.Node) { c.balance(n, graph.LoadBalance(n.Op.(graph.LoadBalanceGrad)), true) }})
}

// balanceChecks are layers of a network whose experts outnumber the invocations of a workgroup, with rows that do not count.
var balanceChecks = []Check{{Name: "experts in balance", Tolerance: 256, Given: map[string][]float64{"counted": checkedCounted(150)}, Build: func(g *graph.Graph) []*graph.Value {
	counted := checkedInput(g, "counted", 150)
	var counts, probs, logits []*graph.Value
	for _, name := range []string{"first", "second", "third"} {
		x := checkedInput(g, name, 150, 70)
		logits = append(logits, x)
		counts = append(counts, g.Append(graph.RouterCounts{Experts: 70}, g.Append(graph.Router{K: 3}, x).Outputs[1], counted).Outputs[0])
		probs = append(probs, g.Reshape(g.Sum(g.Mul(g.Reshape(counted, 150, 1), g.Softmax(x)), 0), 1, 70))
	}
	all := g.Concat(0, counts...)
	y := g.Append(graph.LoadBalance{Chosen: 3}, all, g.Concat(0, probs...)).Outputs[0]
	grads, err := graph.Gradients(g, g.Mul(y, g.Constant(7)), logits)
	if err != nil {
		return nil // the graph tells
	}
	return append(grads, y, all)
}}}

// checkedCounted are rows, of which one in three does not count.
func checkedCounted(n int) (counted []float64) {
	for i := range n {
		counted = append(counted, float64(min(i%3, 1)))
	}
	return counted
}

// lowerRouterCounts counts in chunks, and adds the counts up.
func lowerRouterCounts(c *Compiler, n *graph.Node) {
	experts, choices, out := n.Op.(graph.RouterCounts).Experts, n.Inputs[0].Type().Elements(), c.Out(n.Outputs[0])
	if choices == 0 {
		c.zero(c.One(out, "counts"))
		return
	}
	chunks := (choices + groupChunk - 1) / groupChunk
	p := groupParams{Choices: uint32(choices), Experts: uint32(experts), Chunks: uint32(chunks), PerRow: uint32(n.Inputs[0].Shape()[1])}
	each := c.workspace("counts", chunks, experts)
	k := c.kernel("router_counts", "", shaders.Variant{Constants: map[string]string{"CHUNK": strconv.Itoa(groupChunk)}})
	c.Dispatch(k, c.Linear(chunks*experts), p, append(c.spans(n.Inputs), c.One(each, "counts"))...)
	c.reduce(reduction{outer: 1, length: chunks, inner: experts}, []int{each.elements()}, plainLoad(each), out, 1)
}

// balanceParams is Params of load_balance.wgsl.
type balanceParams struct{ Layers, Experts, Chosen, Unused uint32 }

// balance is a workgroup for the loss, or its gradient.
func (c *Compiler) balance(n *graph.Node, op graph.LoadBalance, back bool) {
	shape := n.Inputs[0].Shape()
	if graph.Elements(shape) == 0 {
		c.zero(c.One(c.Out(n.Outputs[0]), "result"))
		return
	}
	suffix := ""
	if back {
		suffix = "_grad"
	}
	k := c.kernel("load_balance", suffix, shaders.Variant{Flags: map[string]bool{"BACK": back}})
	p := balanceParams{Layers: uint32(shape[0]), Experts: uint32(shape[1]), Chosen: uint32(op.Chosen)}
	c.Dispatch(k, gpu.Grid{X: 1, Y: 1, Z: 1}, p, append(c.spans(n.Inputs), c.One(c.Out(n.Outputs[0]), "result"))...)
}
