package compile

import (
	"slices"
	"strings"

	"gputrain/gpu"
	"gputrain/graph"
)

// Work is what a program does in those of its dispatches that come of operations of one kind with the same kernels: operations that are executed, and bytes
// where each dispatch moves what it reads and what it writes once.
type Work struct {
	Group      string `json:"group"`     // what the operation counts as: Products, Attention, Head or Rest
	Kind       string `json:"operation"` // that of the result where several are fused
	Kernels    string `json:"kernels"`   // in the order in which they run: "attention_dq + attention_dkv"
	Dispatches int    `json:"dispatches"`
	gpu.Work
	Needed float64 `json:"needed_operations"` // as the graph counts them, nothing twice
	Least  float64 `json:"least_bytes"`       // of the Rest, if it were one kernel between every two of the other groups: what it takes from these, once, and hands to them or to gradient leaves
}

// Groups of work.
const (
	Products  = "products"
	Attention = "attention"
	Head      = "head and loss"
	Rest      = "the rest"
)

var groups = map[string]string{
	graph.MatMul{}.Kind(): Products, graph.RaggedMatMul{}.Kind(): Products, graph.RaggedOuter{}.Kind(): Products, graph.Attention{}.Kind(): Attention, graph.AttentionGrad{}.Kind(): Attention,
	graph.HeadLoss{}.Kind(): Head, graph.HeadLossGrad{}.Kind(): Head, graph.CrossEntropy{}.Kind(): Head, graph.CrossEntropyGrad{}.Kind(): Head,
	graph.HeadDivergence{}.Kind(): Head, graph.HeadDivergenceGrad{}.Kind(): Head,
}

func groupOf(u *unit) string {
	if g, ok := groups[u.root().Op.Kind()]; ok && u.delivers == nil {
		return g
	}
	return Rest
}

// Work lists the program's work, by kind and kernels, in the order of first use. Those that are needed add up to those of the graph, but for
// gradients that nobody wants.
func (p *Program) Work() []Work {
	units := make([]Work, len(p.units))
	for i, u := range p.units {
		units[i] = u.Work
	}
	for i, cmd := range p.commands {
		w := &units[cmd.unit]
		name := "zero"
		if k := cmd.kernel; k != nil {
			name = strings.TrimPrefix(k.Label, "gputrain.graph.")
			w.Dispatches++
		}
		if !slices.Contains(strings.Split(w.Kernels, " + "), name) {
			w.Kernels = strings.TrimPrefix(w.Kernels+" + "+name, " + ")
		}
		w.Bytes, w.Units = w.Bytes+p.work[i].Bytes, w.Units+p.work[i].Units
	}
	var out []Work
	for i, w := range units {
		if u := p.units[i]; u.follow != nil {
			f := u.follow.Work
			w.Bytes, f.Kernels = w.Bytes-f.Bytes, "in "+w.Kernels
			out = add(out, f)
		}
		out = add(out, w)
	}
	return out
}

// add puts an entry together with that of its kind and kernels.
func add(all []Work, w Work) []Work {
	at := slices.IndexFunc(all, func(o Work) bool { return o.Group == w.Group && o.Kind == w.Kind && o.Kernels == w.Kernels })
	if at < 0 {
		return append(all, w)
	}
	o := &all[at]
	o.Dispatches, o.Work, o.Needed, o.Least = o.Dispatches+w.Dispatches, o.Plus(w.Work), o.Needed+w.Needed, o.Least+w.Least
	return all
}

// workOfCommands is what each command does. The operations of a unit go to its products, by theirs, where it has any; else to its commands by the bytes
// that they move.
func (p *Program) workOfCommands() []gpu.Work {
	work := make([]gpu.Work, len(p.commands))
	products, moved := make([]float64, len(p.units)), make([]float64, len(p.units))
	for i, cmd := range p.commands {
		work[i].Bytes = float64(cmd.moved(p.units[cmd.unit]))
		products[cmd.unit] += cmd.flops
		moved[cmd.unit] += work[i].Bytes
	}
	for i, cmd := range p.commands {
		share := work[i].Bytes / moved[cmd.unit]
		if all := products[cmd.unit]; all > 0 {
			share = cmd.flops / all
		}
		u := p.units[cmd.unit]
		flops := u.FLOPs
		if u.follow != nil {
			flops += u.follow.FLOPs
		}
		work[i].FLOPs = share * flops
		if cmd.kernel != nil && strings.Contains(cmd.kernel.Label, "_matrix") {
			work[i].Units = work[i].FLOPs
		}
	}
	return work
}

// moved is the bytes that a command of a unit moves; see gpu.Kernel.Moved.
func (cmd boundCommand) moved(u unitWork) uint64 {
	if cmd.kernel == nil {
		return cmd.ranges[0].Bytes
	}
	table := 0
	if u.adds { // to the rows of what it writes
		table = len(cmd.ranges) - 1
	}
	return cmd.kernel.Moved(cmd.ranges, table, u.rows)
}

// unitWork is what a program remembers of a unit. Its bytes are those of an epilogue: what the kernel moves besides its own operands and a result of its
// own.
type unitWork struct {
	Work
	rows   uint64    // bytes of the rows that it looks up in a table, or adds to; 0 where it moves whole ranges
	adds   bool      // the table is what it writes, not what it reads first
	follow *unitWork // of its epilogue
}

// count adds a node, but for the product of a head's gradient that makes a gradient of weights which nobody wants.
func (c *Compiler) count(u *unitWork, n *graph.Node) {
	spared := int64(0)
	if _, head := n.Op.(graph.HeadLossGrad); head && !c.used(n.Outputs[1]) {
		x, w := n.Inputs[0].Shape(), n.Inputs[1].Shape()
		spared = 2 * int64(x[0]) * int64(w[0]) * int64(x[1])
	}
	u.FLOPs, u.Needed = u.FLOPs+float64(n.Executed()-spared), u.Needed+float64(n.FLOPs()-spared)
}

// operation is what a profile adds up the unit under.
func (u unitWork) operation() string {
	if u.Group != Rest {
		return u.Group
	}
	return u.Kind
}

// unitWorks counts each node once: in the first unit that computes it, or for an add that accumulation has replaced in the last unit that
// has a term of it.
func (c *Compiler) unitWorks() []unitWork {
	out := make([]unitWork, max(1, len(c.units))) // a product on trial belongs to none
	unitOf := map[*graph.Node]int{}
	for i, u := range c.units {
		root := u.root()
		out[i].Group, out[i].Kind = groupOf(u), root.Op.Kind()
		switch root.Op.(type) {
		case graph.Embedding:
			out[i].rows = valueBytes(root.Outputs[0])
		case graph.CachedAttention: // what is put into a cache, or, where that is more, the result
			tokens := uint64(root.Outputs[0].Type().Elements() / root.Outputs[0].Shape()[2])
			out[i].rows, out[i].adds = max(valueBytes(root.Outputs[0]), tokens*4*uint64(root.Outputs[1].Shape()[2])), true
		case graph.EmbeddingGrad:
			if c.Out(root.Outputs[0]).Accumulate {
				out[i].rows, out[i].adds = valueBytes(root.Inputs[0]), true
			}
		}
		visit := func(n *graph.Node, w *unitWork) {
			c.visitComputed(n, func(n *graph.Node) bool {
				_, counted := unitOf[n]
				if !counted {
					unitOf[n] = i
					c.count(w, n)
				}
				return !counted
			})
		}
		for _, n := range u.nodes {
			visit(n, &out[i])
		}
		if len(u.follow) > 0 {
			f := &unitWork{Work: Work{Group: Rest, Kind: u.follow[0].nodes[0].Op.Kind(), Work: gpu.Work{Bytes: u.besides()}}}
			out[i].follow = f
			for _, r := range u.follow {
				visit(r.nodes[0], f)
			}
		}
	}
	for _, n := range c.live {
		if _, counted := unitOf[n]; counted || !c.dropped[n] {
			continue
		}
		for _, v := range n.Inputs {
			unitOf[n] = max(unitOf[n], unitOf[v.Node()])
		}
		c.count(&out[unitOf[n]], n)
	}
	c.addLeast(out)
	return out
}

// visitComputed calls fn for a node and for what is computed with it, as long as fn says so.
func (c *Compiler) visitComputed(n *graph.Node, fn func(n *graph.Node) bool) {
	if !fn(n) {
		return
	}
	for _, v := range n.Inputs {
		if c.inlined[v.Node()] || c.viewed(v) != nil {
			c.visitComputed(v.Node(), fn)
		}
	}
}

// besides is what an epilogue reads and writes besides the kernel's own operands and one result.
func (u *unit) besides() float64 {
	bytes := uint64(0)
	for _, v := range u.reads[len(u.alone.reads):] {
		if !slices.Contains(u.alone.reads, v) {
			bytes += valueBytes(v)
		}
	}
	for _, v := range u.writes {
		bytes += valueBytes(v)
	}
	for _, v := range u.alone.writes {
		bytes -= valueBytes(v)
	}
	return float64(bytes)
}

// addLeast counts each value that passes between the rest and other groups once, with the unit of the rest that writes it or first reads it, as if each
// were a kernel of its own; of what the rest gives to a gradient leaf at most as much as that is made of, for a table's gradient is that of the rows that
// were looked up.
func (c *Compiler) addLeast(out []unitWork) {
	writer, counted := map[*graph.Value]*unitWork{}, map[*graph.Value]bool{}
	visit := func(w *unitWork, reads, writes []*graph.Value) {
		for _, v := range reads {
			v = c.root(v)
			from, made := writer[v]
			if !made || counted[v] || (from.Group == Rest) == (w.Group == Rest) {
				continue
			}
			counted[v] = true
			rest := w
			if from.Group == Rest {
				rest = from
			}
			rest.Least += float64(valueBytes(v))
		}
		for _, v := range writes {
			writer[v] = w
			if w.Group == Rest && len(c.sinks[v]) > 0 {
				w.Least += float64(min(valueBytes(v), valueBytes(reads[0])))
			}
		}
	}
	for i, u := range c.units {
		if len(u.follow) == 0 {
			visit(&out[i], u.reads, u.writes)
			continue
		}
		visit(&out[i], u.alone.reads, u.alone.writes)
		for _, r := range u.follow {
			visit(out[i].follow, r.reads, r.writes)
		}
	}
}

func valueBytes(v *graph.Value) uint64 { return typeBytes(v.Shape(), v.DType()) }
