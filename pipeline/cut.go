package pipeline

import (
	"fmt"
	"maps"
	"slices"

	"gputrain/graph"
	"gputrain/graph/compile"
	"gputrain/internal/schedule"
)

// cut is a graph divided into parts. Operations follow their parameters; what has none follows what it reads, and what depends on inputs
// alone is computed wherever it is read. The gradient of an operation is computed in the part of the operation, a sum of gradients in the
// first part that has a term. So layers that lie together exchange one tensor a microbatch, and the two gradients of a tied weight are
// added up where its parameter lives, in the order in which one device adds them.
type cut struct {
	Parts   []*part
	Edges   []edge
	Outputs []output
}

// part is one piece of the model.
type part struct {
	Params  []string // that live here, sorted
	Mirrors []string // that live elsewhere and are read here too
	Saved   []*graph.Value
	// The passes, as graphs of their own. Whole is forward and backward at once. Where nothing in the part or before it is trained, only Forward is set.
	Forward, Backward, Whole *pass
}

// edge is what one part hands to another, the same values in every microbatch: activations forward, their gradients backward.
type edge struct {
	schedule.Edge
	Values []*graph.Value
}

func (e edge) String() string { return fmt.Sprintf("%s from part %d to part %d", e.Kind, e.From, e.To) }

// Depth is how many messages are under way on an edge at once.
func (e edge) Depth() int { return max(schedule.LinkMessages, schedule.Hops(e.From, e.To)) }

// Detours are the edges between parts that are no neighbours.
func (c *cut) Detours() []schedule.Edge {
	var out []schedule.Edge
	for _, e := range c.Edges {
		if schedule.Hops(e.From, e.To) > 1 {
			out = append(out, e.Edge)
		}
	}
	return out
}

// output is a named result, and the part that computes it.
type output struct {
	Name  string
	Value *graph.Value
	Part  int
}

// pass is what a part does in one program: the piece of the graph, what it is given and what it makes, in values of the whole graph.
type pass struct {
	Piece  *graph.Extracted
	Given  []*graph.Value
	Made   []*graph.Value
	Named  []output
	Leaves []compile.Target // gradients, of a backward pass
}

// cutting is a cut in the making.
type cutting struct {
	graph   *graph.Graph
	forward int // nodes of the forward pass come first
	owner   map[string]int
	place   map[*graph.Node]int // of nodes that some parameter leads to
	cut     *cut
	edges   map[schedule.Edge][]*graph.Value
	saved   []map[*graph.Value]bool
	mirrors []map[string]bool
}

// newCut divides a graph. forward is the number of nodes of its forward pass, owner the part of each parameter, grads the gradient of each that is
// trained (none for a forward pass alone), outputs what is wanted besides. Errors: an operation whose parameters are all of earlier parts, that is, an
// assignment that goes backwards.
func newCut(g *graph.Graph, forward int, owner map[string]int, parts int, grads []compile.Target, outputs []output) (*cut, error) {
	c := &cutting{
		graph: g, forward: forward, owner: owner, place: map[*graph.Node]int{}, cut: &cut{Outputs: slices.Clone(outputs)}, edges: map[schedule.Edge][]*graph.Value{},
		saved: make([]map[*graph.Value]bool, parts), mirrors: make([]map[string]bool, parts),
	}
	for p := range parts {
		c.cut.Parts = append(c.cut.Parts, &part{})
		c.saved[p], c.mirrors[p] = map[*graph.Value]bool{}, map[string]bool{}
	}
	for path, p := range owner {
		c.cut.Parts[p].Params = append(c.cut.Parts[p].Params, path)
	}
	var wanted []*graph.Value
	for _, l := range grads {
		wanted = append(wanted, l.Value)
	}
	for _, o := range outputs {
		wanted = append(wanted, o.Value)
	}
	nodes := ancestors(g, wanted)
	for _, n := range nodes {
		c.assign(n)
	}
	for i, o := range outputs {
		part, ok := c.place[o.Value.Node()]
		if !ok { // it is computed anywhere
			part = parts - 1
		}
		c.cut.Outputs[i].Part = part
	}
	for _, l := range grads {
		if at, ok := c.place[l.Value.Node()]; !ok || at != owner[l.Leaf] {
			return nil, fmt.Errorf("pipeline: cut: parameter %q of part %d is first read in part %d: want a parameter to live where it is first read", l.Leaf, owner[l.Leaf], at)
		}
	}
	for _, n := range nodes {
		for _, v := range n.Inputs {
			if err := c.read(n, v); err != nil {
				return nil, err
			}
		}
	}
	return c.finish(grads)
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

// read notes how an operand comes to a node.
func (c *cutting) read(n *graph.Node, v *graph.Value) error {
	here, ok := c.place[n]
	if !ok || n.Remade() {
		return nil
	}
	v = v.Base()
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
		c.hand(schedule.Edge{From: from, To: here, Kind: schedule.Forward}, v)
	case from != here:
		c.hand(schedule.Edge{From: from, To: here, Kind: schedule.Backward}, v)
	}
	if backward && !late {
		c.saved[here][v] = true
	}
	return nil
}

func (c *cutting) hand(k schedule.Edge, v *graph.Value) {
	if !slices.Contains(c.edges[k], v) {
		c.edges[k] = append(c.edges[k], v)
	}
}

// finish makes the passes.
func (c *cutting) finish(grads []compile.Target) (*cut, error) {
	keys := slices.SortedFunc(maps.Keys(c.edges), func(a, b schedule.Edge) int {
		return slices.Compare([]int{int(a.Kind), a.From, a.To}, []int{int(b.Kind), b.From, b.To})
	})
	received := make([]map[schedule.Kind][]*graph.Value, len(c.cut.Parts))
	sent := make([]map[schedule.Kind][]*graph.Value, len(c.cut.Parts))
	for p := range c.cut.Parts {
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
		c.cut.Edges = append(c.cut.Edges, edge{k, c.edges[k]})
		add(sent[k.From], k.Kind, c.edges[k])
		add(received[k.To], k.Kind, c.edges[k])
	}
	for p, part := range c.cut.Parts {
		slices.Sort(part.Params)
		part.Mirrors = slices.Sorted(maps.Keys(c.mirrors[p]))
		var named []output
		for _, o := range c.cut.Outputs {
			if o.Part == p {
				named = append(named, o)
			}
		}
		in, out := received[p], sent[p]
		forward := &pass{Given: in[schedule.Forward], Made: slices.Clone(out[schedule.Forward]), Named: named}
		own := slices.DeleteFunc(slices.Clone(grads), func(l compile.Target) bool { return c.owner[l.Leaf] != p })
		var err error
		if len(own) == 0 && len(out[schedule.Backward]) == 0 {
			if part.Forward, err = c.extract(forward); err != nil {
				return nil, err
			}
			continue
		}
		part.Saved = c.savedOf(p)
		for _, v := range part.Saved {
			if !slices.Contains(in[schedule.Forward], v) && !slices.Contains(forward.Made, v) {
				forward.Made = append(forward.Made, v)
			}
		}
		backward := &pass{Given: slices.Concat(part.Saved, in[schedule.Backward]), Made: out[schedule.Backward], Leaves: own}
		whole := &pass{Given: slices.Concat(in[schedule.Forward], in[schedule.Backward]), Made: slices.Concat(out[schedule.Forward], out[schedule.Backward]), Named: named, Leaves: own}
		for _, make := range []struct {
			pass *pass
			to   **pass
		}{{forward, &part.Forward}, {backward, &part.Backward}, {whole, &part.Whole}} {
			if *make.to, err = c.extract(make.pass); err != nil {
				return nil, err
			}
		}
	}
	return c.cut, nil
}

// savedOf are the forward values that the backward pass of a part reads, in order.
func (c *cutting) savedOf(p int) []*graph.Value {
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
	for _, v := range p.Given {
		given[v] = valueName(v)
	}
	wanted := slices.Clone(p.Made)
	for _, o := range p.Named {
		wanted = append(wanted, o.Value)
	}
	for _, l := range p.Leaves {
		wanted = append(wanted, l.Value)
	}
	var err error
	if p.Piece, err = c.graph.Extract(wanted, given); err != nil {
		return nil, fmt.Errorf("pipeline: cut: %w", err)
	}
	p.Given = slices.DeleteFunc(slices.Clone(p.Given), func(v *graph.Value) bool { return p.Piece.Value(v) == nil })
	return p, nil
}

// Targets are what a pass makes, for the compiler.
func (p *pass) Targets() []compile.Target {
	var out []compile.Target
	for _, v := range p.Made {
		out = append(out, compile.Target{Name: valueName(v), Value: p.Piece.Value(v)})
	}
	for _, o := range p.Named {
		out = append(out, compile.Target{Name: o.Name, Value: p.Piece.Value(o.Value)})
	}
	for _, l := range p.Leaves {
		out = append(out, compile.Target{Leaf: l.Leaf, Value: p.Piece.Value(l.Value)})
	}
	return out
}

// Crossing are the names of the values that the pass is given or hands on, which lie in buffers of the stage.
func (p *pass) Crossing() []string {
	var names []string
	for _, v := range slices.Concat(p.Given, p.Made) {
		names = append(names, valueName(v))
	}
	return names
}
