package graph

import (
	"cmp"
	"fmt"
	"slices"

	"gputrain/buffers/array"
)

// Convolution is causal and depthwise: inputs x [B,T,D] and w [D,L], y[b,t,c] = sum over j of w[c,j] x[b,t-L+1+j,c], so that tap L-1 is of the token itself,
// and what is before a row is 0. With Documents there is one more input, positions i32 [B,T] as Attention has them, and what is before a document is 0.
type Convolution struct {
	Documents bool `json:"documents,omitempty"`
}

// mostTaps bounds L: code is unrolled over taps.
const mostTaps = 8

func (Convolution) Kind() string { return "convolution" }

func (o Convolution) integer() []int {
	if o.Documents {
		return []int{2}
	}
	return nil
}

func (o Convolution) Infer(in []*Value) ([]Type, error) {
	if err := arity(in, 2+len(o.integer()), o.integer()...); err != nil {
		return nil, err
	}
	x := in[0].Shape()
	if len(x) != 3 {
		return nil, fmt.Errorf("x has shape %v, want [batch time width]", x)
	}
	if err := wantTaps(in[1], x[2]); err != nil {
		return nil, err
	}
	if o.Documents {
		return []Type{F32(x...)}, cmp.Or(wantDType("positions", in[2], array.I32), wantShape("positions", in[2], x[:2]...))
	}
	return []Type{F32(x...)}, nil
}

// wantTaps checks the shape of w.
func wantTaps(w *Value, width int) error {
	if s := w.Shape(); len(s) != 2 || s[0] != width || s[1] < 2 || s[1] > mostTaps {
		return fmt.Errorf("w has shape %v, want [%d taps], 2 to %d taps", s, width, mostTaps)
	}
	return nil
}

// FLOPs is 2 a tap.
func (Convolution) FLOPs(n *Node) int64 {
	return 2 * int64(n.Outputs[0].typ.Elements()) * int64(n.Inputs[1].Shape()[1])
}

// ConvolutionGrad takes dy in the place of x, and w and positions as they are, to the gradient of x: dx[s] = sum over j of w[j] dy[s+L-1-j].
type ConvolutionGrad Convolution

func (ConvolutionGrad) Kind() string { return "convolution_grad" }

func (o ConvolutionGrad) Infer(in []*Value) ([]Type, error) { return Convolution(o).Infer(in) }

// FLOPs is 2 a tap.
func (o ConvolutionGrad) FLOPs(n *Node) int64 { return Convolution(o).FLOPs(n) }

// ConvolutionTapsGrad takes x, dy in the place of w, and positions to the gradient of w: dw[j] = sum over rows and t of dy[t] x[t-L+1+j].
type ConvolutionTapsGrad struct {
	Taps      int  `json:"taps"`
	Documents bool `json:"documents,omitempty"`
}

func (ConvolutionTapsGrad) Kind() string { return "convolution_taps_grad" }

func (o ConvolutionTapsGrad) Infer(in []*Value) ([]Type, error) {
	c := Convolution{Documents: o.Documents}
	if err := arity(in, 2+len(c.integer()), c.integer()...); err != nil {
		return nil, err
	}
	x := in[0].Shape()
	if len(x) != 3 || o.Taps < 2 || o.Taps > mostTaps {
		return nil, fmt.Errorf("x has shape %v, taps %d, want [batch time width], 2 to %d taps", x, o.Taps, mostTaps)
	}
	return []Type{F32(x[2], o.Taps)}, wantShape("dy", in[1], x...)
}

// FLOPs is 2 a tap.
func (o ConvolutionTapsGrad) FLOPs(n *Node) int64 {
	return 2 * int64(n.Inputs[0].typ.Elements()) * int64(o.Taps)
}

// Gradient is ConvolutionGrad and ConvolutionTapsGrad.
func (o Convolution) Gradient(g *Graph, n *Node, dy []*Value) []*Value {
	x, w, rest := n.Inputs[0], n.Inputs[1], n.Inputs[2:]
	out := make([]*Value, len(n.Inputs))
	if g.wants(x) {
		out[0] = g.one(ConvolutionGrad(o), slices.Concat([]*Value{dy[0], w}, rest)...)
	}
	if g.wants(w) {
		out[1] = g.one(ConvolutionTapsGrad{Taps: w.Shape()[1], Documents: o.Documents}, slices.Concat([]*Value{x, dy[0]}, rest)...)
	}
	return out
}

// each visits what taps pair: the index of y and of x, channel and tap.
func (o Convolution) each(shape []int, taps int, in []*Array, visit func(y, x, channel, tap int)) {
	t, d := shape[1], shape[2]
	for row := range shape[0] * t {
		before := row % t
		if o.Documents {
			before = int(in[2].Data[row])
		}
		for j := max(0, taps-1-before); j < taps; j++ {
			for c := range d {
				visit(row*d+c, (row-taps+1+j)*d+c, c, j)
			}
		}
	}
}

// Eval is the definition.
func (o Convolution) Eval(n *Node, in []*Array, _ *Env) []*Array {
	y, taps := NewArray(n.Outputs[0].Shape()), in[1].Shape[1]
	o.each(y.Shape, taps, in, func(to, from, c, j int) { y.Data[to] += in[1].Data[c*taps+j] * in[0].Data[from] })
	return []*Array{y}
}

// Eval is the definition.
func (o ConvolutionGrad) Eval(n *Node, in []*Array, _ *Env) []*Array {
	dx, taps := NewArray(n.Outputs[0].Shape()), in[1].Shape[1]
	Convolution(o).each(dx.Shape, taps, in, func(to, from, c, j int) { dx.Data[from] += in[1].Data[c*taps+j] * in[0].Data[to] })
	return []*Array{dx}
}

// Eval is the definition.
func (o ConvolutionTapsGrad) Eval(n *Node, in []*Array, _ *Env) []*Array {
	dw := NewArray(n.Outputs[0].Shape())
	Convolution{o.Documents}.each(in[0].Shape, o.Taps, in, func(to, from, c, j int) { dw.Data[c*o.Taps+j] += in[1].Data[to] * in[0].Data[from] })
	return []*Array{dw}
}

// CachedConvolution is the Convolution of tokens that go on where earlier ones of their rows ended. Inputs: cache [rows,L-1,D], what came before the next token of
// each row, the latest last; row i32 [B,T], of each token, -1 for an idle one, whose y is 0; positions i32 [B,T]; x; w. Tokens of a row are taken in the order of
// their positions, which are those that follow what the row has taken in; position 0 begins it anew. Outputs: y, and the cache. On a device that is changed in
// place: it is an Input that nothing else reads.
type CachedConvolution struct{}

func (CachedConvolution) Kind() string { return "cached_convolution" }

func (CachedConvolution) Infer(in []*Value) ([]Type, error) {
	if err := arity(in, 5, 1, 2); err != nil {
		return nil, err
	}
	x, c := in[3].Shape(), in[0].Shape()
	if len(x) != 3 {
		return nil, fmt.Errorf("x has shape %v, want [batch time width]", x)
	}
	if err := cmp.Or(wantTaps(in[4], x[2]), wantPlaces(in[1], in[2], x)); err != nil {
		return nil, err
	}
	if len(c) != 3 || c[0] < 1 || c[1] != in[4].Shape()[1]-1 || c[2] != x[2] {
		return nil, fmt.Errorf("cache has shape %v, want [rows %d %d]", c, in[4].Shape()[1]-1, x[2])
	}
	return []Type{F32(x...), in[0].typ}, nil
}

// wantPlaces checks rows and positions of tokens [B,T,..].
func wantPlaces(row, positions *Value, tokens []int) error {
	return cmp.Or(wantDType("row", row, array.I32), wantDType("positions", positions, array.I32), wantShape("row", row, tokens[:2]...), wantShape("positions", positions, tokens[:2]...))
}

// FLOPs is 2 a tap.
func (CachedConvolution) FLOPs(n *Node) int64 {
	return 2 * int64(n.Outputs[0].typ.Elements()) * int64(n.Inputs[4].Shape()[1])
}

// inOrder are the tokens that are not idle, by row and position; nil after an error.
func inOrder(n *Node, row, positions *Array, rows int, e *Env) []int {
	order := []int{}
	for i, r := range row.Data {
		if r == -1 {
			continue
		}
		if !e.inRange(n, "row", i, r, rows) {
			return nil
		}
		order = append(order, i)
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(row.Data[a], row.Data[b]), cmp.Compare(positions.Data[a], positions.Data[b]))
	})
	return order
}

// Eval is the definition.
func (CachedConvolution) Eval(n *Node, in []*Array, e *Env) []*Array {
	y, cache := NewArray(n.Outputs[0].Shape()), &Array{Shape: in[0].Shape, Data: slices.Clone(in[0].Data)}
	x, w, d, taps := in[3], in[4], in[3].Shape[2], in[4].Shape[1]
	order := inOrder(n, in[1], in[2], cache.Shape[0], e)
	if order == nil {
		return nil
	}
	for _, i := range order {
		own := cache.Data[int(in[1].Data[i])*(taps-1)*d:][:(taps-1)*d]
		if in[2].Data[i] == 0 {
			clear(own)
		}
		seen := append(slices.Clone(own), x.Data[i*d:(i+1)*d]...)
		for c := range d {
			for j := range taps {
				y.Data[i*d+c] += w.Data[c*taps+j] * seen[j*d+c]
			}
		}
		copy(own, seen[d:])
	}
	return []*Array{y, cache}
}
