package buffers

import (
	"errors"
	"fmt"
	"slices"

	"gputrain/buffers/array"
	"gputrain/gpu"
	"gputrain/internal/dynamic8"
)

// A tree in a packed type has the matrices of layers in codes and all else in BF16, in slabs of their own. A slab in
// codes has first those of all its elements, two a byte, then a maximum in f32 for each block. Where maxima are nested
// it has a byte for each instead, and then two f32 numbers for each group of them: the group's largest magnitude, and
// the offset of its matrix. Packed trees are written whole, by WriteAll, and read: nothing is computed in place.

// NewLayoutFor is NewLayout for a tree of a type that is not trained: packed ones want slabs of their own, the others any, and the host keeps tables.
func NewLayoutFor(dtype DType, specs []Spec, lim gpu.Limits) (*Layout, error) {
	if !dtype.Packed() {
		return newLayout(specs, lim, BlockElements, true)
	}
	// Codes and maxima of a part begin at multiples of 256 bytes, and groups with it.
	whole := dtype.Run()
	packed, err := newLayout(slices.DeleteFunc(slices.Clone(specs), func(s Spec) bool { return !dtype.Keeps(s) }), lim, max(whole, 256/4*dtype.Format().Block), true)
	if err != nil {
		return nil, err
	}
	for _, leaf := range packed.leaves {
		for _, p := range leaf.Parts {
			if p.Row*leaf.rowElements()%whole != 0 {
				return nil, fmt.Errorf("buffers: layout: leaf %q: shape %v in parts that cut runs of %d elements, wanted it in bf16 or f32", leaf.Path, leaf.Shape, whole)
			}
		}
	}
	rest, err := newLayout(slices.DeleteFunc(slices.Clone(specs), dtype.Keeps), lim, BlockElements, true)
	if err != nil {
		return nil, err
	}
	l, err := grouped([]*Layout{packed, rest})
	if err == nil {
		l.packed = len(packed.slabs)
	}
	return l, err
}

// SlabType is the type of a slab in a tree of a type.
func (l *Layout) SlabType(d DType, slab int) DType {
	if d.Packed() && slab >= l.packed {
		return BF16
	}
	return d
}

func (l *Layout) slabBytes(d DType, slab int) uint64 {
	return l.SlabType(d, slab).Whole(uint64(l.slabs[slab]))
}

// packs tells whether a part of a leaf comes in the codes that it is kept in.
func (t *Tree) packs(p hostPart) bool {
	f := t.layout.SlabType(t.dtype, p.Slab).Format()
	return f.Levels != nil && p.host.Packed != nil && p.host.Packed.Load() == f.Load
}

// fillPacked quantizes a piece, but for the parts that come quantized, and writes it.
func (t *Tree) fillPacked(p piece, floats []float32, f *filling) error {
	d := t.dtype
	block := d.Format().Block
	codes, maxima := make([]byte, d.Bytes(uint64(len(floats)))), make([]float32, d.Blocks(len(floats)))
	d.Format().Pack(codes, maxima, floats)
	wrong := func(path string, err error) error {
		return fmt.Errorf("buffers: write all: tree %q: leaf %q: %w", t.label, path, err)
	}
	for _, part := range p.parts {
		if !t.packs(part) {
			continue
		}
		from, to := max(p.from, part.Offset), min(p.to, part.Offset+part.Count)
		first, at := part.first+from-part.Offset, from-p.from
		own := maxima[at/block:][:d.Blocks(to-from)]
		err := part.host.Packed.ReadCodes(codes[at/2:(at+to-from+1)/2], first)
		if err == nil {
			err = part.host.Packed.ReadMaxima(own, first/block)
		}
		if err == nil && slices.ContainsFunc(own, func(m float32) bool { return m-m != 0 }) {
			err = errors.New("found the maximum of a block NaN or infinite, wanted numbers")
		}
		if err != nil {
			return wrong(part.host.Path, err)
		}
	}
	atCodes, atMaxima, _, _ := d.Places(uint64(p.from), uint64(t.layout.slabs[p.slab]))
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := t.writeSlab(p.slab, atCodes, codes); err != nil {
		return err
	}
	if d.Format().Group == 0 {
		return t.writeSlab(p.slab, atMaxima, array.Encoded(F32, maxima))
	}
	for _, part := range p.parts {
		from, to := max(p.from, part.Offset), min(p.to, part.Offset+part.Count)
		whole := f.whole[part.leaf.Index]
		if whole == nil {
			whole = &wholeMaxima{maxima: make([]float32, d.Blocks(part.leaf.Elements()))}
			f.whole[part.leaf.Index] = whole
		}
		copy(whole.maxima[(part.first+from-part.Offset)/block:], maxima[(from-p.from)/block:][:d.Blocks(to-from)])
		if whole.seen += to - from; whole.seen < part.leaf.Elements() {
			continue
		}
		delete(f.whole, part.leaf.Index)
		if err := t.nest(part, whole.maxima); err != nil {
			return wrong(part.host.Path, err)
		}
	}
	return nil
}

// wholeMaxima are those of a leaf: they are nested together, once all elements are seen.
type wholeMaxima struct {
	maxima []float32
	seen   int
}

// nest writes the maxima of the leaf of a part in eight bits.
func (t *Tree) nest(part hostPart, maxima []float32) (err error) {
	leaf, n := part.leaf, (*array.Nested)(nil)
	if t.packs(part) {
		if n, err = part.host.Packed.Nested(); err != nil {
			return err
		}
	}
	if n == nil {
		own := dynamic8.Nest(maxima)
		n = &own
	}
	size := t.dtype.Format().Group
	for _, p := range leaf.Parts {
		block := p.Row * leaf.rowElements() / t.dtype.Format().Block
		codes := n.Codes[block:][:t.dtype.Blocks(p.Count)]
		var groups []float32
		for g := block / size; g <= (block+len(codes)-1)/size; g++ {
			groups = append(groups, n.Tops[g], n.Offset)
		}
		_, at, atGroups, _ := t.dtype.Places(uint64(p.Offset), uint64(t.layout.slabs[p.Slab]))
		if err := t.writeSlab(p.Slab, at, append(slices.Clip(codes), make([]byte, -len(codes)&3)...)); err != nil {
			return err
		}
		if err := t.writeSlab(p.Slab, atGroups+uint64(p.Offset/t.dtype.Run()*8), array.Encoded(F32, groups)); err != nil {
			return err
		}
	}
	return nil
}

func (t *Tree) writeSlab(slab int, at uint64, raw []byte) error {
	if err := t.device.Write(t.slabs[slab].Range(at, uint64(len(raw))), raw); err != nil {
		return fmt.Errorf("buffers: write all: tree %q: slab %d: %w", t.label, slab, err)
	}
	return nil
}
