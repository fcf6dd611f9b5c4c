package graph

import (
	"slices"

	"gputrain/buffers/array"
)

// StoreBF16 gives the values that operations hand to one another the type array.BF16: they are rounded to the nearest bfloat16, ties to even, and
// every reader sees the rounded number. What a program keeps of them in memory takes half the bytes. Operations compute and add up in f32 as ever.
//
// The loss of a head rounds its matrix, its logits and their gradient too (HeadLoss.BF16).
//
// A value is handed on if an operation other than arithmetic, moves and reductions makes it or reads it: the operands and results of products,
// attention, norms, rotations and tables, forward and backward. So whether a value is rounded follows from the graph alone, not from what a compiler
// fuses: one that never reaches memory is rounded too, and the bits do not depend on the kind of adapter, on what is computed again, nor on where a
// model is cut. For that the whole graph is given its types before it is changed or cut.
//
// In f32 stay the targets and what KeepF32 names, which are wanted from outside; inputs and parameters, and what is made of parameters alone; sums over rows, which are
// losses, statistics and gradients of parameters; what has fewer than two dimensions; and what passes between a norm and the rotation of its heads,
// which are one kernel where they can be.
func (g *Graph) StoreBF16(targets ...*Value) {
	if g.err != nil {
		return
	}
	data, handed, exact := map[*Value]bool{}, map[*Value]bool{}, g.turned()
	for _, v := range slices.Concat(targets, g.exact) {
		exact[memory(v)] = true
	}
	for _, n := range g.nodes {
		_, input := n.Op.(Input)
		fromData := input || slices.ContainsFunc(n.Inputs, func(v *Value) bool { return data[v] })
		for i, v := range n.Outputs {
			data[v] = fromData
			if memory(v) == v && (!fromData || input || isSum(n, i) || v.DType() != array.F32 || len(v.Shape()) < 2) {
				exact[v] = true
			}
			handed[memory(v)] = handed[memory(v)] || handsOn(n)
		}
		for _, v := range n.Inputs {
			handed[memory(v)] = handed[memory(v)] || handsOn(n)
		}
	}
	for _, n := range g.nodes {
		n.Op = inBF16(n)
		for _, v := range n.Outputs {
			if m := memory(v); handed[m] && !exact[m] {
				v.typ.DType = array.BF16
			}
		}
	}
}

// KeepF32 names values that StoreBF16 leaves in f32: few numbers, of which a difference counts.
func (g *Graph) KeepF32(values ...*Value) { g.exact = append(g.exact, values...) }

// inBF16 is the operation of a node, a head with logits in BF16. Rows of no whole vec4s have them in f32.
func inBF16(n *Node) Op {
	switch op := n.Op.(type) {
	case HeadLoss:
		op.BF16 = n.Inputs[0].Shape()[1]%4 == 0
		return op
	case HeadLossGrad:
		op.BF16 = n.Inputs[0].Shape()[1]%4 == 0
		return op
	}
	return n.Op
}

// turned are the values between norms and the rotations that alone read them, and between rotations and the gradients of norms.
func (g *Graph) turned() map[*Value]bool {
	readers := map[*Value][]*Node{}
	for _, n := range g.nodes {
		for _, v := range n.Inputs {
			if m := memory(v); len(n.Outputs) == 0 || memory(n.Outputs[0]) != m {
				readers[m] = append(readers[m], n)
			}
		}
	}
	out := map[*Value]bool{}
	for v, nodes := range readers {
		var next func(n *Node) bool
		switch v.node.Op.(type) {
		case LayerNorm, RMSNorm:
			next = func(n *Node) bool { _, ok := n.Op.(Rope); return ok }
		case Rope:
			next = func(n *Node) bool {
				switch n.Op.(type) {
				case LayerNormGrad, RMSNormGrad, NormGammaGrad:
					return true
				}
				return false
			}
		default:
			continue
		}
		out[v] = !slices.ContainsFunc(nodes, func(n *Node) bool { return !next(n) })
	}
	return out
}

// memory is the value whose elements a view has.
func memory(v *Value) *Value {
	for {
		switch v.node.Op.(type) {
		case Reshape, Slice:
			v = v.node.Inputs[0]
		default:
			return v
		}
	}
}

// handsOn is whether an operation hands its operands and results on by way of memory.
func handsOn(n *Node) bool {
	switch n.Op.(type) {
	case Input, Param, Constant, Elementwise, Dropout, BroadcastTo, Transpose, Reshape, Slice, Pad, Concat, Reduce:
		return false
	}
	return true
}

// isSum is whether an output of a node adds up rows, or is a statistic of them.
func isSum(n *Node, output int) bool {
	switch op := n.Op.(type) {
	case Reduce, CrossEntropy, HeadLoss, HeadDivergence, EmbeddingGrad, NormGammaGrad, ConvolutionTapsGrad:
		return true
	case MatMul:
		return op.TransA
	case LayerNorm, RMSNorm, Attention, CachedAttention, GatedDelta, CachedDelta, CachedConvolution, HeadLossGrad, HeadDivergenceGrad:
		return output > 0
	}
	return false
}

// roundBF16 rounds numbers to f32, then to bfloat16, as devices do.
func roundBF16(a *Array) *Array {
	return a.rounded(func(x float32) float32 { return array.DecodeBF16(array.EncodeBF16(x)) })
}
