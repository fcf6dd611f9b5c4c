package kron

import (
	"fmt"
	"slices"

	"gputrain/buffers"
)

// Twin is the definition of the engine, on the host: equations in float64, random numbers as they are drawn on a device, factors
// rounded to their storage after each update. State is compared with it.
//
// Update n, counted from 1, of a block G [m, n] with factors Ql [m, m], Qr [n, n]; z is halved with Rules.HalvedPair:
//
//	where n is a multiple of 100:  l = max|Ql|, r = max|Qr|, Ql ← Ql sqrt(l r)/l, Qr ← Qr sqrt(l r)/r
//	P  = QlᵀQl (G + N) QrᵀQr
//	Tl = P Pᵀ, sl = n;   Tr = Pᵀ P, sr = m
//	ℓ  = Bound(T) + s;   L ← max(0.95 L + 0.05 ℓ, ℓ)                          on each side, L from 0
//	Quad:  W = I - rate/(2L) (T - s I);   Q ← W Q W, made symmetric           on each side
//	Skew:  W = I - rate/L (T - s I);      Q ← Procrustes(W Q)                 on each side
//	G ← QlᵀQl G QrᵀQr                                                         the new factors, the gradient without noise
//
// A diagonal side has the diagonal of T for T and its largest element for a bound; Quad multiplies q by (1 - rate/(2L) (T - s))²,
// Skew by 1 - rate/L (T - s). A vector is a matrix of one column that has a left factor only, which is diagonal.
type Twin struct {
	plan  *Plan
	part  part
	own   [][]*twinBlock // of part.own
	dense []*twinBlock   // of part.dense
}

// NewTwin makes the state before the first update for the leaves at hand: all leaves of the plan, or a stage's; nil
// means all. Errors: a path that is not in the plan, or given twice.
func NewTwin(p *Plan, leaves []string) (*Twin, error) {
	part, err := p.part(leaves)
	if err != nil {
		return nil, err
	}
	t := &Twin{plan: p, part: part}
	for _, b := range part.dense {
		t.dense = append(t.dense, newTwinBlock(p.Config, p.Leaves[p.Blocks[b].Leaf], p.Blocks[b]))
	}
	for _, i := range part.own {
		var own []*twinBlock
		for _, b := range p.BlocksOf(p.Leaves[i]) {
			own = append(own, newTwinBlock(p.Config, p.Leaves[i], b))
		}
		t.own = append(t.own, own)
	}
	return t, nil
}

// Update rewrites the leaves at hand in u, row-major gradients, as update n counted from 1; other leaves of u are left alone.
// With reuse the factors are applied and not refreshed. With skip nothing changes, neither state nor u.
func (t *Twin) Update(n int64, u map[string][]float64, reuse, skip bool) error {
	return t.update(n, u, !reuse, true, skip)
}

// Follow is a refresh alone: the factors follow u, which stays.
func (t *Twin) Follow(n int64, u map[string][]float64, skip bool) error {
	return t.update(n, u, true, false, skip)
}

func (t *Twin) update(n int64, u map[string][]float64, refresh, applies, skip bool) error {
	if n < 1 {
		return fmt.Errorf("kron: twin: update %d: they count from 1", n)
	}
	parts := slices.Concat(append(slices.Clone(t.own), t.dense)...)
	for _, b := range parts {
		if want := b.leaf.Batch * b.leaf.Rows * b.leaf.Cols; len(u[b.leaf.Path]) != want {
			return fmt.Errorf("kron: twin: leaf %q: %d elements, want %d", b.leaf.Path, len(u[b.leaf.Path]), want)
		}
	}
	if skip {
		return nil
	}
	for _, b := range parts {
		g := b.read(u[b.leaf.Path])
		if refresh {
			b.refresh(n, g)
		}
		if applies {
			b.write(u[b.leaf.Path], apply(b.left, b.right, g))
		}
	}
	return nil
}

// Tensors is the state as it is saved. dense/Ql [N, r, r] and dense/Qr [N, c, c] are padded with zeros to the largest valid sizes
// among the blocks at hand. Vectors have one factor, Ql.
func (t *Twin) Tensors() []buffers.Host {
	var out []buffers.Host
	for _, s := range t.plan.tensors(t.part) {
		blocks := t.dense
		if s.own >= 0 {
			blocks = t.own[s.own]
		}
		h := buffers.Host{Path: s.prefix + s.slot, Shape: s.shape}
		for _, b := range blocks {
			h.Data = append(h.Data, b.tensor(s.slot, s.shape[1:])...)
		}
		out = append(out, h)
	}
	return out
}

// tensor is the block's part of a tensor.
func (b *twinBlock) tensor(slot string, shape []int) []float32 {
	switch slot {
	case "Ql":
		return b.left.padded(shape)
	case "Qr":
		return b.right.padded(shape)
	case "Ll":
		return []float32{float32(b.left.l)}
	case "Lr":
		return []float32{float32(b.right.l)}
	case "rms":
		return []float32{float32(b.rms)}
	case "valid_rows":
		return []float32{float32(b.block.Rows)}
	}
	return []float32{float32(b.block.Cols)} // valid_cols
}
