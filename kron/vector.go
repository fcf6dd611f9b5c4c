package kron

import (
	"gputrain/buffers"
	"gputrain/gpu"
)

// vectors precondition the leaves of one dimension, all in the same few dispatches: each row of a leaf is a block with
// one factor. Its bank belongs to the slab in which the gradients lie. A row of a leaf in several parts has a run in
// each of their banks.
type vectors struct {
	diagonals
	slabs  []int // of the banks
	leaves []vectorLeaf
}

type vectorLeaf struct {
	path                   string
	first, count, elements int // factors, which are blocks too
}

// newVectors makes the state of the vectors of a layout; nil where it has none.
func newVectors(dev *gpu.Device, plan *Plan, layout *buffers.Layout) (path, error) {
	v := &vectors{diagonals: diagonals{Set: dev.NewSet("gputrain.kron.vector"), config: plan.Config}}
	banks := map[int]int{} // of slabs
	for _, leaf := range layout.Leaves() {
		m, ok := plan.Leaf(leaf.Path)
		if !ok || m.Kind != Vector {
			continue
		}
		v.leaves = append(v.leaves, vectorLeaf{leaf.Path, len(v.factors), m.Batch, m.Cols})
		at := 0 // in the leaf
		for _, p := range leaf.Parts {
			in, known := banks[p.Slab]
			if !known {
				in = len(v.banks)
				banks[p.Slab] = in
				v.banks, v.slabs = append(v.banks, &factorBank{}), append(v.slabs, p.Slab)
			}
			for end := at + p.Count; at < end; {
				row, first := at/m.Cols, at%m.Cols
				if first == 0 {
					v.factor(m, row, v.block(m.Cols), 0, 1)
				}
				count := min(m.Cols-first, end-at)
				place := p.Offset + p.Count - (end - at) - first
				v.put(in, m.Cols, first, count, func(first int) factorItem { return factorItem{place: uint32(place + first)} })
				at += count
			}
		}
	}
	if len(v.leaves) == 0 {
		return nil, nil
	}
	for i, f := range v.factors {
		v.blocks[i].squares, v.blocks[i].sums = f.first, f.chunks
	}
	if err := v.allocate(); err != nil {
		v.Release()
		return nil, err
	}
	return v, nil
}

func (v *vectors) record(rec *gpu.Recording, c call) {
	// each records a kernel for the items of each bank, with what it binds besides them.
	each := func(name string, flags map[string]bool, bind func(b *factorBank, updates gpu.Range) []gpu.Range) {
		for i, b := range v.banks {
			n := len(b.items)
			v.dispatch(rec, name, flags, v.groups(n), uint32(n), bind(b, c.updates.Slab(v.slabs[i]))...)
		}
	}
	if c.refresh {
		if v.config.Rules.RelativeDamping {
			each("vector_squares", nil, func(b *factorBank, updates gpu.Range) []gpu.Range {
				return []gpu.Range{b.table.All(), updates, v.squares.All()}
			})
			v.damp(rec, c)
		}
		each("vector_measure", v.drawing(), func(b *factorBank, updates gpu.Range) []gpu.Range {
			return []gpu.Range{c.scalars, b.table.All(), v.table.All(), updates, v.amplitude.All(), b.q.All(), b.t.All(), v.maxima.All()}
		})
		v.step(rec, c, false)
	}
	if !c.apply {
		return
	}
	each("vector_apply", map[string]bool{"BF16": v.bf16()}, func(b *factorBank, updates gpu.Range) []gpu.Range {
		return []gpu.Range{b.table.All(), b.q.All(), updates}
	})
}

// derive has nothing to do: everything is computed from q as it is stored.
func (v *vectors) derive(*gpu.Recording) {}

func (v *vectors) tensors() []buffers.Tensor {
	var out []buffers.Tensor
	for _, l := range v.leaves {
		out = append(out, v.factorTensors(l.path, "l", l.first, l.count, l.elements)...)
		if v.rms != nil {
			out = append(out, v.rmsTensor(l.path, l.first, l.count))
		}
	}
	return out
}
