package compile

import "gputrain/graph"

// The heads that a norm makes are turned in its kernel, and in the kernel of its gradient are turned back; on GPUs, which wait for memory, that kernel also
// adds up the gradients of gain and shift. Each spares a pass that writes values and passes that read them. Rotations have the bits that they have in kernels of
// their own.

// joinNorms makes units of norms and their gradients with what is computed in their kernels, and notes the nodes of these units.
func (c *Compiler) joinNorms(joined map[*graph.Node]bool) {
	for _, n := range c.live {
		var u *unit
		switch n.Op.(type) {
		case graph.RMSNorm:
			u = c.normUnit(n)
		case graph.LayerNormGrad, graph.RMSNormGrad:
			u = c.normGradUnit(n)
		}
		if u == nil {
			continue
		}
		for _, n := range u.nodes {
			joined[n] = true
		}
		c.units = append(c.units, u)
	}
}

// normUnit is the unit of a norm and of the rotation that alone reads it; nil where there is none.
func (c *Compiler) normUnit(n *graph.Node) *unit {
	readers, ok := c.readersOf(n.Outputs[0])
	if !ok || len(readers) != 1 || !c.turnsRows(readers[0], n, 0) {
		return nil
	}
	u := c.joint(n.Outputs[0], n, readers[0])
	u.lower = func(c *Compiler) { c.norm(n, readers[0]) }
	return u
}

// normGradUnit is the unit of a norm's gradient, of the gain's, and of the rotation whose result these alone read; nil where there is neither, and on
// software adapters.
func (c *Compiler) normGradUnit(n *graph.Node) *unit {
	if c.limits.Software || n.Outputs[0].Type().Elements() == 0 {
		return nil
	}
	g, nodes, bound := normGradient{node: n}, []*graph.Node{n}, 0
	x, gamma, stats, dy := n.Inputs[0], n.Inputs[1], n.Inputs[2], n.Inputs[3]
	for _, r := range c.readers[dy] {
		_, ok := r.Op.(graph.NormGammaGrad)
		if ok && r.Inputs[0] == x && r.Inputs[1] == stats && gamma.Node().ID < r.ID && c.addsGain(n) {
			g.gain, nodes, bound = r, []*graph.Node{r, n}, 1
			break
		}
	}
	var inner *graph.Value
	if rows, width := graph.Rows(x.Shape()); g.gain != nil && c.addsShift(n) {
		if r := c.sumOfRows(dy, rows, width); r != nil {
			g.shift, nodes = r, append([]*graph.Node{r}, nodes...)
		}
	}
	if r := c.root(dy).Node(); c.turnsRows(r, n, bound) {
		if readers, ok := c.readersOf(r.Outputs[0]); ok && len(readers) == len(nodes) {
			g.rotation, inner, nodes, bound = r, r.Outputs[0], append([]*graph.Node{r}, nodes...), bound+1
		}
	}
	if len(nodes) == 1 {
		return nil
	}
	u := c.joint(inner, nodes...)
	u.bound, u.finish = bound, func(c *Compiler, e *epilogue) { g.lower(c, e) }
	u.lower = func(c *Compiler) { u.finish(c, nil) }
	return u
}

// addsGain is whether the kernel of a norm's gradient has registers for the sums of a row, and room for them beside what else it binds.
func (c *Compiler) addsGain(n *graph.Node) bool {
	_, width := graph.Rows(n.Inputs[0].Shape())
	_, items := c.rowVariant(width)
	return turnsOf(items) <= gainTurns && len(n.Inputs)+len(n.Outputs)+1 <= c.limits.StorageBuffers
}

// addsShift is whether it also has registers for the sums of dy; gradients of root mean squares have no use for them.
func (c *Compiler) addsShift(n *graph.Node) bool {
	_, width := graph.Rows(n.Inputs[0].Shape())
	_, items := c.rowVariant(width)
	return n.Op.Kind() == graph.LayerNormGrad{}.Kind() && 2*turnsOf(items) <= gainTurns
}

// readersOf are the nodes that read a value or what views it; false where a target wants one of these.
func (c *Compiler) readersOf(v *graph.Value) (nodes []*graph.Node, ok bool) {
	if c.wanted(v) || c.pinned(v) {
		return nil, false
	}
	for _, n := range c.readers[v] {
		if c.viewed(n.Outputs[0]) != v {
			nodes = append(nodes, n)
			continue
		}
		more, ok := c.readersOf(n.Outputs[0])
		if !ok {
			return nil, false
		}
		nodes = append(nodes, more...)
	}
	return nodes, true
}

// turnsRows is whether a node turns pairs of whole vec4s that fill the heads in the rows of a norm, or of its gradient, and has room for its tables beside
// what else the kernel binds.
func (c *Compiler) turnsRows(n, norm *graph.Node, besides int) bool {
	op, ok := n.Op.(graph.Rope)
	if !ok {
		return false
	}
	_, width := graph.Rows(norm.Inputs[0].Shape())
	half, shape := len(op.Angles()), n.Inputs[0].Shape()
	apart := len(n.Inputs) == 1 || len(c.root(n.Inputs[1]).Node().Inputs) == 0 // positions do not come of the norm
	buffers := len(norm.Inputs) + len(norm.Outputs) + len(n.Inputs) + besides
	return apart && half%4 == 0 && 2*half == op.HeadDim && width%op.HeadDim == 0 && shape[2]%width == 0 &&
		graph.Elements(shape) == norm.Inputs[0].Type().Elements() && buffers <= c.limits.StorageBuffers
}
