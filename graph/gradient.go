package graph

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"gputrain/buffers/array"
)

// Gradients adds the nodes of the backward pass of loss, a scalar, and returns its gradient with respect to each of wrt, of the
// same shape. wrt may hold any f32 values; the pass goes back no further than to them. A value that the loss does not depend on is
// an error.
//
// The gradient that flows back to a value may have a smaller shape that broadcasts to the value's: that of a sum is not spread
// out until something needs it whole. Operations with the method Broadcasting take such a gradient as it is; for the others it is
// spread out by a BroadcastTo. What Differentiable.Gradient returns may have a smaller shape likewise. It makes no node for an
// input that Graph.wants does not name, and no zeros.
func Gradients(g *Graph, loss *Value, wrt []*Value) ([]*Value, error) {
	if g.err != nil {
		return nil, g.err
	}
	if err := g.checkGradients(loss, wrt); err != nil {
		return nil, fmt.Errorf("graph: gradients: %w", err)
	}
	defer func() { g.wanted, g.override, g.origin = nil, "", nil }()
	g.wanted = onTheWay(g.nodes[:loss.node.ID+1], wrt)

	adjoints := map[*Value][]*Value{}
	slicesOf := map[*Value][]sliceGradient{}
	adjoints[loss] = []*Value{g.Constant(1)}
	for id := loss.node.ID; id >= 0 && g.err == nil; id-- {
		n := g.nodes[id]
		if !slices.ContainsFunc(n.Inputs, g.wants) && !slices.ContainsFunc(n.Outputs, g.wants) {
			continue
		}
		g.override = strings.TrimPrefix(n.Label+"/grad", "/")
		dy := make([]*Value, len(n.Outputs))
		arrived := false
		for i, v := range n.Outputs {
			dy[i] = g.total(v, adjoints[v], slicesOf[v])
			if dy[i] != nil {
				adjoints[v], arrived = []*Value{dy[i]}, true
			}
		}
		if !arrived || !slices.ContainsFunc(n.Inputs, g.wants) {
			continue
		}
		if op, ok := n.Op.(Slice); ok {
			x := n.Inputs[0]
			slicesOf[x] = append(slicesOf[x], sliceGradient{op, g.spread(dy[0], n.Outputs[0].Shape())})
			continue
		}
		for i, dx := range g.gradientOf(n, dy) {
			if x := n.Inputs[i]; dx != nil && g.err == nil && g.wants(x) {
				if s, err := broadcast(dx.Shape(), x.Shape()); err != nil || !slices.Equal(s, x.Shape()) {
					panic(fmt.Sprintf("graph: gradients: %v: gradient of input %d has shape %v, input %v", n, i, dx.Shape(), x.Shape()))
				}
				adjoints[x] = append(adjoints[x], dx)
			}
		}
	}
	out := make([]*Value, len(wrt))
	for i, v := range wrt {
		if g.err == nil && adjoints[v] == nil {
			g.fail(fmt.Errorf("graph: gradients: the loss does not depend on %v", v.node))
		}
		if g.err != nil {
			return nil, g.err
		}
		g.override = strings.TrimPrefix(v.node.Label+"/grad", "/")
		out[i] = g.spread(adjoints[v][0], v.Shape())
	}
	return out, g.err
}

// gradientOf adds the nodes of the gradient of one node.
func (g *Graph) gradientOf(n *Node, dy []*Value) []*Value {
	g.origin = n
	defer func() { g.origin = nil }()
	if _, ok := n.Op.(broadcasting); !ok {
		for i, v := range dy {
			dy[i] = g.spread(v, n.Outputs[i].Shape())
		}
	}
	if d, ok := n.Op.(Differentiable); ok {
		return d.Gradient(g, n, dy)
	}
	if len(n.Inputs) > 0 {
		return g.noGradient(n)
	}
	return nil
}

func (g *Graph) checkGradients(loss *Value, wrt []*Value) error {
	for _, v := range append([]*Value{loss}, wrt...) {
		switch {
		case v == nil || v.node == nil:
			return errors.New("a value is missing")
		case v.node.ID >= len(g.nodes) || g.nodes[v.node.ID] != v.node:
			return fmt.Errorf("%v is of another graph", v.node)
		case v.DType() != array.F32:
			return fmt.Errorf("%v is %v, want %v", v.node, v.DType(), array.F32)
		}
	}
	if len(loss.Shape()) != 0 {
		return fmt.Errorf("loss: %v has shape %v, want a scalar", loss.node, loss.Shape())
	}
	return nil
}

// onTheWay marks wrt and all values computed from them.
func onTheWay(nodes []*Node, wrt []*Value) map[*Value]bool {
	on := map[*Value]bool{}
	for _, v := range wrt {
		on[v] = true
	}
	for _, n := range nodes {
		if slices.ContainsFunc(n.Inputs, func(v *Value) bool { return on[v] }) {
			for _, v := range n.Outputs {
				on[v] = true
			}
		}
	}
	return on
}

// sliceGradient is the gradient of a slice of a value, before it is put in its place.
type sliceGradient struct {
	op Slice
	dy *Value
}

// total is the sum of the gradients that arrived at v, nil for none. Slices that cover v side by side are concatenated.
func (g *Graph) total(v *Value, adjoints []*Value, parts []sliceGradient) *Value {
	if whole := g.joined(v, parts); whole != nil {
		adjoints = append(adjoints, whole)
	} else {
		for _, p := range parts {
			after := v.Shape()[p.op.Axis] - p.op.Start - p.op.Length
			adjoints = append(adjoints, g.Pad(p.dy, p.op.Axis, p.op.Start, after))
		}
	}
	if len(adjoints) == 0 {
		return nil
	}
	sum := adjoints[0]
	for _, a := range adjoints[1:] {
		sum = g.sumOf(sum, a)
	}
	return sum
}

func (g *Graph) joined(v *Value, parts []sliceGradient) *Value {
	slices.SortStableFunc(parts, func(a, b sliceGradient) int { return a.op.Start - b.op.Start })
	end, values := 0, []*Value{}
	for _, p := range parts {
		if p.op.Axis != parts[0].op.Axis || p.op.Start != end {
			return nil
		}
		end += p.op.Length
		values = append(values, p.dy)
	}
	if len(parts) == 0 || end != v.Shape()[parts[0].op.Axis] {
		return nil
	}
	return g.Concat(parts[0].op.Axis, values...)
}

// spread gives a gradient the whole shape that it stands for.
func (g *Graph) spread(v *Value, shape []int) *Value {
	switch {
	case v == nil || slices.Equal(v.Shape(), shape):
		return v
	case v.typ.Elements() == Elements(shape):
		return g.Reshape(v, shape...)
	}
	return g.BroadcastTo(v, shape...)
}
