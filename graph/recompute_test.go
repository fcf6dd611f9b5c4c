package graph

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Copies stand before what first reads them, once for all readers, with what they need in front; nothing is copied that the backward pass does not
// read; and every number is what it was.
func TestRecompute(t *testing.T) {
	g := New()
	x, w, v := g.Input("x", F32(2, 3)), g.Param("a.weight", 3, 3), g.Param("b.weight", 3, 3)
	h := g.Apply("tanh", g.MatMul(x, w, false, false))
	loss := g.Sum(g.Apply("square", g.MatMul(h, v, false, false)))
	forward := len(g.Nodes())
	grads, err := Gradients(g, loss, []*Value{w, v})
	require.NoError(t, err)
	e, err := g.Recompute(forward, func(n *Node) bool { return n.ID == 3 || n.ID == 4 }) // the product of a and its tanh
	require.NoError(t, err)
	nodes := e.Graph.Nodes()
	var copies []*Node
	for _, n := range nodes[forward:] {
		if n.Of == nodes[3] && n.Op == nodes[3].Op && n.Inputs[0] == nodes[3].Inputs[0] || n.Of == nodes[4] && n.Op == nodes[4].Op {
			copies = append(copies, n)
		}
	}
	require.Len(t, copies, 2)
	product, tanh := copies[0], copies[1]
	assert.Equal(t, []*Node{nodes[3], nodes[4]}, []*Node{product.Of, tanh.Of})
	assert.Equal(t, []*Value{product.Outputs[0]}, tanh.Inputs)
	assert.Equal(t, product.ID+1, tanh.ID)
	for _, n := range nodes[forward:] {
		for _, in := range n.Inputs {
			assert.NotContains(t, []*Node{nodes[3], nodes[4]}, in.Node(), "%v reads what is not kept", n)
		}
	}
	assert.Contains(t, nodes[tanh.ID+1].Inputs, tanh.Outputs[0], "read at once")
	assert.Len(t, nodes, len(g.Nodes())+2)

	feeds := map[string]*Array{}
	for name, typ := range map[string]*Value{"x": x, "a.weight": w, "b.weight": v} {
		feeds[name] = NewArray(typ.Shape())
		for i := range feeds[name].Data {
			feeds[name].Data[i] = float64((i*7+len(name))%5)/4 - 0.4
		}
	}
	want, err := Eval(g, feeds, grads[0], grads[1], loss)
	require.NoError(t, err)
	got, err := Eval(e.Graph, feeds, e.Value(grads[0]), e.Value(grads[1]), e.Value(loss))
	require.NoError(t, err)
	assert.Equal(t, want, got)
}
