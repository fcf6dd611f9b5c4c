package graph

import "gputrain/buffers/array"

// RoundProducts has every product of matrices take its operands rounded to f16, ties to even, and add up in f32: MatMul, those of experts, and the products of a HeadLoss, an
// Attention and their gradients. All other operations compute in f32 as ever, and so does a CachedAttention, as tokens that are sampled are not trained on. A number of 65520 or more becomes infinite, one of 2^-25 or less 0;
// so gradients are made of a scaled loss.
func (g *Graph) RoundProducts() {
	for _, n := range g.nodes {
		switch op := n.Op.(type) {
		case MatMul:
			op.F16 = true
			n.Op = op
		case RaggedMatMul:
			op.F16 = true
			n.Op = op
		case RaggedOuter:
			op.F16 = true
			n.Op = op
		case Attention:
			op.F16 = true
			n.Op = op
		case AttentionGrad:
			op.F16 = true
			n.Op = op
		case HeadLoss:
			op.F16 = true
			n.Op = op
		case HeadLossGrad:
			op.F16 = true
			n.Op = op
		case HeadDivergence:
			op.F16 = true
			n.Op = op
		case HeadDivergenceGrad:
			op.F16 = true
			n.Op = op
		}
	}
}

// roundF16 rounds numbers to f32, then to f16, as devices do.
func roundF16(a *Array) *Array {
	return a.rounded(toF16)
}

func toF16(x float32) float32 { return array.DecodeF16(array.EncodeF16(x)) }

func (a *Array) rounded(round func(float32) float32) *Array {
	out := NewArray(a.Shape)
	for i, x := range a.Data {
		out.Data[i] = float64(round(float32(x)))
	}
	return out
}
