package graph

import (
	"fmt"
	"slices"
)

// Extracted is a piece of a graph as a graph of its own.
type Extracted struct {
	Graph *Graph
	of    map[*Value]*Value
}

// Value is what a value of the whole graph is in the piece, nil where the piece does not have it.
func (e *Extracted) Value(v *Value) *Value { return e.of[v] }

// Extract copies what the wanted values need into a graph of its own. A given value is not computed there: it is an Input of its name,
// and what only it needs is left out. Nodes keep their order and labels, so that a piece computes what the whole graph does, in the same
// order. Errors: a given name that is an input's already, or given twice.
func (g *Graph) Extract(want []*Value, given map[*Value]string) (*Extracted, error) {
	if g.err != nil {
		return nil, g.err
	}
	need := make([]bool, len(g.nodes))
	use := func(v *Value) {
		if _, ok := given[v]; !ok {
			need[v.node.ID] = true
		}
	}
	asked := map[*Value]bool{} // given values that the piece has
	for _, v := range want {
		if v == nil || v.node == nil || v.node.ID >= len(g.nodes) || g.nodes[v.node.ID] != v.node {
			return nil, fmt.Errorf("graph: extract: a wanted value is not of this graph")
		}
		use(v)
		asked[v] = true
	}
	for _, n := range slices.Backward(g.nodes) {
		if need[n.ID] {
			for _, v := range n.Inputs {
				use(v)
				asked[v] = true
			}
		}
	}
	e := &Extracted{Graph: New(), of: map[*Value]*Value{}}
	names := map[string]bool{}
	for _, n := range g.nodes {
		if in, ok := n.Op.(Input); ok && need[n.ID] {
			names[in.Name] = true
		}
	}
	for _, n := range g.nodes {
		if need[n.ID] {
			e.copy(n, e.Value, nil, e.of)
		}
		for _, v := range n.Outputs {
			name, ok := given[v]
			if !ok || !asked[v] {
				continue
			}
			if names[name] {
				return nil, fmt.Errorf("graph: extract: given value %v: the name %q is taken", n, name)
			}
			names[name] = true
			e.of[v] = e.Graph.addLabelled(Input{Name: name, Type: v.typ}, n.Label).Outputs[0]
		}
	}
	return e, e.Graph.err
}

// copy adds a node that reads what read tells, and notes its values among those of n. of is a node of the whole graph, nil for none.
func (e *Extracted) copy(n *Node, read func(v *Value) *Value, of *Node, values map[*Value]*Value) {
	inputs := make([]*Value, len(n.Inputs))
	for i, v := range n.Inputs {
		inputs[i] = read(v)
	}
	c := e.Graph.addLabelled(n.Op, n.Label, inputs...)
	if e.Graph.err != nil {
		return
	}
	c.Label = n.Label
	if of != nil {
		c.Of = e.of[of.Outputs[0]].node
	}
	for i, v := range n.Outputs {
		c.Outputs[i].typ = v.typ
		values[v] = c.Outputs[i]
	}
}
