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
	plan   *Plan
	leaves []Matrix       // those at hand that have a state of their own: not empty, not dense
	own    [][]*twinBlock // their blocks
	dense  []*twinBlock   // in order of their global index
}

// NewTwin makes the state before the first update for the leaves at hand: all of the plan, or those of a stage; nil means all.
// Errors: a path that is not in the plan, or given twice.
func NewTwin(p *Plan, leaves []string) (*Twin, error) {
	t := &Twin{plan: p}
	have := map[string]bool{}
	for _, path := range leaves {
		if _, ok := p.Leaf(path); !ok {
			return nil, fmt.Errorf("kron: twin: leaf %q: not in the plan", path)
		}
		if have[path] {
			return nil, fmt.Errorf("kron: twin: leaf %q: given twice", path)
		}
		have[path] = true
	}
	for _, m := range p.Leaves {
		if leaves != nil && !have[m.Path] || m.Kind == Empty {
			continue
		}
		var parts []*twinBlock
		for _, b := range p.BlocksOf(m) {
			parts = append(parts, newTwinBlock(p.Config, m, b))
		}
		if m.Kind == Dense {
			t.dense = append(t.dense, parts...)
			continue
		}
		t.leaves, t.own = append(t.leaves, m), append(t.own, parts)
	}
	return t, nil
}

// Update rewrites the leaves at hand in u, row-major gradients, as update n counted from 1; other leaves of u are left alone.
// With reuse the factors are applied and not refreshed. With skip nothing changes, neither state nor u.
func (t *Twin) Update(n int64, u map[string][]float64, reuse, skip bool) error {
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
		if !reuse {
			b.refresh(n, g)
		}
		b.write(u[b.leaf.Path], apply(b.left, b.right, g))
	}
	return nil
}

// Tensors is the state as it is saved. dense/Ql [N, r, r] and dense/Qr [N, c, c] are padded with zeros to the largest valid sizes
// among the blocks at hand. Vectors have one factor, Ql.
func (t *Twin) Tensors() []buffers.Host {
	out := tensorsOf("dense/", t.dense, true)
	for i, m := range t.leaves {
		out = append(out, tensorsOf("leaf/"+m.Path+"/", t.own[i], false)...)
	}
	return out
}

func tensorsOf(prefix string, parts []*twinBlock, valid bool) []buffers.Host {
	if len(parts) == 0 {
		return nil
	}
	var out []buffers.Host
	perBlock := func(name string, value func(*twinBlock) float64) {
		h := buffers.Host{Path: prefix + name, Shape: []int{len(parts)}}
		for _, b := range parts {
			h.Data = append(h.Data, float32(value(b)))
		}
		out = append(out, h)
	}
	factors := func(name string, side func(*twinBlock) *factor) {
		size := 0
		for _, b := range parts {
			size = max(size, side(b).n)
		}
		h := buffers.Host{Path: prefix + name, Shape: append([]int{len(parts)}, side(parts[0]).shape(size)...)}
		for _, b := range parts {
			h.Data = append(h.Data, side(b).padded(size)...)
		}
		out = append(out, h)
	}
	factors("Ql", func(b *twinBlock) *factor { return b.left })
	perBlock("Ll", func(b *twinBlock) float64 { return b.left.l })
	if parts[0].right != nil {
		factors("Qr", func(b *twinBlock) *factor { return b.right })
		perBlock("Lr", func(b *twinBlock) float64 { return b.right.l })
	}
	if parts[0].config.Rules.RelativeDamping {
		perBlock("rms", func(b *twinBlock) float64 { return b.rms })
	}
	if valid {
		perBlock("valid_rows", func(b *twinBlock) float64 { return float64(b.block.Rows) })
		perBlock("valid_cols", func(b *twinBlock) float64 { return float64(b.block.Cols) })
	}
	return out
}
