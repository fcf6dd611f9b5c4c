package model

import (
	"slices"
	"strings"

	"gputrain/graph"
)

// A unit is a piece of a network that is taken whole, where it is cut and where it is computed again: parameters, with the operations that follow
// them up to the next unit's.
type unit struct {
	Layer  string   // the path up to its first number, "model.layers.3"; "" for what stands before the first layer, between layers, and after the last
	Params []string // paths, in the order of their first use
}

// Units divides a built network in the order of its forward pass, and tells the unit of each node of that. Parameters that share the path up to
// its first number are in one unit. Layers whose parameters are used in turns are one unit. A parameter that is used again later, a tied one,
// belongs to the unit of its first use; what uses it later belongs to the unit of its other operands. One that nothing uses because
// a copy is trained in its place belongs to the unit of that. nodes are those of the forward pass, in
// order.
func Units(built *Built) (units []unit, nodes []*graph.Node, place map[*graph.Node]int) {
	nodes = forward(built)
	units, at := group(slices.DeleteFunc(firstUses(nodes), refersTo))
	nodes = append(replaced(built, units, at), nodes...)
	for _, v := range built.Params { // a reference is computed where the network is
		if path := paramOf(v); refersTo(path) {
			unit := at[strings.TrimPrefix(path, referencePrefix)]
			at[path] = unit
			units[unit].Params = append(units[unit].Params, path)
			if !slices.Contains(nodes, v.Node()) {
				nodes = append([]*graph.Node{v.Node()}, nodes...)
			}
		}
	}
	place = make(map[*graph.Node]int, len(nodes))
	for _, n := range nodes {
		if p, ok := n.Op.(graph.Param); ok {
			place[n] = at[p.Path]
		}
		for _, in := range n.Inputs {
			place[n] = max(place[n], place[in.Node()])
		}
	}
	return units, nodes, place
}

// replaced puts parameters that nothing uses into the units of their copies, and lists their nodes.
func replaced(built *Built, units []unit, at map[string]int) (nodes []*graph.Node) {
	copied := map[string]int{}
	for path, unit := range at {
		copied[Adapts(path)] = unit
	}
	for _, v := range built.Params {
		path := paramOf(v)
		unit, ok := copied[path]
		if _, used := at[path]; used || !ok {
			continue
		}
		at[path] = unit
		units[unit].Params = append(units[unit].Params, path)
		nodes = append(nodes, v.Node())
	}
	return nodes
}

// forward lists the nodes that the ends of a model need, in an order of evaluation; what a backward pass has added is not among them.
func forward(built *Built) []*graph.Node {
	needed := map[*graph.Node]bool{}
	for _, v := range []*graph.Value{built.LossSum, built.Loss, built.Learned, built.Routed, built.Logits} {
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
	names := strings.Split(Adapts(path), ".")
	for i, name := range names {
		if strings.Trim(name, "0123456789") == "" && name != "" {
			return strings.Join(names[:i+1], ".")
		}
	}
	return ""
}

// group makes units of the paths, and tells which unit each path is in.
func group(paths []string) (units []unit, at map[string]int) {
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
		case layer == "" && len(units) > 0 && units[len(units)-1].Layer == "":
			units[len(units)-1].Params = append(units[len(units)-1].Params, path)
		default:
			last[layer] = len(units)
			units = append(units, unit{Layer: layer, Params: []string{path}})
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
