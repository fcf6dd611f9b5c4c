package graph

// Softmax is y = exp(x - max x) / sum exp(x - max x) over the last axis.
type Softmax struct{}

func (Softmax) Kind() string { return "softmax" }

func (Softmax) Infer(in []*Value) ([]Type, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	return []Type{f32(in[0].Shape()...)}, wantRank("x", in[0], 1)
}

// FLOPs is 4 an element.
func (Softmax) FLOPs(n *Node) int64 { return 4 * int64(n.Outputs[0].typ.Elements()) }

// SoftmaxGrad takes (y, dy) to dx = y (dy - sum y dy).
type SoftmaxGrad struct{}

func (SoftmaxGrad) Kind() string { return "softmax_grad" }

func (SoftmaxGrad) Infer(in []*Value) ([]Type, error) {
	if err := arity(in, 2); err != nil {
		return nil, err
	}
	if err := wantShape("dy", in[1], in[0].Shape()...); err != nil {
		return nil, err
	}
	return []Type{f32(in[0].Shape()...)}, wantRank("y", in[0], 1)
}

// FLOPs is 4 an element.
func (SoftmaxGrad) FLOPs(n *Node) int64 { return 4 * int64(n.Outputs[0].typ.Elements()) }
