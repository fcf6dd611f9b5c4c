package compile

import (
	"slices"
	"strings"

	"gputrain/gpu"
	"gputrain/graph"
)

// Work is what a program does in those of its dispatches that come of operations of one kind with the same kernels.
type Work struct {
	Group      string // what the operation counts as: Products, Attention, Head or Rest
	Kind       string // of the operation, that of the result where several are fused
	Kernels    string // in the order in which they run: "attention_dq + attention_dkv"
	Dispatches int
	Bytes      uint64 // that move where each dispatch moves what it reads and what it writes once
	Least      uint64 // bytes of the Rest that no fusion spares: what it takes from the other groups, once, and hands to them or to gradient leaves
	FLOPs      int64  // as the graph counts them
}

// Groups of work.
const (
	Products  = "products"
	Attention = "attention"
	Head      = "head and loss"
	Rest      = "the rest"
)

var groups = map[string]string{
	graph.MatMul{}.Kind(): Products, graph.Attention{}.Kind(): Attention, graph.AttentionGrad{}.Kind(): Attention,
	graph.HeadLoss{}.Kind(): Head, graph.HeadLossGrad{}.Kind(): Head, graph.CrossEntropy{}.Kind(): Head, graph.CrossEntropyGrad{}.Kind(): Head,
}

func groupOf(u *unit) string {
	if g, ok := groups[u.nodes[len(u.nodes)-1].Op.Kind()]; ok && u.delivers == nil {
		return g
	}
	return Rest
}

// Work lists the program's work, by kind and kernels, in the order of first use. Its operations add up to those of the graph.
func (p *Program) Work() []Work {
	units := make([]Work, len(p.units))
	passes := map[*gpu.Kernel][]int{}
	for _, cmd := range p.commands {
		w := &units[cmd.unit]
		name := "zero"
		if k := cmd.kernel; k != nil {
			name = strings.TrimPrefix(k.Label, "gputrain.graph.")
			w.Dispatches++
			if passes[k] == nil {
				passes[k] = k.Passes()
			}
		}
		if !slices.Contains(strings.Split(w.Kernels, " + "), name) {
			w.Kernels = strings.TrimPrefix(w.Kernels+" + "+name, " + ")
		}
		w.Bytes += cmd.moved(passes[cmd.kernel], p.units[cmd.unit].rows)
	}
	var out []Work
	for i, w := range units {
		u := p.units[i]
		w.Group, w.Kind, w.FLOPs, w.Least = u.group, u.kind, u.flops, u.least
		at := slices.IndexFunc(out, func(o Work) bool { return o.Group == w.Group && o.Kind == w.Kind && o.Kernels == w.Kernels })
		if at < 0 {
			out = append(out, w)
			continue
		}
		o := &out[at]
		o.Dispatches, o.Bytes, o.Least, o.FLOPs = o.Dispatches+w.Dispatches, o.Bytes+w.Bytes, o.Least+w.Least, o.FLOPs+w.FLOPs
	}
	return out
}

// moved is the bytes that a command moves. A range that is bound twice counts once; of a table whose rows are looked up count at most rows bytes,
// unless that is 0.
func (cmd boundCommand) moved(passes []int, rows uint64) (n uint64) {
	if cmd.kernel == nil {
		return cmd.ranges[0].Bytes
	}
	passes = passes[len(passes)-len(cmd.ranges):] // without the params
	for i, r := range cmd.ranges {
		bytes := r.Bytes
		if i == 0 && rows > 0 {
			bytes = min(bytes, rows)
		}
		if !slices.Contains(cmd.ranges[:i], r) {
			n += uint64(passes[i]) * bytes
		}
	}
	return n
}

// unitWork is what a program remembers of a unit.
type unitWork struct {
	group, kind string
	flops       int64
	least       uint64
	rows        uint64 // bytes of the rows that it looks up in its first binding; 0 where it reads all of it
}

// unitWorks counts each node once: in the first unit that computes it, or for an add that accumulation has replaced in the last unit that
// has a term of it.
func (c *Compiler) unitWorks() []unitWork {
	out := make([]unitWork, len(c.units))
	unitOf := map[*graph.Node]int{}
	for i, u := range c.units {
		root := u.nodes[len(u.nodes)-1]
		out[i].group, out[i].kind = groupOf(u), root.Op.Kind()
		if _, ok := root.Op.(graph.Embedding); ok {
			out[i].rows = valueBytes(root.Outputs[0])
		}
		var visit func(n *graph.Node)
		visit = func(n *graph.Node) {
			if _, counted := unitOf[n]; counted {
				return
			}
			unitOf[n] = i
			out[i].flops += n.Op.FLOPs(n)
			for _, v := range n.Inputs {
				if c.inlined[v.Node()] || c.viewed(v) != nil {
					visit(v.Node())
				}
			}
		}
		for _, n := range u.nodes {
			visit(n)
		}
	}
	for _, n := range c.live {
		if _, counted := unitOf[n]; counted || !c.dropped[n] {
			continue
		}
		for _, v := range n.Inputs {
			unitOf[n] = max(unitOf[n], unitOf[v.Node()])
		}
		out[unitOf[n]].flops += n.Op.FLOPs(n)
	}
	c.addLeast(out)
	return out
}

// addLeast counts each value that passes between the rest and other groups once, with the unit of the rest that writes it or first reads it; of what
// the rest gives to a gradient leaf at most as much as that is made of, for a table's gradient is that of the rows that were looked up.
func (c *Compiler) addLeast(out []unitWork) {
	writer, counted := map[*graph.Value]int{}, map[*graph.Value]bool{}
	for i, u := range c.units {
		for _, v := range u.reads {
			v = c.root(v)
			from, made := writer[v]
			if !made || counted[v] || (out[from].group == Rest) == (out[i].group == Rest) {
				continue
			}
			counted[v] = true
			rest := i
			if out[from].group == Rest {
				rest = from
			}
			out[rest].least += valueBytes(v)
		}
		for _, v := range u.writes {
			writer[v] = i
			if out[i].group == Rest && len(c.sinks[v]) > 0 {
				out[i].least += min(valueBytes(v), valueBytes(u.reads[0]))
			}
		}
	}
}

func valueBytes(v *graph.Value) uint64 { return typeBytes(v.Shape(), v.DType()) }
