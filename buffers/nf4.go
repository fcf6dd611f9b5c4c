package buffers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"gputrain/buffers/array"
	"gputrain/buffers/nf4"
	"gputrain/gpu"
)

// A tree in NF4 has the matrices of layers in nf4 and all else in BF16, in slabs of their own. A slab in nf4 has first the
// codes of all its elements, two a byte, then a maximum in f32 for each block of 64. Trees in NF4 are written whole, by
// WriteAll, and read: nothing is computed on them in place.

// nf4Align is the alignment of parts in nf4: their codes and their maxima then begin at multiples of 256 bytes.
const nf4Align = 256 / 4 * nf4.Block

// NewLayoutFor is NewLayout for a tree of a type: NF4 wants slabs of its own, the others any.
func NewLayoutFor(dtype DType, specs []Spec, lim gpu.Limits) (*Layout, error) {
	if dtype != NF4 {
		return NewLayout(specs, lim)
	}
	packed, err := newLayout(slices.DeleteFunc(slices.Clone(specs), func(s Spec) bool { return !s.MatrixOfLayer() }), lim, nf4Align)
	if err != nil {
		return nil, err
	}
	for _, leaf := range packed.leaves {
		for _, p := range leaf.Parts {
			if p.Row*leaf.rowElements()%nf4.Block != 0 {
				return nil, fmt.Errorf("buffers: layout: leaf %q: shape %v in parts that cut blocks of %d, wanted it in bf16 or f32", leaf.Path, leaf.Shape, nf4.Block)
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
	if d == NF4 && slab >= l.packed {
		return BF16
	}
	return d
}

func (l *Layout) slabBytes(d DType, slab int) uint64 {
	n := uint64(l.slabs[slab])
	if d = l.SlabType(d, slab); d == NF4 {
		return n/2 + n/nf4.Block*4
	}
	return d.Bytes(n)
}

// NF4Bytes is where the codes and the maxima of an element, the first of a block, begin in a slab in nf4 of so many elements.
func NF4Bytes(element, elements uint64) (codes, maxima uint64) {
	return element / 2, elements/2 + element/nf4.Block*4
}

// packs tells whether a part of a leaf comes in nf4 and is kept so.
func (t *Tree) packs(p hostPart) bool {
	return t.layout.SlabType(t.dtype, p.Slab) == NF4 && p.host.NF4 != nil
}

// fillNF4 quantizes a piece, but for the parts that come quantized, and writes it.
func (t *Tree) fillNF4(p piece, floats []float32, one *sync.Mutex) error {
	codes, maxima := make([]byte, len(floats)/2), make([]float32, len(floats)/nf4.Block)
	nf4.Quantize(codes, maxima, floats)
	for _, part := range p.parts {
		if !t.packs(part) {
			continue
		}
		from, to := max(p.from, part.Offset), min(p.to, part.Offset+part.Count)
		first, at := part.first+from-part.Offset, from-p.from
		err := part.host.NF4.ReadCodes(codes[at/2:(at+to-from+1)/2], first)
		if err == nil {
			err = part.host.NF4.ReadMaxima(maxima[at/nf4.Block:at/nf4.Block+nf4.Blocks(to-from)], first/nf4.Block)
		}
		if err == nil && slices.ContainsFunc(maxima, func(m float32) bool { return m-m != 0 }) {
			err = errors.New("found the maximum of a block NaN or infinite, wanted numbers")
		}
		if err != nil {
			return fmt.Errorf("buffers: write all: tree %q: leaf %q: %w", t.label, part.host.Path, err)
		}
	}
	raw := make([]byte, 4*len(maxima))
	array.Encode(F32, raw, maxima)
	atCodes, atMaxima := NF4Bytes(uint64(p.from), uint64(t.layout.slabs[p.slab]))
	one.Lock()
	defer one.Unlock()
	for at, bytes := range map[uint64][]byte{atCodes: codes, atMaxima: raw} {
		if err := t.device.Write(t.slabs[p.slab].Range(at, uint64(len(bytes))), bytes); err != nil {
			return fmt.Errorf("buffers: write all: tree %q: slab %d: %w", t.label, p.slab, err)
		}
	}
	return nil
}

// readMixed gives a leaf of a tree in NF4.
func (t *Tree) readMixed(ctx context.Context, leaf Leaf) ([]float32, error) {
	data := make([]float32, leaf.Elements())
	for _, p := range leaf.Parts {
		to := data[p.Row*leaf.rowElements():][:p.Count]
		if err := t.readPart(ctx, p, to); err != nil {
			return nil, fmt.Errorf("buffers: read: tree %q: leaf %q: %w", t.label, leaf.Path, err)
		}
	}
	return data, nil
}

func (t *Tree) readPart(ctx context.Context, p Part, to []float32) error {
	slab, d := t.slabs[p.Slab], t.layout.SlabType(t.dtype, p.Slab)
	if d != NF4 {
		raw := make([]byte, wordBytes(d, p.Count))
		if err := t.device.Read(ctx, raw, t.Part(p)); err != nil {
			return err
		}
		array.Decode(d, to, raw)
		return nil
	}
	atCodes, atMaxima := NF4Bytes(uint64(p.Offset), uint64(t.layout.slabs[p.Slab]))
	codes, raw := make([]byte, wordBytes(NF4, p.Count)), make([]byte, 4*nf4.Blocks(p.Count))
	if err := t.device.Read(ctx, codes, slab.Range(atCodes, uint64(len(codes)))); err != nil {
		return err
	}
	if err := t.device.Read(ctx, raw, slab.Range(atMaxima, uint64(len(raw)))); err != nil {
		return err
	}
	maxima := make([]float32, len(raw)/4)
	array.Decode(F32, maxima, raw)
	for i := range to {
		to[i] = nf4.Number(nf4.Code(codes, i), maxima[i/nf4.Block])
	}
	return nil
}

// downloadMixed fills the arrays of all leaves of a tree in NF4.
func (t *Tree) downloadMixed(ctx context.Context, out []Host) (err error) {
	for i, leaf := range t.layout.leaves {
		if out[i].Data, err = t.readMixed(ctx, leaf); err != nil {
			return err
		}
	}
	return nil
}
