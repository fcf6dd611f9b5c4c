package model

import (
	"fmt"
	"slices"
	"strings"

	"gputrain/graph"
	"gputrain/internal/suggest"
)

// What of a layer's forward pass the backward pass computes again, just before it needs it, instead of keeping it.
const (
	// RecomputeNone keeps all that is needed.
	RecomputeNone = "none"
	// RecomputeAttention computes again what is cheap for its size: the operands of attention, with the products that they are made of, norms,
	// activation functions and whatever else comes without a product. Kept are a layer's input, the output of its attention and those of its other
	// products: what costs most of the layer's work. It is the selective recomputation of Korthikanti et al. 2022 (arXiv:2205.05198) where attention
	// itself keeps no scores.
	RecomputeAttention = "attention"
	// RecomputeLayers keeps of a layer its input alone (Chen et al. 2016, arXiv:1604.06174).
	RecomputeLayers = "layers"
)

// Recomputes are these, the one that keeps more before the one that keeps less.
var Recomputes = []string{RecomputeNone, RecomputeAttention, RecomputeLayers}

// Recompute is the graph of a built network whose first forward nodes are its forward pass, and whose others are its backward pass, with what is
// named computed again layer by layer (see Units). part is the part of each parameter where the network is cut, nil for one part: what one part
// hands to another is kept. The unit that the loss is in, whose backward pass follows its forward pass at once, keeps everything.
func Recompute(built *Built, forward int, what string, part map[string]int) (*graph.Extracted, error) {
	if !slices.Contains(Recomputes, what) {
		return nil, fmt.Errorf("model: recompute: found %q, wanted one of %s%s", what, strings.Join(Recomputes, ", "), suggest.DidYouMean(what, Recomputes))
	}
	r := newRecomputation(built, forward, part)
	again := map[*graph.Node]bool{}
	switch what {
	case RecomputeAttention:
		again = r.cheap()
	case RecomputeLayers:
		again = r.within
	}
	return built.Graph.Recompute(forward, func(n *graph.Node) bool { return again[n] })
}

// recomputation is what decides which nodes are computed again.
type recomputation struct {
	nodes  []*graph.Node         // of the forward pass, in order
	within map[*graph.Node]bool  // of layers, read by no other unit or part
	read   map[*graph.Value]bool // by the backward pass
}

func newRecomputation(built *Built, forward int, part map[string]int) *recomputation {
	type piece struct{ unit, part int }
	units, nodes, unit := Units(built)
	r := &recomputation{nodes: nodes, within: map[*graph.Node]bool{}, read: map[*graph.Value]bool{}}
	at := make(map[*graph.Node]piece, len(nodes))
	for _, n := range nodes {
		p := piece{unit: unit[n]}
		if param, ok := n.Op.(graph.Param); ok {
			p.part = part[param.Path]
		}
		for _, v := range n.Inputs {
			p.part = max(p.part, at[v.Node()].part)
		}
		at[n] = p
		r.within[n] = len(n.Inputs) > 0 && units[p.unit].Layer != "" && p.unit != unit[built.Loss.Node()]
		for _, v := range n.Inputs {
			if at[v.Node()] != p {
				r.within[v.Base().Node()] = false
			}
		}
	}
	for _, n := range built.Graph.Nodes()[forward:] {
		for _, v := range n.Inputs {
			r.read[v.Base()] = true
		}
	}
	return r
}

// cheap are the nodes that RecomputeAttention names. One that reads what the backward pass does not need keeps its result rather than that.
func (r *recomputation) cheap() map[*graph.Node]bool {
	operands, again := r.operands(), map[*graph.Node]bool{}
	for _, n := range r.nodes {
		kept := func(v *graph.Value) bool {
			return len(v.Node().Inputs) > 0 && !again[v.Node()] && !r.read[v.Base()]
		}
		again[n] = r.within[n] && (isCheap(n) || operands[n]) && !slices.ContainsFunc(n.Inputs, kept)
	}
	return again
}

// operands are the products whose results attention takes, with nothing but what is cheap in between.
func (r *recomputation) operands() map[*graph.Node]bool {
	out, before := map[*graph.Node]bool{}, map[*graph.Node]bool{}
	for _, n := range slices.Backward(r.nodes) {
		_, attention := n.Op.(graph.Attention)
		_, product := n.Op.(graph.MatMul)
		out[n] = before[n] && product
		if attention || before[n] && isCheap(n) {
			for _, v := range n.Inputs {
				before[v.Node()] = true
			}
		}
	}
	return out
}

// cheapFLOPs are the operations for each element read or written up to which a node is cheap: functions and norms take up to some ten, a product
// twice its inner dimension.
const cheapFLOPs = 16

func isCheap(n *graph.Node) bool {
	switch n.Op.(type) {
	case graph.MatMul, graph.Attention: // however small
		return false
	}
	elements := 0
	for _, v := range slices.Concat(n.Inputs, n.Outputs) {
		elements += v.Type().Elements()
	}
	return n.FLOPs() <= cheapFLOPs*int64(elements)
}
