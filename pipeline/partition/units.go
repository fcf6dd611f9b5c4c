package partition

import (
	"fmt"
	"maps"
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
	Memory     uint64   // that its stage keeps for it, however small the microbatch: Units counts Params and their gradients, AddOptimizer the optimizer's state and sums of gradients
	FLOPs      int64    // of the forward pass of one microbatch
	Activation uint64   // bytes that a cut behind it sends on, a microbatch; 0 behind the last
	Spared     int64    // of the work of its backward pass, what frozen parameters leave out
	OneWay     uint64   // of Activation, the bytes whose gradients nothing needs, for the same reason
}

// Units lists the units of a built graph in the order of the forward pass; see model.Units. Frozen are the paths of parameters that are not
// trained, which costs less.
func Units(built *model.Built, frozen ...string) ([]Unit, error) {
	if err := built.Graph.Err(); err != nil {
		return nil, fmt.Errorf("pipeline: units: %w", err)
	}
	pieces, nodes, place := model.Units(built)
	if len(pieces) == 0 {
		return nil, fmt.Errorf("pipeline: units: found a graph without parameters, wanted one to cut")
	}
	units := make([]Unit, len(pieces))
	for i, p := range pieces {
		units[i] = Unit{Name: p.Layer, Params: p.Params}
	}
	name(units)
	for _, n := range nodes {
		u := &units[place[n]]
		if _, ok := n.Op.(graph.Param); ok {
			u.Bytes += 4 * uint64(n.Outputs[0].Type().Elements())
		}
		u.FLOPs += n.FLOPs()
	}
	for i := range units {
		units[i].Memory = 2 * units[i].Bytes
	}
	sent(nodes, place, func(unit int, v *graph.Value) { units[unit].Activation += bytesOf(v) })
	spare(units, nodes, place, frozen)
	return units, nil
}

// name names the units that are no layers by where they stand.
func name(units []Unit) {
	for i := range units {
		u := &units[i]
		first := u.Params[0]
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
			if _, ok := in.Base().Node().Op.(graph.Param); !ok {
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
