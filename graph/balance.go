package graph

import (
	"fmt"

	"gputrain/buffers/array"
)

// RouterCounts takes ids [N,K] (i32, 0 to Experts-1) of a Router and counted [N], 1 for a row that counts and 0 for another, to [1,Experts]: how often each expert
// is chosen by rows that count.
type RouterCounts struct {
	Experts int `json:"experts"`
}

func (RouterCounts) Kind() string { return "router_counts" }

func (o RouterCounts) Infer(in []*Value) ([]Type, error) {
	if err := arity(in, 2, 0); err != nil {
		return nil, err
	}
	ids := in[0].Shape()
	if o.Experts < 1 || len(ids) != 2 {
		return nil, fmt.Errorf("%d experts, ids of shape %v: want them positive, and [rows choices]", o.Experts, ids)
	}
	if err := wantShape("counted", in[1], ids[0]); err != nil {
		return nil, err
	}
	return []Type{F32(1, o.Experts)}, wantDType("ids", in[0], array.I32)
}

// Eval is the definition.
func (o RouterCounts) Eval(n *Node, in []*Array, e *Env) []*Array {
	counts := NewArray(n.Outputs[0].Shape())
	for i, id := range in[0].Data {
		if !e.inRange(n, "id", i, id, o.Experts) {
			return nil
		}
		counts.Data[int(id)] += in[1].Data[i/in[0].Shape[1]]
	}
	return []*Array{counts}
}

// LoadBalance takes how often each expert is chosen, counts [L,E], and the sums of its probabilities, probs [L,E], in each of L layers to the load-balancing loss
// []: E sum over experts of F P, F and P their sums over layers divided by the number of rows of all layers, which is that of all choices divided by Chosen; 0
// without rows. Its gradient goes through P alone: the choice has none. (Fedus et al. 2021, arXiv:2101.03961, over all layers at once.)
type LoadBalance struct {
	Chosen int `json:"chosen"`
}

func (LoadBalance) Kind() string { return "load_balance" }

func (o LoadBalance) Infer(in []*Value) ([]Type, error) {
	if err := arity(in, 2); err != nil {
		return nil, err
	}
	counts := in[0].Shape()
	if o.Chosen < 1 || len(counts) != 2 {
		return nil, fmt.Errorf("%d experts a row, counts of shape %v: want them positive, and [layers experts]", o.Chosen, counts)
	}
	return []Type{F32()}, wantShape("probs", in[1], counts...)
}

// Gradient is LoadBalanceGrad.
func (o LoadBalance) Gradient(g *Graph, n *Node, dy []*Value) []*Value {
	return []*Value{nil, g.one(LoadBalanceGrad(o), n.Inputs[0], dy[0])}
}

// chosen is how often experts are chosen in all layers, each and all together.
func chosen(counts *Array) (each []float64, all float64) {
	each = make([]float64, counts.Shape[1])
	for i, c := range counts.Data {
		each[i%len(each)] += c
		all += c
	}
	return each, all
}

// Eval is the definition.
func (o LoadBalance) Eval(_ *Node, in []*Array, _ *Env) []*Array {
	y := NewArray(nil)
	each, all := chosen(in[0])
	if rows := all / float64(o.Chosen); rows > 0 {
		for i, p := range in[1].Data {
			y.Data[0] += float64(len(each)) * (each[i%len(each)] / rows) * (p / rows)
		}
	}
	return []*Array{y}
}

// LoadBalanceGrad takes counts [L,E] and the gradient of LoadBalance to that of probs.
type LoadBalanceGrad LoadBalance

func (LoadBalanceGrad) Kind() string { return "load_balance_grad" }

func (o LoadBalanceGrad) Infer(in []*Value) ([]Type, error) {
	if err := arity(in, 2); err != nil {
		return nil, err
	}
	if _, err := LoadBalance(o).Infer([]*Value{in[0], in[0]}); err != nil {
		return nil, err
	}
	return []Type{in[0].typ}, wantShape("dy", in[1])
}

// Eval is the definition.
func (o LoadBalanceGrad) Eval(n *Node, in []*Array, _ *Env) []*Array {
	dx := NewArray(n.Outputs[0].Shape())
	each, all := chosen(in[0])
	if rows := all / float64(o.Chosen); rows > 0 {
		for i := range dx.Data {
			dx.Data[i] = in[1].Data[0] * float64(len(each)) * each[i%len(each)] / (rows * rows)
		}
	}
	return []*Array{dx}
}
