package pipeline

import (
	"fmt"
	"maps"
	"slices"

	"gputrain/graph"
	"gputrain/graph/compile"
	"gputrain/pipeline/schedule"
)

// A cut is a graph divided into parts. Operations follow their parameters; what has none follows what it reads, and what depends on inputs
// alone is computed wherever it is read. The gradient of an operation is computed in the part of the operation, a sum of gradients in the
// first part that has a term. So layers that lie together exchange one tensor a microbatch, and the two gradients of a tied weight are
// added up where its parameter lives, in the order in which one device adds them.
type cut struct {
	parts   []*part
	edges   []edge
	outputs []output
}

// part is one piece of the model.
type part struct {
	params  []string // that live here, sorted
	mirrors []string // that live elsewhere and are read here too
	saved   []*graph.Value
	// The passes, as graphs of their own. whole is forward and backward at once; in a cut without gradients only forward is set.
	forward, backward, whole *pass
}

// edge is what one part hands to another, the same values in every microbatch.
type edge struct {
	from, to int
	kind     schedule.Kind // Forward: activations; Backward: their gradients
	values   []*graph.Value
}

func (e edge) String() string { return fmt.Sprintf("%s from part %d to part %d", e.kind, e.from, e.to) }

// detours are the edges between parts that are no neighbours.
func (c *cut) detours() []schedule.Edge {
	var out []schedule.Edge
	for _, e := range c.edges {
		if schedule.Hops(e.from, e.to) > 1 {
			out = append(out, schedule.Edge{From: e.from, To: e.to, Kind: e.kind})
		}
	}
	return out
}

// output is a named result, and the part that computes it.
type output struct {
	name  string
	value *graph.Value
	part  int
}

// pass is what a part does in one program: the piece of the graph, what it is given and what it makes, in values of the whole graph.
type pass struct {
	piece  *graph.Extracted
	given  []*graph.Value
	made   []*graph.Value
	named  []output
	leaves []leaf // gradients, of a backward pass
}

// leaf is the gradient of a parameter.
type leaf struct {
	path  string
	value *graph.Value
}

// cutting is a cut in the making.
type cutting struct {
	graph   *graph.Graph
	forward int // nodes of the forward pass come first
	owner   map[string]int
	place   map[*graph.Node]int // of nodes that some parameter leads to
	cut     *cut
	edges   map[edgeKey][]*graph.Value
	saved   []map[*graph.Value]bool
	mirrors []map[string]bool
}

type edgeKey struct {
	from, to int
	kind     schedule.Kind
}

// newCut divides a graph. forward is the number of nodes of its forward pass, owner the part of each parameter, grads the gradient of each (none
// for a forward pass alone), outputs what is wanted besides. With recompute a backward pass computes the activations of its part again
// instead of keeping them. Errors: an operation whose parameters are all of earlier parts, that is, an assignment that goes backwards.
func newCut(g *graph.Graph, forward int, owner map[string]int, parts int, grads []leaf, outputs []output, recompute bool) (*cut, error) {
	c := &cutting{
		graph: g, forward: forward, owner: owner, place: map[*graph.Node]int{}, cut: &cut{outputs: slices.Clone(outputs)}, edges: map[edgeKey][]*graph.Value{},
		saved: make([]map[*graph.Value]bool, parts), mirrors: make([]map[string]bool, parts),
	}
	for p := range parts {
		c.cut.parts = append(c.cut.parts, &part{})
		c.saved[p], c.mirrors[p] = map[*graph.Value]bool{}, map[string]bool{}
	}
	for path, p := range owner {
		c.cut.parts[p].params = append(c.cut.parts[p].params, path)
	}
	var wanted []*graph.Value
	for _, l := range grads {
		wanted = append(wanted, l.value)
	}
	for _, o := range outputs {
		wanted = append(wanted, o.value)
	}
	nodes := ancestors(g, wanted)
	for _, n := range nodes {
		c.assign(n)
	}
	for i, o := range outputs {
		c.cut.outputs[i].part = c.place[o.value.Node()]
	}
	for _, l := range grads {
		if at, ok := c.place[l.value.Node()]; !ok || at != owner[l.path] {
			return nil, fmt.Errorf("pipeline: cut: parameter %q of part %d is first read in part %d: want a parameter to live where it is first read", l.path, owner[l.path], at)
		}
	}
	for _, n := range nodes {
		for _, v := range n.Inputs {
			if err := c.read(n, v); err != nil {
				return nil, err
			}
		}
	}
	return c.finish(grads, recompute)
}

// ancestors are the nodes that values need, in order.
func ancestors(g *graph.Graph, values []*graph.Value) []*graph.Node {
	need := map[*graph.Node]bool{}
	for _, v := range values {
		need[v.Node()] = true
	}
	var nodes []*graph.Node
	for _, n := range slices.Backward(g.Nodes()) {
		if !need[n] {
			continue
		}
		nodes = append(nodes, n)
		for _, v := range n.Inputs {
			need[v.Node()] = true
		}
	}
	slices.Reverse(nodes)
	return nodes
}

// assign puts a node into its part, unless it is free: one that no parameter leads to.
func (c *cutting) assign(n *graph.Node) {
	if p, ok := n.Op.(graph.Param); ok {
		c.place[n] = c.owner[p.Path]
		return
	}
	first, last, found := 0, 0, false
	for _, v := range n.Inputs {
		at, ok := c.place[v.Node()]
		switch {
		case !ok:
		case !found:
			first, last, found = at, at, true
		default:
			first, last = min(first, at), max(last, at)
		}
	}
	if !found {
		return
	}
	switch {
	case n.ID < c.forward:
		c.place[n] = last
	case n.Of != nil && c.placed(n.Of):
		c.place[n] = c.place[n.Of]
	default:
		c.place[n] = first
	}
}

func (c *cutting) placed(n *graph.Node) bool {
	_, ok := c.place[n]
	return ok
}

// base is the value behind what is made again wherever it is read, which a pass need not keep for every microbatch, nor hand on.
func base(v *graph.Value) *graph.Value {
	for isRemade(v.Node()) {
		v = v.Node().Inputs[0]
	}
	return v
}

func isRemade(n *graph.Node) bool {
	_, ok := n.Op.(graph.Remade)
	return ok
}

// read notes how an operand comes to a node.
func (c *cutting) read(n *graph.Node, v *graph.Value) error {
	here, ok := c.place[n]
	if !ok || isRemade(n) {
		return nil
	}
	v = base(v)
	from, ok := c.place[v.Node()]
	if !ok {
		return nil
	}
	if p, ok := v.Node().Op.(graph.Param); ok {
		if from != here {
			c.mirrors[here][p.Path] = true
		}
		return nil
	}
	backward, late := n.ID >= c.forward, v.Node().ID >= c.forward
	switch {
	case backward && !late && from > here, backward && late && from < here, !backward && from > here:
		return fmt.Errorf("pipeline: cut: %v in part %d reads %v of part %d, against the direction of the pass", n, here, v.Node(), from)
	case from != here && !late:
		c.hand(edgeKey{from, here, schedule.Forward}, v)
	case from != here:
		c.hand(edgeKey{from, here, schedule.Backward}, v)
	}
	if backward && !late {
		c.saved[here][v] = true
	}
	return nil
}

func (c *cutting) hand(k edgeKey, v *graph.Value) {
	if !slices.Contains(c.edges[k], v) {
		c.edges[k] = append(c.edges[k], v)
	}
}

// finish makes the passes.
func (c *cutting) finish(grads []leaf, recompute bool) (*cut, error) {
	keys := slices.SortedFunc(maps.Keys(c.edges), func(a, b edgeKey) int {
		return slices.Compare([]int{int(a.kind), a.from, a.to}, []int{int(b.kind), b.from, b.to})
	})
	received := make([]map[schedule.Kind][]*graph.Value, len(c.cut.parts))
	sent := make([]map[schedule.Kind][]*graph.Value, len(c.cut.parts))
	for p := range c.cut.parts {
		received[p], sent[p] = map[schedule.Kind][]*graph.Value{}, map[schedule.Kind][]*graph.Value{}
	}
	add := func(to map[schedule.Kind][]*graph.Value, k schedule.Kind, values []*graph.Value) {
		for _, v := range values {
			if !slices.Contains(to[k], v) {
				to[k] = append(to[k], v)
			}
		}
	}
	for _, k := range keys {
		c.cut.edges = append(c.cut.edges, edge{k.from, k.to, k.kind, c.edges[k]})
		add(sent[k.from], k.kind, c.edges[k])
		add(received[k.to], k.kind, c.edges[k])
	}
	for p, part := range c.cut.parts {
		slices.Sort(part.params)
		part.mirrors = slices.Sorted(maps.Keys(c.mirrors[p]))
		var named []output
		for _, o := range c.cut.outputs {
			if o.part == p {
				named = append(named, o)
			}
		}
		in, out := received[p], sent[p]
		forward := &pass{given: in[schedule.Forward], made: slices.Clone(out[schedule.Forward]), named: named}
		var err error
		if len(grads) == 0 {
			if part.forward, err = c.extract(forward); err != nil {
				return nil, err
			}
			continue
		}
		part.saved = c.savedOf(p, in[schedule.Forward], recompute)
		for _, v := range part.saved {
			if !slices.Contains(in[schedule.Forward], v) && !slices.Contains(forward.made, v) {
				forward.made = append(forward.made, v)
			}
		}
		backward := &pass{given: slices.Concat(part.saved, in[schedule.Backward]), made: out[schedule.Backward]}
		whole := &pass{given: slices.Concat(in[schedule.Forward], in[schedule.Backward]), made: slices.Concat(out[schedule.Forward], out[schedule.Backward]), named: named}
		for _, l := range grads {
			if c.owner[l.path] == p {
				backward.leaves = append(backward.leaves, l)
				whole.leaves = append(whole.leaves, l)
			}
		}
		for _, make := range []struct {
			pass *pass
			to   **pass
		}{{forward, &part.forward}, {backward, &part.backward}, {whole, &part.whole}} {
			if *make.to, err = c.extract(make.pass); err != nil {
				return nil, err
			}
		}
	}
	return c.cut, nil
}

// savedOf are the forward values that the backward pass of a part reads, in order; those received, where it recomputes the others.
func (c *cutting) savedOf(p int, received []*graph.Value, recompute bool) []*graph.Value {
	if recompute {
		return received
	}
	return slices.SortedFunc(maps.Keys(c.saved[p]), func(a, b *graph.Value) int {
		return slices.Compare([]int{a.Node().ID, a.Index()}, []int{b.Node().ID, b.Index()})
	})
}

// valueName is the name of a value of the whole graph in the programs that read or make it.
func valueName(v *graph.Value) string {
	return fmt.Sprintf("%v.%d.%d", v.Node(), v.Node().ID, v.Index())
}

func (c *cutting) extract(p *pass) (*pass, error) {
	given := map[*graph.Value]string{}
	for _, v := range p.given {
		given[v] = valueName(v)
	}
	wanted := slices.Clone(p.made)
	for _, o := range p.named {
		wanted = append(wanted, o.value)
	}
	for _, l := range p.leaves {
		wanted = append(wanted, l.value)
	}
	var err error
	if p.piece, err = c.graph.Extract(wanted, given); err != nil {
		return nil, fmt.Errorf("pipeline: cut: %w", err)
	}
	p.given = slices.DeleteFunc(slices.Clone(p.given), func(v *graph.Value) bool { return p.piece.Value(v) == nil })
	return p, nil
}

// targets are what a pass makes, for the compiler.
func (p *pass) targets() []compile.Target {
	var out []compile.Target
	for _, v := range p.made {
		out = append(out, compile.Target{Name: valueName(v), Value: p.piece.Value(v)})
	}
	for _, o := range p.named {
		out = append(out, compile.Target{Name: o.name, Value: p.piece.Value(o.value)})
	}
	for _, l := range p.leaves {
		out = append(out, compile.Target{Leaf: l.path, Value: p.piece.Value(l.value)})
	}
	return out
}

// crossing are the names of the values that the pass is given or hands on, which lie in buffers of the stage.
func (p *pass) crossing() []string {
	var names []string
	for _, v := range slices.Concat(p.given, p.made) {
		names = append(names, valueName(v))
	}
	return names
}
