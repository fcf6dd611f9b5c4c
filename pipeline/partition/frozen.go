package partition

import (
	"slices"

	"gputrain/graph"
)

// spare notes what frozen parameters leave out of the backward passes of units. A gradient is computed for the operands of a node that something
// trained leads to; each costs its share of the work of all that parameters lead to.
func spare(units []Unit, nodes []*graph.Node, place map[*graph.Node]int, frozen []string) {
	if len(frozen) == 0 {
		return
	}
	reads, learns := map[*graph.Node]bool{}, map[*graph.Node]bool{} // nodes that parameters, and trained ones, lead to
	for _, n := range nodes {
		if p, ok := n.Op.(graph.Param); ok {
			reads[n], learns[n] = true, !slices.Contains(frozen, p.Path)
			continue
		}
		all, left := 0, 0
		for _, in := range n.Inputs {
			switch from := in.Node(); {
			case learns[from]:
				all++
			case reads[from]:
				all, left = all+1, left+1
			}
		}
		reads[n], learns[n] = all > 0, left < all
		if left > 0 {
			units[place[n]].Spared += backwardWork * n.FLOPs() * int64(left) / int64(all)
		}
	}
	sent(nodes, place, func(unit int, v *graph.Value) {
		if reads[v.Node()] && !learns[v.Node()] {
			units[unit].OneWay += bytesOf(v)
		}
	})
}
