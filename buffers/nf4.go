package buffers

import (
	"errors"
	"fmt"
	"slices"

	"gputrain/buffers/array"
	"gputrain/buffers/nf4"
	"gputrain/gpu"
)

// A tree in NF4 has the matrices of layers in nf4 and all else in BF16, in slabs of their own. A slab in nf4 has first the
// codes of all its elements, two a byte, then a maximum in f32 for each block of 64. NF4Nested has a byte for each maximum
// instead, and then two f32 numbers for each group of 256 blocks: the group's largest magnitude, and the offset of its
// matrix. Trees in nf4 are written whole, by WriteAll, and read: nothing is computed on them in place.

// packedAlign is the alignment of parts in a packed type: codes and maxima then begin at multiples of 256 bytes, and groups with a part.
func packedAlign(d DType) int {
	if d == NF4Nested {
		return nf4.Group * nf4.Block
	}
	return 256 / 4 * nf4.Block
}

// NewLayoutFor is NewLayout for a tree of a type: NF4 and NF4Nested want slabs of their own, the others any.
func NewLayoutFor(dtype DType, specs []Spec, lim gpu.Limits) (*Layout, error) {
	if !dtype.Packed() {
		return NewLayout(specs, lim)
	}
	packed, err := newLayout(slices.DeleteFunc(slices.Clone(specs), func(s Spec) bool { return !s.MatrixOfLayer() }), lim, packedAlign(dtype))
	if err != nil {
		return nil, err
	}
	whole := nf4.Block
	if dtype == NF4Nested {
		whole *= nf4.Group
	}
	for _, leaf := range packed.leaves {
		for _, p := range leaf.Parts {
			if p.Row*leaf.rowElements()%whole != 0 {
				return nil, fmt.Errorf("buffers: layout: leaf %q: shape %v in parts that cut runs of %d elements, wanted it in bf16 or f32", leaf.Path, leaf.Shape, whole)
			}
		}
	}
	rest, err := NewLayout(slices.DeleteFunc(slices.Clone(specs), Spec.MatrixOfLayer), lim)
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
	n := uint64(l.slabs[slab])
	if d = l.SlabType(d, slab); d.Packed() {
		_, _, groups := PackedBytes(d, 0, n)
		return groups + GroupBytes(d, n)
	}
	return d.Bytes(n)
}

// PackedBytes is where the codes of an element, the first of a block, and its maximum begin in a packed slab of so many
// elements, and where the groups of the slab do.
func PackedBytes(d DType, element, elements uint64) (codes, maxima, groups uint64) {
	each := uint64(4)
	if d == NF4Nested {
		each = 1
	}
	return element / 2, elements/2 + element/nf4.Block*each, elements/2 + elements/nf4.Block*each
}

// GroupBytes is what the groups of a packed slab of so many elements take: pairs of f32, rounded up to 16 bytes.
func GroupBytes(d DType, elements uint64) uint64 {
	if d != NF4Nested {
		return 0
	}
	return (elements/(nf4.Group*nf4.Block)*8 + 15) / 16 * 16
}

// packs tells whether a part of a leaf comes in nf4 and is kept so.
func (t *Tree) packs(p hostPart) bool {
	return t.layout.SlabType(t.dtype, p.Slab).Packed() && p.host.NF4 != nil
}

// fillPacked quantizes a piece, but for the parts that come quantized, and writes it.
func (t *Tree) fillPacked(p piece, floats []float32, f *filling) error {
	codes, maxima := make([]byte, len(floats)/2), make([]float32, len(floats)/nf4.Block)
	nf4.Quantize(codes, maxima, floats)
	wrong := func(path string, err error) error {
		return fmt.Errorf("buffers: write all: tree %q: leaf %q: %w", t.label, path, err)
	}
	for _, part := range p.parts {
		if !t.packs(part) {
			continue
		}
		from, to := max(p.from, part.Offset), min(p.to, part.Offset+part.Count)
		first, at := part.first+from-part.Offset, from-p.from
		own := maxima[at/nf4.Block:][:nf4.Blocks(to-from)]
		err := part.host.NF4.ReadCodes(codes[at/2:(at+to-from+1)/2], first)
		if err == nil {
			err = part.host.NF4.ReadMaxima(own, first/nf4.Block)
		}
		if err == nil && slices.ContainsFunc(own, func(m float32) bool { return m-m != 0 }) {
			err = errors.New("found the maximum of a block NaN or infinite, wanted numbers")
		}
		if err != nil {
			return wrong(part.host.Path, err)
		}
	}
	d := t.layout.SlabType(t.dtype, p.slab)
	atCodes, atMaxima, _ := PackedBytes(d, uint64(p.from), uint64(t.layout.slabs[p.slab]))
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := t.writeSlab(p.slab, atCodes, codes); err != nil {
		return err
	}
	if d == NF4 {
		return t.writeSlab(p.slab, atMaxima, encodeF32(maxima))
	}
	for _, part := range p.parts {
		from, to := max(p.from, part.Offset), min(p.to, part.Offset+part.Count)
		whole := f.whole[part.leaf.Index]
		if whole == nil {
			whole = &wholeMaxima{maxima: make([]float32, nf4.Blocks(part.leaf.Elements()))}
			f.whole[part.leaf.Index] = whole
		}
		copy(whole.maxima[(part.first+from-part.Offset)/nf4.Block:], maxima[(from-p.from)/nf4.Block:][:nf4.Blocks(to-from)])
		if whole.seen += to - from; whole.seen < part.leaf.Elements() {
			continue
		}
		delete(f.whole, part.leaf.Index)
		if err := t.nest(part.leaf, part.host, whole.maxima); err != nil {
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

// nest writes the maxima of a leaf in eight bits.
func (t *Tree) nest(leaf Leaf, host Host, maxima []float32) error {
	n := (*nf4.Nested)(nil)
	if host.NF4 != nil {
		var err error
		if n, err = host.NF4.Nested(); err != nil {
			return err
		}
	}
	if n == nil {
		own := nf4.Nest(maxima)
		n = &own
	}
	for _, p := range leaf.Parts {
		block := p.Row * leaf.rowElements() / nf4.Block
		codes := n.Codes[block:][:nf4.Blocks(p.Count)]
		var groups []float32
		for g := block / nf4.Group; g <= (block+len(codes)-1)/nf4.Group; g++ {
			groups = append(groups, n.Tops[g], n.Offset)
		}
		_, at, atGroups := PackedBytes(NF4Nested, uint64(p.Offset), uint64(t.layout.slabs[p.Slab]))
		if err := t.writeSlab(p.Slab, at, append(slices.Clip(codes), make([]byte, -len(codes)&3)...)); err != nil {
			return err
		}
		if err := t.writeSlab(p.Slab, atGroups+uint64(p.Offset/(nf4.Group*nf4.Block)*8), encodeF32(groups)); err != nil {
			return err
		}
	}
	return nil
}

func encodeF32(x []float32) []byte {
	raw := make([]byte, 4*len(x))
	array.Encode(F32, raw, x)
	return raw
}

func (t *Tree) writeSlab(slab int, at uint64, raw []byte) error {
	if err := t.device.Write(t.slabs[slab].Range(at, uint64(len(raw))), raw); err != nil {
		return fmt.Errorf("buffers: write all: tree %q: slab %d: %w", t.label, slab, err)
	}
	return nil
}
