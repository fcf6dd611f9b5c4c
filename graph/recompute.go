package graph

// Recompute is the graph of a forward pass, its first nodes, and a backward pass, in which the backward pass reads copies of those forward
// nodes that again names: what it alone has read of them need not be kept. A copy stands before the first node that reads it, so in the order
// of evaluation it is made as late as can be, and it reads copies of what is computed again too. It is the same operation on the same
// numbers, so it has the same bits; dropout draws by its key, as it did. Node.Of of a copy is the node that it is one of.
func (g *Graph) Recompute(forward int, again func(n *Node) bool) (*Extracted, error) {
	if g.err != nil {
		return nil, g.err
	}
	e := &Extracted{Graph: New(), of: map[*Value]*Value{}}
	copies := map[*Value]*Value{}
	var late func(v *Value) *Value // what a node of the backward pass reads of v
	late = func(v *Value) *Value {
		if v.node.ID >= forward || !again(v.node) {
			return e.of[v]
		}
		if copies[v] == nil {
			e.copy(v.node, late, v.node, copies)
		}
		return copies[v]
	}
	for _, n := range g.nodes {
		if n.ID < forward {
			e.copy(n, e.Value, nil, e.of)
		} else {
			e.copy(n, late, n.Of, e.of)
		}
	}
	return e, e.Graph.err
}
