package partition

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gputrain/graph"
	"gputrain/model"
)

// A Unit is what a cut may not go through: the parameters of a layer, in the order of their first use, with the operations that follow
// them up to the next unit's.
type Unit struct {
	Name       string   // "h.3"; "embedding" and "head" for what stands before the first layer and after the last
	Params     []string // paths
	Bytes      uint64   // of Params, as f32
	Memory     uint64   // that its stage keeps for it, however small the microbatch: Units counts Params and their gradients, AddOptimizer the optimizer's state
	FLOPs      int64    // of the forward pass of one microbatch
	Activation uint64   // bytes that a cut behind it sends on, a microbatch; 0 behind the last
	Spared     int64    // of the work of its backward pass, what frozen parameters leave out
	OneWay     uint64   // of Activation, the bytes whose gradients nothing needs, for the same reason
}

// Units lists the units of a built graph in the order of the forward pass: the parameters in the order of their first use, those that
// share the path up to its first number in one unit. Layers whose parameters are used in turns are one unit. A parameter that is used
// again later, a tied one, belongs to the unit of its first use; what uses it later belongs to the unit of its other operands.
// Frozen are the paths of parameters that are not trained, which costs less.
func Units(built *model.Built, frozen ...string) ([]Unit, error) {
	if err := built.Graph.Err(); err != nil {
		return nil, fmt.Errorf("pipeline: units: %w", err)
	}
	nodes := forward(built)
	units, at := group(firstUses(nodes))
	if len(units) == 0 {
		return nil, fmt.Errorf("pipeline: units: found a graph without parameters, wanted one to cut")
	}
	name(units)
	place := make(map[*graph.Node]int, len(nodes))
	for _, n := range nodes {
		if p, ok := n.Op.(graph.Param); ok {
			u := &units[at[p.Path]]
			u.Bytes += 4 * uint64(n.Outputs[0].Type().Elements())
			place[n] = at[p.Path]
			continue
		}
		for _, in := range n.Inputs {
			place[n] = max(place[n], place[in.Node()])
		}
		units[place[n]].FLOPs += n.Op.FLOPs(n)
	}
	for i := range units {
		units[i].Memory = 2 * units[i].Bytes
	}
	sent(nodes, place, func(unit int, v *graph.Value) { units[unit].Activation += bytesOf(v) })
	spare(units, nodes, place, frozen)
	return units, nil
}

// forward lists the nodes that the ends of a model need, in an order of evaluation; what a backward pass has added is not among them.
func forward(built *model.Built) []*graph.Node {
	needed := map[*graph.Node]bool{}
	for _, v := range []*graph.Value{built.LossSum, built.Loss, built.Logits} {
		if v != nil && v.Node() != nil {
			needed[v.Node()] = true
		}
	}
	all := built.Graph.Nodes()
	for _, n := range slices.Backward(all) {
		if needed[n] {
			for _, in := range n.Inputs {
				needed[in.Node()] = true
			}
		}
	}
	return slices.DeleteFunc(slices.Clone(all), func(n *graph.Node) bool { return !needed[n] })
}

// firstUses lists the paths of the parameters in the order in which something takes them.
func firstUses(nodes []*graph.Node) []string {
	var paths []string
	seen := map[string]bool{}
	for _, n := range nodes {
		for _, in := range n.Inputs {
			if p, ok := in.Node().Op.(graph.Param); ok && !seen[p.Path] {
				seen[p.Path] = true
				paths = append(paths, p.Path)
			}
		}
	}
	return paths
}

// layerOf is a path up to its first number, "model.layers.3"; "" without one.
func layerOf(path string) string {
	names := strings.Split(path, ".")
	for i, name := range names {
		if strings.Trim(name, "0123456789") == "" && name != "" {
			return strings.Join(names[:i+1], ".")
		}
	}
	return ""
}

// group makes units of the paths, and tells which unit each path is in.
func group(paths []string) (units []Unit, at map[string]int) {
	last := map[string]int{} // of a layer: the unit that holds it
	for _, path := range paths {
		layer := layerOf(path)
		from, known := last[layer]
		switch {
		case layer != "" && known: // what has come between is used in turns with this layer
			for _, u := range units[from+1:] {
				units[from].Params = append(units[from].Params, u.Params...)
			}
			units = units[:from+1]
			for l, u := range last {
				last[l] = min(u, from)
			}
			units[from].Params = append(units[from].Params, path)
		case layer == "" && len(units) > 0 && layerOf(units[len(units)-1].Params[0]) == "":
			units[len(units)-1].Params = append(units[len(units)-1].Params, path)
		default:
			last[layer] = len(units)
			units = append(units, Unit{Params: []string{path}})
		}
	}
	at = map[string]int{}
	for i, u := range units {
		for _, path := range u.Params {
			at[path] = i
		}
	}
	return units, at
}

// name names each unit by its layer. Units without a number are named by where they stand.
func name(units []Unit) {
	for i := range units {
		u := &units[i]
		first := u.Params[0]
		u.Name = layerOf(first)
		switch {
		case u.Name != "":
		case i == 0:
			u.Name = "embedding"
		case i == len(units)-1:
			u.Name = "head"
		default:
			u.Name = first[:max(0, strings.LastIndexByte(first, '.'))]
		}
	}
}

// sent yields, behind each unit, the values made up to there that something behind needs. Parameters, what is made again of them, and inputs are
// not sent.
func sent(nodes []*graph.Node, place map[*graph.Node]int, yield func(unit int, v *graph.Value)) {
	until := map[*graph.Value]int{} // the last unit that needs a value
	for _, n := range nodes {
		for _, in := range n.Inputs {
			switch in.Node().Op.(type) {
			case graph.Input, graph.Constant:
				continue
			}
			if _, ok := base(in).Node().Op.(graph.Param); !ok {
				until[in] = max(until[in], place[n])
			}
		}
	}
	for v := range maps.Keys(until) {
		for i := place[v.Node()]; i < until[v]; i++ {
			yield(i, v)
		}
	}
}

func bytesOf(v *graph.Value) uint64 { return 4 * uint64(v.Type().Elements()) }

// names joins the names of units for an error, leaving out the middle of many.
func names(units []Unit) string {
	var list []string
	for _, u := range units {
		list = append(list, u.Name)
	}
	if len(list) > 6 {
		list = append(append(list[:3:3], "..."), list[len(list)-2:]...)
	}
	return strings.Join(list, ", ")
}
