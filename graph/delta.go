package graph

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gputrain/buffers/array"
)

// GatedDelta is the gated delta rule. A value head has a state S [KeyDim,ValueDim], 0 at first, which a token with query q, key k, value v, decay g <= 0 and rate
// beta changes and reads:
//
//	S = e^g S;  u = beta (v - S^T k);  S = S + k u^T;  o = S^T q
//
// Value head j uses query and key head j/(Heads/KeyHeads). Inputs: q and k [B,T,KeyHeads KeyDim], v [B,T,Heads ValueDim], g and beta [B,T,Heads]. With Documents
// there is one more, positions i32 [B,T] as Attention has them: a document begins with S = 0. Outputs: o [B,T,Heads ValueDim], and for the backward pass the
// states before every Chunk of tokens, [B,chunks,Heads,KeyDim,ValueDim].
type GatedDelta struct {
	Heads     int  `json:"heads"`
	KeyHeads  int  `json:"key_heads"`
	KeyDim    int  `json:"key_dim"`
	ValueDim  int  `json:"value_dim"`
	Chunk     int  `json:"chunk"` // a multiple of 8, to 64
	Documents bool `json:"documents,omitempty"`
}

func (GatedDelta) Kind() string { return "gated_delta" }

// Chunks is how many there are of t tokens.
func (o GatedDelta) Chunks(t int) int { return (t + o.Chunk - 1) / max(1, o.Chunk) }

func (o GatedDelta) Infer(in []*Value) ([]Type, error) {
	var integer []int
	if o.Documents {
		integer = []int{5}
	}
	if err := arity(in, 5+len(integer), integer...); err != nil {
		return nil, err
	}
	if o.Chunk < 8 || o.Chunk > 64 || o.Chunk%8 != 0 {
		return nil, fmt.Errorf("chunk %d, want a multiple of 8, to 64", o.Chunk)
	}
	tokens, err := o.operands(in)
	if err != nil {
		return nil, err
	}
	if o.Documents {
		if err := cmp.Or(wantDType("positions", in[5], array.I32), wantShape("positions", in[5], tokens...)); err != nil {
			return nil, err
		}
	}
	b, t := tokens[0], tokens[1]
	return []Type{F32(b, t, o.Heads*o.ValueDim), F32(b, o.Chunks(t), o.Heads, o.KeyDim, o.ValueDim)}, nil
}

// operands checks q, k, v, g and beta, and returns [B,T].
func (o GatedDelta) operands(in []*Value) ([]int, error) {
	if o.Heads < 1 || o.KeyHeads < 1 || o.KeyDim < 1 || o.ValueDim < 1 || o.Heads%o.KeyHeads != 0 {
		return nil, fmt.Errorf("heads %d, key heads %d, dims %d and %d: want them positive, and heads a multiple of key heads", o.Heads, o.KeyHeads, o.KeyDim, o.ValueDim)
	}
	q := in[0].Shape()
	if len(q) != 3 {
		return nil, fmt.Errorf("q has shape %v, want [batch time width]", q)
	}
	for i, width := range []int{o.KeyHeads * o.KeyDim, o.KeyHeads * o.KeyDim, o.Heads * o.ValueDim, o.Heads, o.Heads} {
		if err := wantShape([]string{"q", "k", "v", "g", "beta"}[i], in[i], q[0], q[1], width); err != nil {
			return nil, err
		}
	}
	return q[:2], nil
}

// FLOPs is 7 a token and element of a state.
func (o GatedDelta) FLOPs(n *Node) int64 {
	return 7 * int64(n.Inputs[3].typ.Elements()) * int64(o.KeyDim) * int64(o.ValueDim)
}

// Executed is that of the form in chunks, whose matrices of Chunk x Chunk are computed whole: see shaders/delta.wgsl.
func (o GatedDelta) Executed(n *Node) int64 {
	c, k, v := int64(o.Chunk), int64(o.KeyDim), int64(o.ValueDim)
	return int64(n.Inputs[3].typ.Elements()) * (6*k*v + 4*c*k/2 + c*c/3 + 2*c*v)
}

// GatedDeltaGrad takes the inputs of the GatedDelta of the same fields, then its states and do, to the gradients of q, k, v, g and beta.
type GatedDeltaGrad GatedDelta

func (GatedDeltaGrad) Kind() string { return "gated_delta_grad" }

func (o GatedDeltaGrad) Infer(in []*Value) ([]Type, error) {
	d, inputs := GatedDelta(o), 5
	if o.Documents {
		inputs = 6
	}
	if len(in) != inputs+2 {
		return nil, fmt.Errorf("%d inputs, want %d", len(in), inputs+2)
	}
	out, err := d.Infer(in[:inputs])
	if err != nil {
		return nil, err
	}
	types := make([]Type, 5)
	for i := range types {
		types[i] = F32(in[i].Shape()...)
	}
	return types, cmp.Or(wantShape("states", in[inputs], out[1].Shape...), wantShape("do", in[inputs+1], out[0].Shape...))
}

// FLOPs is 14 a token and element of a state.
func (o GatedDeltaGrad) FLOPs(n *Node) int64 { return 2 * GatedDelta(o).FLOPs(n) }

// Executed counts what is made again, too.
func (o GatedDeltaGrad) Executed(n *Node) int64 {
	c, k, v := int64(o.Chunk), int64(o.KeyDim), int64(o.ValueDim)
	return int64(n.Inputs[3].typ.Elements()) * (14*k*v + 2*c*k + c*c/3 + 7*c*v + 8*c*k)
}

// Gradient is GatedDeltaGrad.
func (o GatedDelta) Gradient(g *Graph, n *Node, dy []*Value) []*Value {
	if !g.onlyFirst(n, dy) {
		return make([]*Value, len(n.Inputs))
	}
	grads := g.Append(GatedDeltaGrad(o), append(slices.Clone(n.Inputs), n.Outputs[1], dy[0])...).Outputs[:5]
	return append(slices.Clone(grads), make([]*Value, len(n.Inputs)-5)...)
}

// deltaToken is what one token has of a value head.
type deltaToken struct {
	q, k, v []float64
	g, beta float64
}

// at is token i, of all rows, of a value head.
func (o GatedDelta) at(in []*Array, i, head int) deltaToken {
	key := i*o.KeyHeads + head/(o.Heads/o.KeyHeads)
	part := func(a *Array, at, dim int) []float64 { return a.Data[at*dim : (at+1)*dim] }
	return deltaToken{
		part(in[0], key, o.KeyDim), part(in[1], key, o.KeyDim), part(in[2], i*o.Heads+head, o.ValueDim),
		in[3].Data[i*o.Heads+head], in[4].Data[i*o.Heads+head],
	}
}

// step takes a token into a state, and gives u and o.
func (x deltaToken) step(state []float64) (u, out []float64) {
	u, out = slices.Clone(x.v), make([]float64, len(x.v))
	row := func(i int) []float64 { return state[i*len(u) : (i+1)*len(u)] }
	for i := range state {
		state[i] *= math.Exp(x.g)
	}
	for i, k := range x.k {
		addScaled(u, -k, row(i))
	}
	for j := range u {
		u[j] *= x.beta
	}
	for i, k := range x.k {
		addScaled(row(i), k, u)
		addScaled(out, x.q[i], row(i))
	}
	return u, out
}

// begins tells whether token i of all, of rows of t, begins with an empty state.
func (o GatedDelta) begins(in []*Array, i, t int) bool {
	return i%t == 0 || o.Documents && in[5].Data[i] == 0
}

// Eval is the definition, token by token.
func (o GatedDelta) Eval(n *Node, in []*Array, _ *Env) []*Array {
	out, states := NewArray(n.Outputs[0].Shape()), NewArray(n.Outputs[1].Shape())
	b, t, size := out.Shape[0], out.Shape[1], o.KeyDim*o.ValueDim
	for row := range b {
		for head := range o.Heads {
			state := make([]float64, size)
			for i := range t {
				at := row*t + i
				if i%o.Chunk == 0 {
					copy(states.Data[((row*states.Shape[1]+i/o.Chunk)*o.Heads+head)*size:], state)
				}
				if o.begins(in, at, t) {
					clear(state)
				}
				_, y := o.at(in, at, head).step(state)
				copy(out.Data[(at*o.Heads+head)*o.ValueDim:], y)
			}
		}
	}
	return []*Array{out, states}
}

// Eval is the definition, token by token and back; it keeps all states.
func (o GatedDeltaGrad) Eval(n *Node, in []*Array, _ *Env) []*Array {
	d := GatedDelta(o)
	grads := make([]*Array, 5)
	for i, v := range n.Outputs {
		grads[i] = NewArray(v.Shape())
	}
	dout := in[len(in)-1]
	b, t, size := dout.Shape[0], dout.Shape[1], o.KeyDim*o.ValueDim
	for row := range b {
		for head := range o.Heads {
			before, us := make([][]float64, t), make([][]float64, t) // S' of each token, the decayed state, and u
			after := make([][]float64, t)
			state := make([]float64, size)
			for i := range t {
				if d.begins(in, row*t+i, t) {
					clear(state)
				}
				x := d.at(in, row*t+i, head)
				for _, s := range state {
					before[i] = append(before[i], math.Exp(x.g)*s)
				}
				us[i], _ = x.step(state)
				after[i] = slices.Clone(state)
			}
			ds := make([]float64, size)
			for i := t - 1; i >= 0; i-- {
				at := row*t + i
				x, dx := d.at(in, at, head), d.at(grads, at, head)
				do := dout.Data[(at*o.Heads+head)*o.ValueDim:][:o.ValueDim]
				line := func(s []float64, j int) []float64 { return s[j*o.ValueDim : (j+1)*o.ValueDim] }
				du, miss := make([]float64, o.ValueDim), slices.Clone(x.v) // miss: v - S'^T k
				for j, k := range x.k {
					addScaled(line(ds, j), x.q[j], do)
					dx.q[j] += dot(line(after[i], j), do)
					addScaled(du, k, line(ds, j))
					addScaled(miss, -k, line(before[i], j))
				}
				dg := 0.0
				for j, k := range x.k {
					dx.k[j] += dot(line(ds, j), us[i]) - x.beta*dot(line(before[i], j), du)
					addScaled(line(ds, j), -x.beta*k, du)
					dg += dot(line(ds, j), line(before[i], j))
				}
				addScaled(dx.v, x.beta, du)
				grads[3].Data[at*o.Heads+head] = dg
				grads[4].Data[at*o.Heads+head] = dot(du, miss)
				for j := range ds {
					ds[j] *= math.Exp(x.g)
				}
				if d.begins(in, at, t) {
					clear(ds)
				}
			}
		}
	}
	return grads
}

// CachedDelta is the GatedDelta of the same fields, without Documents, of tokens that go on where earlier ones of their rows ended. Inputs: state
// [rows,Heads,KeyDim,ValueDim]; row and positions, as CachedConvolution has them; the operands. Outputs: o, and the states.
type CachedDelta GatedDelta

func (CachedDelta) Kind() string { return "cached_delta" }

func (o CachedDelta) Infer(in []*Value) ([]Type, error) {
	if err := arity(in, 8, 1, 2); err != nil {
		return nil, err
	}
	if o.Documents {
		return nil, fmt.Errorf("documents: a state is that of one")
	}
	tokens, err := GatedDelta(o).operands(in[3:])
	if err != nil {
		return nil, err
	}
	s := in[0].Shape()
	if len(s) != 4 || s[0] < 1 || !slices.Equal(s[1:], []int{o.Heads, o.KeyDim, o.ValueDim}) {
		return nil, fmt.Errorf("state has shape %v, want [rows %d %d %d]", s, o.Heads, o.KeyDim, o.ValueDim)
	}
	return []Type{F32(tokens[0], tokens[1], o.Heads*o.ValueDim), in[0].typ}, wantPlaces(in[1], in[2], tokens)
}

// FLOPs is 7 a token and element of a state.
func (o CachedDelta) FLOPs(n *Node) int64 {
	return 7 * int64(n.Inputs[6].typ.Elements()) * int64(o.KeyDim) * int64(o.ValueDim)
}

// Eval is the definition.
func (o CachedDelta) Eval(n *Node, in []*Array, e *Env) []*Array {
	d := GatedDelta(o)
	out, states := NewArray(n.Outputs[0].Shape()), &Array{Shape: in[0].Shape, Data: slices.Clone(in[0].Data)}
	order := inOrder(n, in[1], in[2], states.Shape[0], e)
	if order == nil {
		return nil
	}
	size := o.KeyDim * o.ValueDim
	for _, i := range order {
		for head := range o.Heads {
			state := states.Data[(int(in[1].Data[i])*o.Heads+head)*size:][:size]
			if in[2].Data[i] == 0 {
				clear(state)
			}
			_, y := d.at(in[3:], i, head).step(state)
			copy(out.Data[(i*o.Heads+head)*o.ValueDim:], y)
		}
	}
	return []*Array{out, states}
}
