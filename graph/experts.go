package graph

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gputrain/buffers/array"
)

// Mixtures of experts: a Router says which K of E experts each of N rows takes, a Group sorts the N K choices by expert, in runs of whole tiles, a Spread lays
// rows out in that order, RaggedMatMul multiplies each run by the matrix of its expert, and a Combine adds up what the experts of a row give. R, the rows that
// are laid out, is what the worst case takes. What a run lacks to whole tiles is rows of zeros, whose results nobody reads.

// Router takes logits [N,E] to the weights [N,K] and the numbers [N,K] (i32) of the K greatest, the greatest first, of equals the first: weights are the
// softmax over these K, or All over all E.
type Router struct {
	K   int  `json:"k"`
	All bool `json:"all,omitempty"`
}

func (Router) Kind() string { return "route" }

func (o Router) Infer(in []*Value) ([]Type, error) {
	if err := arity(in, 1); err != nil {
		return nil, err
	}
	x := in[0].Shape()
	if len(x) != 2 || o.K < 1 || o.K > x[1] {
		return nil, fmt.Errorf("logits have shape %v, want [rows experts], with at least the %d experts that a row takes", x, o.K)
	}
	return []Type{F32(x[0], o.K), {Shape: []int{x[0], o.K}, DType: array.I32}}, nil
}

// FLOPs is a comparison of each logit for each choice, and 4 a weight.
func (o Router) FLOPs(n *Node) int64 {
	x := n.Inputs[0].Shape()
	return int64(x[0]) * int64(o.K) * int64(x[1]+4)
}

// Gradient is RouteGrad: the choice has none.
func (o Router) Gradient(g *Graph, n *Node, dy []*Value) []*Value {
	return []*Value{g.one(RouteGrad(o), n.Inputs[0], n.Outputs[0], n.Outputs[1], dy[0])}
}

// Eval is the definition.
func (o Router) Eval(n *Node, in []*Array, _ *Env) []*Array {
	weights, ids := NewArray(n.Outputs[0].Shape()), NewArray(n.Outputs[1].Shape())
	rows, experts := in[0].Shape[0], in[0].Shape[1]
	for r := range rows {
		logits, order := in[0].Data[r*experts:(r+1)*experts], make([]int, experts)
		for e := range order {
			order[e] = e
		}
		slices.SortStableFunc(order, func(a, b int) int {
			switch {
			case logits[a] > logits[b]:
				return -1
			case logits[a] < logits[b]:
				return 1
			}
			return 0
		})
		over := order[:o.K]
		if o.All {
			over = order
		}
		sum := 0.0
		for _, e := range over {
			sum += math.Exp(logits[e] - logits[order[0]])
		}
		for j, e := range order[:o.K] {
			weights.Data[r*o.K+j], ids.Data[r*o.K+j] = math.Exp(logits[e]-logits[order[0]])/sum, float64(e)
		}
	}
	return []*Array{weights, ids}
}

// RouteGrad takes the logits and the outputs of the Router of the same fields, and the gradient of its weights, to that of the logits.
type RouteGrad Router

func (RouteGrad) Kind() string { return "route_grad" }

func (o RouteGrad) Infer(in []*Value) ([]Type, error) {
	if err := arity(in, 4, 2); err != nil {
		return nil, err
	}
	out, err := Router(o).Infer(in[:1])
	if err != nil {
		return nil, err
	}
	for i, what := range []string{"weights", "ids", "dweights"} {
		if err := wantShape(what, in[1+i], out[0].Shape...); err != nil {
			return nil, err
		}
	}
	return []Type{in[0].typ}, wantDType("ids", in[2], array.I32)
}

// FLOPs is 2 a choice for each logit.
func (o RouteGrad) FLOPs(n *Node) int64 { return 2 * Router(o).FLOPs(n) }

// Eval is the definition.
func (o RouteGrad) Eval(n *Node, in []*Array, _ *Env) []*Array {
	dx, experts := NewArray(n.Outputs[0].Shape()), in[0].Shape[1]
	for r := range in[0].Shape[0] {
		logits := in[0].Data[r*experts : (r+1)*experts]
		chosen := func(i int) []float64 { return in[i].Data[r*o.K : (r+1)*o.K] }
		weights, ids, dw, inner := chosen(1), chosen(2), chosen(3), 0.0
		for j, w := range weights {
			inner += w * dw[j]
		}
		to := dx.Data[r*experts : (r+1)*experts]
		for e := range to {
			if o.All {
				to[e] = -inner * weights[0] * math.Exp(logits[e]-logits[int(ids[0])])
			}
		}
		for j, id := range ids {
			to[int(id)] = weights[j] * (dw[j] - inner)
		}
	}
	return []*Array{dx}
}

// Group sorts choices ids [N,K] (i32, 0 to Experts-1) by expert, those of an expert in their order. Outputs, all i32: rows [R], 0 for a row of zeros, else
// 1 + the number n K + k of the choice that is laid out there; slots [N,K], where a choice is; and offsets [Experts+1], where the rows of each expert begin and
// those of the last end: multiples of Tile.
type Group struct {
	Experts int `json:"experts"`
	Tile    int `json:"tile"`
}

func (Group) Kind() string { return "group" }

// RaggedTile is the rows of a tile that suits so many choices of experts: few where experts have few rows, for each may lack most of a tile.
func RaggedTile(choices, experts int) int {
	if choices >= 8*experts {
		return 16
	}
	return 4
}

// GroupedRows is R of so many choices.
func (o Group) GroupedRows(choices int) int {
	return (choices + min(o.Experts, choices)*(o.Tile-1)) / o.Tile * o.Tile
}

func (o Group) Infer(in []*Value) ([]Type, error) {
	if err := arity(in, 1, 0); err != nil {
		return nil, err
	}
	if o.Experts < 1 || o.Tile < 1 || len(in[0].Shape()) != 2 {
		return nil, fmt.Errorf("%d experts, tiles of %d, ids of shape %v: want them positive, and [rows choices]", o.Experts, o.Tile, in[0].Shape())
	}
	ints := func(shape ...int) Type { return Type{Shape: shape, DType: array.I32} }
	return []Type{ints(o.GroupedRows(in[0].typ.Elements())), ints(slices.Clone(in[0].Shape())...), ints(o.Experts + 1)}, wantDType("ids", in[0], array.I32)
}

// Eval is the definition.
func (o Group) Eval(n *Node, in []*Array, e *Env) []*Array {
	rows, slots, offsets := NewArray(n.Outputs[0].Shape()), NewArray(n.Outputs[1].Shape()), NewArray(n.Outputs[2].Shape())
	at := 0
	for expert := range o.Experts {
		offsets.Data[expert] = float64(at)
		for i, id := range in[0].Data {
			if !e.inRange(n, "id", i, id, o.Experts) {
				return nil
			}
			if int(id) == expert {
				rows.Data[at], slots.Data[i] = float64(1+i), float64(at)
				at++
			}
		}
		at = (at + o.Tile - 1) / o.Tile * o.Tile
	}
	offsets.Data[o.Experts] = float64(at)
	return []*Array{rows, slots, offsets}
}

// wantGroup checks rows and slots, and weights where there are some, of the Group of inputs in from at on; of what is laid out, R rows are.
func wantGroup(in []*Value, at int) error {
	rows, slots := in[at], in[at+1]
	if len(rows.Shape()) != 1 || len(slots.Shape()) != 2 || slots.Shape()[1] < 1 {
		return fmt.Errorf("rows and slots have shapes %v and %v, want those of a group", rows.Shape(), slots.Shape())
	}
	for _, v := range in[at : at+2] {
		if err := wantDType("rows and slots", v, array.I32); err != nil {
			return err
		}
	}
	if len(in) > at+2 {
		return wantShape("weights", in[at+2], slots.Shape()...)
	}
	return nil
}

func weighted(in []*Value, least int) error {
	if len(in) != least && len(in) != least+1 {
		return fmt.Errorf("%d inputs, want %d, or weights too", len(in), least)
	}
	return arity(in, len(in), least-2, least-1)
}

// Spread takes x [N,D], and rows and slots of a Group, to [R,D]: the row of x whose choice is laid out there, times the choice's weight where the input
// weights [N,K] is there.
type Spread struct{}

func (Spread) Kind() string { return "spread" }

func (Spread) Infer(in []*Value) ([]Type, error) {
	if err := weighted(in, 3); err != nil {
		return nil, err
	}
	if err := wantGroup(in, 1); err != nil {
		return nil, err
	}
	if x := in[0].Shape(); len(x) != 2 || x[0] != in[2].Shape()[0] {
		return nil, fmt.Errorf("x has shape %v, want [%d width]", x, in[2].Shape()[0])
	}
	return []Type{F32(in[1].Shape()[0], in[0].Shape()[1])}, nil
}

// Gradient is a Combine. Nothing takes the gradient of a weighted one, which is a gradient itself.
func (Spread) Gradient(g *Graph, n *Node, dy []*Value) []*Value {
	if len(n.Inputs) > 3 {
		return g.noGradient(n)
	}
	return []*Value{g.one(Combine{}, dy[0], n.Inputs[1], n.Inputs[2]), nil, nil}
}

// Eval is the definition.
func (Spread) Eval(n *Node, in []*Array, _ *Env) []*Array {
	y, d, k := NewArray(n.Outputs[0].Shape()), in[0].Shape[1], in[2].Shape[1]
	for r, choice := range in[1].Data {
		if i := int(choice) - 1; i >= 0 {
			addScaled(y.Data[r*d:(r+1)*d], weightOf(in, 3, i), in[0].Data[i/k*d:])
		}
	}
	return []*Array{y}
}

// weightOf is the weight of a choice; 1 where there are no weights.
func weightOf(in []*Array, at, choice int) float64 {
	if len(in) > at {
		return in[at].Data[choice]
	}
	return 1
}

// Combine takes what is laid out, y [R,D], and rows and slots of a Group, to [N,D]: the sum over the K choices of a row, in their order, of the row that is
// laid out for it, times its weight where the input weights [N,K] is there.
type Combine struct{}

func (Combine) Kind() string { return "combine" }

func (Combine) Infer(in []*Value) ([]Type, error) {
	if err := weighted(in, 3); err != nil {
		return nil, err
	}
	if err := wantGroup(in, 1); err != nil {
		return nil, err
	}
	if y := in[0].Shape(); len(y) != 2 || y[0] != in[1].Shape()[0] {
		return nil, fmt.Errorf("y has shape %v, want [%d width]", y, in[1].Shape()[0])
	}
	return []Type{F32(in[2].Shape()[0], in[0].Shape()[1])}, nil
}

// FLOPs is 2 for each element of a choice.
func (Combine) FLOPs(n *Node) int64 {
	return 2 * int64(n.Inputs[2].typ.Elements()) * int64(n.Inputs[0].Shape()[1])
}

// Gradient is a weighted Spread, and for the weights ChoiceDots.
func (Combine) Gradient(g *Graph, n *Node, dy []*Value) []*Value {
	out := make([]*Value, len(n.Inputs))
	if g.wants(n.Inputs[0]) {
		out[0] = g.one(Spread{}, append([]*Value{dy[0]}, n.Inputs[1:]...)...)
	}
	if len(out) > 3 && g.wants(n.Inputs[3]) {
		out[3] = g.one(ChoiceDots{}, n.Inputs[0], dy[0], n.Inputs[2])
	}
	return out
}

// Eval is the definition.
func (Combine) Eval(n *Node, in []*Array, _ *Env) []*Array {
	y, d, k := NewArray(n.Outputs[0].Shape()), in[0].Shape[1], in[2].Shape[1]
	for i, slot := range in[2].Data {
		addScaled(y.Data[i/k*d:(i/k+1)*d], weightOf(in, 3, i), in[0].Data[int(slot)*d:])
	}
	return []*Array{y}
}

// ChoiceDots takes what is laid out, y [R,D], dy [N,D] and slots [N,K] of a Group to [N,K]: the inner product of each row of dy with what is laid out for its
// choices. It is the gradient of the weights of a Combine.
type ChoiceDots struct{}

func (ChoiceDots) Kind() string { return "choice_dots" }

func (ChoiceDots) Infer(in []*Value) ([]Type, error) {
	if err := arity(in, 3, 2); err != nil {
		return nil, err
	}
	if len(in[0].Shape()) != 2 || len(in[2].Shape()) != 2 {
		return nil, fmt.Errorf("y and slots have shapes %v and %v, want two dimensions", in[0].Shape(), in[2].Shape())
	}
	if err := wantShape("dy", in[1], in[2].Shape()[0], in[0].Shape()[1]); err != nil {
		return nil, err
	}
	return []Type{F32(in[2].Shape()...)}, wantDType("slots", in[2], array.I32)
}

// FLOPs is 2 for each element of a choice.
func (ChoiceDots) FLOPs(n *Node) int64 {
	return 2 * int64(n.Inputs[2].typ.Elements()) * int64(n.Inputs[0].Shape()[1])
}

// Eval is the definition.
func (ChoiceDots) Eval(n *Node, in []*Array, _ *Env) []*Array {
	out, d, k := NewArray(n.Outputs[0].Shape()), in[0].Shape[1], in[2].Shape[1]
	for i, slot := range in[2].Data {
		for c, v := range in[1].Data[i/k*d : (i/k+1)*d] {
			out.Data[i] += v * in[0].Data[int(slot)*d+c]
		}
	}
	return []*Array{out}
}

// RaggedMatMul multiplies the rows x [R,I] of each expert by its matrix: of w [E,I,O], or TransW of w [E,O,I], to [R,O]. The offsets [E+1] are those of a
// Group, whose tiles have Tile rows; Rows are how many are not zeros.
type RaggedMatMul struct {
	TransW bool `json:"trans_w,omitempty"`
	Tile   int  `json:"tile"`
	Rows   int  `json:"rows"`
	F16    bool `json:"f16,omitempty"` // operands are rounded to f16; see RoundProducts
}

func (RaggedMatMul) Kind() string { return "ragged_matmul" }

var errTile = errors.New("tiles of no rows, want at least 1")

func (o RaggedMatMul) Infer(in []*Value) ([]Type, error) {
	if err := arity(in, 3, 2); err != nil {
		return nil, err
	}
	x, w := in[0].Shape(), in[1].Shape()
	if len(x) != 2 || len(w) != 3 {
		return nil, fmt.Errorf("shapes %v and %v, want [rows width] and [experts ..]", x, w)
	}
	if o.Tile < 1 {
		return nil, errTile
	}
	inner, outer := w[1], w[2]
	if o.TransW {
		inner, outer = w[2], w[1]
	}
	if x[1] != inner {
		return nil, fmt.Errorf("rows of %d, want the %d of matrices %v", x[1], inner, w)
	}
	if err := wantShape("offsets", in[2], w[0]+1); err != nil {
		return nil, err
	}
	return []Type{F32(x[0], outer)}, wantDType("offsets", in[2], array.I32)
}

// FLOPs are those of Rows rows.
func (o RaggedMatMul) FLOPs(n *Node) int64 {
	w := n.Inputs[1].Shape()
	return 2 * int64(o.Rows) * int64(w[1]) * int64(w[2])
}

// Executed counts all rows.
func (o RaggedMatMul) Executed(n *Node) int64 {
	w := n.Inputs[1].Shape()
	return 2 * int64(n.Inputs[0].Shape()[0]) * int64(w[1]) * int64(w[2])
}

// Gradient is a RaggedMatMul the other way, and RaggedOuter for the matrices.
func (o RaggedMatMul) Gradient(g *Graph, n *Node, dy []*Value) []*Value {
	out := make([]*Value, 3)
	x, w, offsets := n.Inputs[0], n.Inputs[1], n.Inputs[2]
	if g.wants(x) {
		out[0] = g.one(RaggedMatMul{TransW: !o.TransW, Tile: o.Tile, Rows: o.Rows, F16: o.F16}, dy[0], w, offsets)
	}
	if g.wants(w) {
		a, b := x, dy[0]
		if o.TransW {
			a, b = b, a
		}
		out[1] = g.one(RaggedOuter{Rows: o.Rows, F16: o.F16}, a, b, offsets)
	}
	return out
}

// Eval is the definition.
func (o RaggedMatMul) Eval(n *Node, in []*Array, _ *Env) []*Array {
	round := MatMul{F16: o.F16}.rounded
	y, x, w := NewArray(n.Outputs[0].Shape()), round(in[0]), round(in[1])
	inner, outer := in[0].Shape[1], y.Shape[1]
	for e := range w.Shape[0] {
		for r := int(in[2].Data[e]); r < int(in[2].Data[e+1]); r++ {
			for c := range outer {
				for i := range inner {
					at := (e*inner+i)*outer + c
					if o.TransW {
						at = (e*outer+c)*inner + i
					}
					y.Data[r*outer+c] += x.Data[r*inner+i] * w.Data[at]
				}
			}
		}
	}
	return []*Array{y}
}

// RaggedOuter takes a [R,A] and b [R,B] to [E,A,B]: a^T b over the rows of each expert, in their order; zero for one without rows. The offsets [E+1] are those
// of a Group; Rows are how many are not zeros. It is the gradient of matrices.
type RaggedOuter struct {
	Rows int  `json:"rows"`
	F16  bool `json:"f16,omitempty"` // operands are rounded to f16; see RoundProducts
}

func (RaggedOuter) Kind() string { return "ragged_outer" }

func (RaggedOuter) Infer(in []*Value) ([]Type, error) {
	if err := arity(in, 3, 2); err != nil {
		return nil, err
	}
	a, b, offsets := in[0].Shape(), in[1].Shape(), in[2].Shape()
	if len(a) != 2 || len(b) != 2 || a[0] != b[0] || len(offsets) != 1 || offsets[0] < 2 {
		return nil, fmt.Errorf("shapes %v, %v and %v, want as many rows of both, and offsets", a, b, offsets)
	}
	return []Type{F32(offsets[0]-1, a[1], b[1])}, wantDType("offsets", in[2], array.I32)
}

// FLOPs are those of Rows rows.
func (o RaggedOuter) FLOPs(n *Node) int64 {
	return 2 * int64(o.Rows) * int64(n.Inputs[0].Shape()[1]) * int64(n.Inputs[1].Shape()[1])
}

// Executed counts all rows.
func (o RaggedOuter) Executed(n *Node) int64 {
	return RaggedOuter{Rows: n.Inputs[0].Shape()[0]}.FLOPs(n)
}

// Eval is the definition.
func (o RaggedOuter) Eval(n *Node, in []*Array, _ *Env) []*Array {
	round := MatMul{F16: o.F16}.rounded
	y, left, right := NewArray(n.Outputs[0].Shape()), round(in[0]), round(in[1])
	a, b := y.Shape[1], y.Shape[2]
	for e := range y.Shape[0] {
		for r := int(in[2].Data[e]); r < int(in[2].Data[e+1]); r++ {
			for i, v := range left.Data[r*a : (r+1)*a] {
				addScaled(y.Data[(e*a+i)*b:(e*a+i+1)*b], v, right.Data[r*b:(r+1)*b])
			}
		}
	}
	return []*Array{y}
}
