package compile

import (
	"container/heap"
	"slices"

	"gputrain/graph"
)

// unit is what is lowered at once: one node, a node together with the node of its gradient, a fused expression, or the
// delivery of a value to a gradient leaf.
type unit struct {
	nodes    []*graph.Node // for the label; the last one is the root
	reads    []*graph.Value
	writes   []*graph.Value
	lower    func(c *Compiler)
	finish   func(c *Compiler, e *epilogue) // lower with an epilogue; nil where there can be none
	bound    int                            // storage buffers of that kernel besides those of reads and writes
	delivers *sink                          // of a delivery
	alone    *unit                          // as it was before others followed it
	follow   []*unit                        // computed in this one's kernel, from its result
	followed bool                           // is one of these
	key      int                            // position among the units that could run
	after    int                            // units this one still waits for, while ordering
	next     []*unit
}

// placeLeaves decides which values the gradient leaves receive. An add whose result nothing but a leaf wants is dropped:
// its operands are accumulated in the leaf one after the other, so that the two gradients of a tied weight never need
// memory of their own.
func (c *Compiler) placeLeaves() {
	for _, t := range c.targets {
		if t.Leaf == "" {
			continue
		}
		if c.grads == nil {
			c.fail("target leaf %q: no grads tree", t.Leaf)
			return
		}
		leaf, ok := c.grads.Leaf(t.Leaf)
		if !ok {
			c.fail("target leaf %q: not in the grads tree", t.Leaf)
			return
		}
		if !slices.Equal(leaf.Shape, t.Value.Shape()) {
			c.fail("target leaf %q: shape %v in the tree, the value has %v", t.Leaf, leaf.Shape, t.Value.Shape())
			return
		}
		c.spread(t.Value, &sink{leaf: leaf, path: t.Leaf})
	}
}

// spread gives a value to a leaf, or its terms if it is an add that nobody else reads, or what it reshapes.
func (c *Compiler) spread(v *graph.Value, s *sink) {
	free := len(c.readers[v]) == 0 && !c.wanted(v)
	if e, ok := v.Node().Op.(graph.Elementwise); ok && free && e.Fn == "add" &&
		slices.Equal(v.Node().Inputs[0].Shape(), v.Shape()) && slices.Equal(v.Node().Inputs[1].Shape(), v.Shape()) {
		c.dropped[v.Node()] = true
		for _, term := range v.Node().Inputs {
			c.unread(term, v.Node())
		}
		for _, term := range v.Node().Inputs {
			c.spread(term, &sink{leaf: s.leaf, path: s.path})
		}
		return
	}
	if _, ok := v.Node().Op.(graph.Reshape); ok && free && len(s.leaf.Parts) <= 1 {
		c.dropped[v.Node()] = true
		c.unread(v.Node().Inputs[0], v.Node())
		c.spread(v.Node().Inputs[0], s)
		return
	}
	c.sinks[v] = append(c.sinks[v], s)
}

// unread takes one reading by n off the readers of v.
func (c *Compiler) unread(v *graph.Value, n *graph.Node) {
	if i := slices.Index(c.readers[v], n); i >= 0 {
		c.readers[v] = slices.Delete(slices.Clone(c.readers[v]), i, i+1)
	}
}

// direct is the leaf into which v's own lowering writes it, nil when v has memory of its own.
func (c *Compiler) direct(v *graph.Value) *sink {
	if len(c.sinks[v]) != 1 || len(c.readers[v]) > 0 || c.names[v] || c.viewed(v) != nil {
		return nil
	}
	switch v.Node().Op.(type) {
	case graph.Input, graph.Param:
		return nil
	}
	if !c.writesLeaves(v.Node()) {
		return nil
	}
	return c.sinks[v][0]
}

func (c *Compiler) writesLeaves(n *graph.Node) bool {
	kind := n.Op.Kind()
	for _, p := range pairLowerings {
		if p.leaf && (p.forward == kind || p.gradient == kind) {
			return true
		}
	}
	return fusable(n) || lowerings[kind].Leaf
}

// order makes the units and sorts them: every unit after those whose values it reads, and of those that could run the
// one whose last node comes first in the graph, so that the builder's order holds where nothing else is asked for.
func (c *Compiler) order() {
	paired := c.pair()
	c.joinNorms(paired)
	c.joinSums(paired)
	for _, n := range c.live {
		if c.over() {
			return
		}
		if c.dropped[n] || c.inlined[n] || paired[n] || c.viewed(n.Outputs[0]) != nil {
			continue
		}
		switch n.Op.(type) {
		case graph.Input, graph.Param:
			continue
		}
		if u := c.nodeUnit(n); u != nil {
			c.units = append(c.units, u)
		}
	}
	c.units = append(c.units, c.deliveries()...)
	c.addEpilogues()
	c.sortUnits()
	c.orderAccumulation()
	for i, u := range c.units {
		for _, v := range u.reads {
			c.lastUse[c.root(v)] = i
		}
	}
}

func (c *Compiler) nodeUnit(n *graph.Node) *unit {
	if !slices.ContainsFunc(n.Outputs, func(v *graph.Value) bool { return v.Type().Elements() > 0 }) {
		return nil
	}
	u := &unit{nodes: []*graph.Node{n}, writes: n.Outputs, key: n.ID, reads: n.Inputs}
	if fusable(n) {
		u.reads = c.loads(n)
		u.lower = func(c *Compiler) { c.lowerFused(n) }
		return u
	}
	l, ok := lowerings[n.Op.Kind()]
	if !ok {
		c.fail("%v: no lowering", n)
		return nil
	}
	if l.prologue {
		u.reads = c.loads(n)
	}
	u.lower = func(c *Compiler) { l.Lower(c, n) }
	if l.finish != nil {
		u.finish = func(c *Compiler, e *epilogue) { l.finish(c, n, e) }
	}
	return u
}

// root is the node that a unit has its kind from.
func (u *unit) root() *graph.Node { return u.nodes[len(u.nodes)-1] }

// pair makes a unit of each forward node and its gradient node that a pair lowering takes, where the gradient does not
// depend on the forward node's outputs except through the pair itself.
func (c *Compiler) pair() map[*graph.Node]bool {
	paired := map[*graph.Node]bool{}
	for _, p := range pairLowerings {
		for _, g := range c.live {
			if g.Op.Kind() != p.gradient {
				continue
			}
			for _, f := range c.live {
				if f.Op.Kind() != p.forward || paired[f] || paired[g] || !p.match(f, g) || c.dependsBetween(f, g) {
					continue
				}
				paired[f], paired[g] = true, true
				u := c.joint(nil, f, g)
				u.lower = func(c *Compiler) { p.lower(c, f, g) }
				c.units = append(c.units, u)
			}
		}
	}
	return paired
}

// joint is a unit of several nodes, which the last gives its kind. inner, which one of them makes for the others, has no memory.
func (c *Compiler) joint(inner *graph.Value, nodes ...*graph.Node) *unit {
	u := &unit{nodes: nodes, key: nodes[len(nodes)-1].ID}
	for _, n := range nodes {
		for _, v := range n.Inputs {
			if !slices.Contains(nodes, c.root(v).Node()) && !slices.Contains(u.reads, v) {
				u.reads = append(u.reads, v)
			}
		}
		for _, v := range n.Outputs {
			if v != inner {
				u.writes = append(u.writes, v)
			}
		}
	}
	return u
}

// dependsBetween is whether some third node between f and g reads f and is needed by g.
func (c *Compiler) dependsBetween(f, g *graph.Node) bool {
	reached := map[*graph.Node]bool{f: true}
	for _, n := range c.live {
		if n.ID <= f.ID || n.ID > g.ID {
			continue
		}
		for _, v := range n.Inputs {
			if reached[v.Node()] && (n != g || v.Node() != f) {
				if n == g {
					return true
				}
				reached[n] = true
			}
		}
	}
	return false
}

// deliveries are the units that copy or add values to gradient leaves that their producers cannot write.
func (c *Compiler) deliveries() []*unit {
	var out []*unit
	for _, n := range c.live {
		for _, v := range n.Outputs {
			if c.direct(v) != nil {
				continue
			}
			if v.Type().Elements() == 0 {
				continue
			}
			for _, s := range c.sinks[v] {
				out = append(out, &unit{
					nodes: []*graph.Node{n}, reads: []*graph.Value{v}, key: n.ID, delivers: s,
					lower: func(c *Compiler) { c.deliver(v, s) },
				})
			}
		}
	}
	return out
}

// sortUnits is Kahn's algorithm with the smallest key first; ties keep the order of construction.
func (c *Compiler) sortUnits() {
	writer := map[*graph.Value]*unit{}
	for _, u := range c.units {
		for _, v := range u.writes {
			writer[v] = u
		}
	}
	for _, u := range c.units {
		for _, v := range u.reads {
			if w := writer[c.root(v)]; w != nil && w != u {
				w.next = append(w.next, u)
				u.after++
			}
		}
	}
	ready := &unitHeap{}
	for i, u := range c.units {
		u.key = u.key*len(c.units) + i
		if u.after == 0 {
			heap.Push(ready, u)
		}
	}
	var sorted []*unit
	for ready.Len() > 0 {
		u := heap.Pop(ready).(*unit)
		sorted = append(sorted, u)
		for _, v := range u.next {
			if v.after--; v.after == 0 {
				heap.Push(ready, v)
			}
		}
	}
	if len(sorted) != len(c.units) {
		panic("graph: compile: the units have a cycle") // a bug of pairing or fusion
	}
	c.units = sorted
}

// orderAccumulation lets the first delivery to each leaf overwrite it and the later ones add, or all add.
func (c *Compiler) orderAccumulation() {
	written := map[string]bool{}
	visit := func(s *sink) {
		s.accumulate = c.accumulate || written[s.path]
		written[s.path] = true
	}
	for _, u := range c.units {
		if u.delivers != nil {
			visit(u.delivers)
		}
		for _, v := range u.writes {
			if s := c.direct(v); s != nil {
				visit(s)
			}
		}
	}
}

type unitHeap []*unit

func (h unitHeap) Len() int           { return len(h) }
func (h unitHeap) Less(i, j int) bool { return h[i].key < h[j].key }
func (h unitHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *unitHeap) Push(x any)        { *h = append(*h, x.(*unit)) }
func (h *unitHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
