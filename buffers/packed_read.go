package buffers

import (
	"context"
	"fmt"

	"gputrain/buffers/array"
)

// readSlab gives n bytes of a slab, wherever they begin.
func (t *Tree) readSlab(ctx context.Context, slab int, at, n uint64) ([]byte, error) {
	skip := at % 4
	raw := make([]byte, (skip+n+3)/4*4)
	err := t.device.Read(ctx, raw, t.slabs[slab].Range(at-skip, uint64(len(raw))))
	return raw[skip:][:n], err
}

func (t *Tree) readFloats(ctx context.Context, slab int, at uint64, n int) ([]float32, error) {
	raw, err := t.readSlab(ctx, slab, at, 4*uint64(n))
	return array.Decoded(F32, raw), err
}

// readMaxima gives n maxima of a packed part from a block on.
func (t *Tree) readMaxima(ctx context.Context, p Part, block, n int) ([]float32, error) {
	f := t.dtype.Format()
	if f.Group == 0 {
		_, at, _, _ := t.dtype.Places(uint64(p.Offset+block*f.Block), uint64(t.layout.slabs[p.Slab]))
		return t.readFloats(ctx, p.Slab, at, n)
	}
	group := block / f.Group
	nested, err := t.readNested(ctx, p, group, block+n-group*f.Group)
	if err != nil {
		return nil, err
	}
	out := make([]float32, n)
	for i := range out {
		out[i] = nested.Maximum(block - group*f.Group + i)
	}
	return out, nil
}

// readNested gives n nested maxima of a part from the first of a group on.
func (t *Tree) readNested(ctx context.Context, p Part, group, n int) (out array.Nested, err error) {
	run, size := t.dtype.Run(), t.dtype.Format().Group
	first := p.Offset/run + group
	_, at, groups, _ := t.dtype.Places(uint64(first*run), uint64(t.layout.slabs[p.Slab]))
	if out.Codes, err = t.readSlab(ctx, p.Slab, at, uint64(n)); err != nil {
		return out, err
	}
	pairs, err := t.readFloats(ctx, p.Slab, groups+8*uint64(first), 2*((n+size-1)/size))
	for i := 0; i < len(pairs); i += 2 {
		out.Tops, out.Offset = append(out.Tops, pairs[i]), pairs[i+1]
	}
	return out, err
}

// readPart gives elements of a part from one on.
func (t *Tree) readPart(ctx context.Context, p Part, first int, to []float32) error {
	d := t.layout.SlabType(t.dtype, p.Slab)
	if !d.Packed() {
		raw, err := t.readSlab(ctx, p.Slab, d.Bytes(uint64(p.Offset+first)), d.Bytes(uint64(len(to))))
		array.Decode(d, to, raw)
		return err
	}
	block := first / d.Format().Block
	skip := first % d.Format().Block
	codes, err := t.readSlab(ctx, p.Slab, d.Bytes(uint64(p.Offset+first-skip)), d.Bytes(uint64(skip+len(to))))
	if err != nil {
		return err
	}
	maxima, err := t.readMaxima(ctx, p, block, d.Blocks(skip+len(to)))
	if err != nil {
		return err
	}
	d.Format().Widen(to, codes, maxima, skip)
	return nil
}

// along calls f with each part of a leaf that has some of n elements, from first on: with where in the part, where among the n, and how many.
func (l Leaf) along(first, n int, f func(p Part, at, of, n int) error) error {
	for _, p := range l.Parts {
		begin := p.Row * l.rowElements()
		from, to := max(first, begin), min(first+n, begin+p.Count)
		if from >= to {
			continue
		}
		if err := f(p, from-begin, from-first, to-from); err != nil {
			return err
		}
	}
	return nil
}

// Host is a leaf of an F32, BF16 or packed tree as an array that is read a part at a time, while the tree is not
// released and until ctx ends. A packed one has its codes and maxima.
func (t *Tree) Host(ctx context.Context, path string) (Host, error) {
	leaf, err := t.floatLeaf("read", path)
	if err != nil {
		return Host{}, err
	}
	if leaf.Table {
		table, err := t.ofHost("read", leaf)
		return table.Host, err
	}
	h := Host{Path: path, Shape: leaf.Shape, OutIn: leaf.OutIn, Read: func(dst []float32, first int) error {
		err := leaf.along(first, len(dst), func(p Part, at, of, n int) error { return t.readPart(ctx, p, at, dst[of:][:n]) })
		if err != nil {
			err = fmt.Errorf("buffers: read: tree %q: leaf %q: %w", t.label, path, err)
		}
		return err
	}}
	if len(leaf.Parts) > 0 && t.layout.SlabType(t.dtype, leaf.Parts[0].Slab).Packed() {
		h.Packed = packedLeaf{ctx, t, leaf}
	}
	return h, nil
}

// packedLeaf is a packed leaf as a source of another tree's.
type packedLeaf struct {
	ctx  context.Context
	tree *Tree
	leaf Leaf
}

// Load is that of the tree.
func (l packedLeaf) Load() string { return l.tree.dtype.Format().Load }

// ReadCodes gives the codes of the elements from an even one on.
func (l packedLeaf) ReadCodes(dst []byte, first int) error {
	return l.leaf.along(first, min(2*len(dst), l.leaf.Elements()-first), func(p Part, at, of, n int) error {
		codes, err := l.tree.readSlab(l.ctx, p.Slab, l.tree.dtype.Bytes(uint64(p.Offset+at)), l.tree.dtype.Bytes(uint64(n)))
		copy(dst[of/2:], codes)
		return err
	})
}

// ReadMaxima gives the maxima of blocks from one on.
func (l packedLeaf) ReadMaxima(dst []float32, first int) error {
	block := l.tree.dtype.Format().Block
	return l.leaf.along(first*block, len(dst)*block, func(p Part, at, of, n int) error {
		maxima, err := l.tree.readMaxima(l.ctx, p, at/block, l.tree.dtype.Blocks(n))
		copy(dst[of/block:], maxima)
		return err
	})
}

// Nested gives nested maxima of the whole leaf.
func (l packedLeaf) Nested() (*array.Nested, error) {
	if l.tree.dtype.Format().Group == 0 {
		return nil, nil
	}
	out := &array.Nested{}
	for _, p := range l.leaf.Parts {
		part, err := l.tree.readNested(l.ctx, p, 0, l.tree.dtype.Blocks(p.Count))
		if err != nil {
			return nil, err
		}
		out.Codes, out.Tops, out.Offset = append(out.Codes, part.Codes...), append(out.Tops, part.Tops...), part.Offset
	}
	return out, nil
}
