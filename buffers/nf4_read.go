package buffers

import (
	"context"
	"fmt"

	"gputrain/buffers/array"
	"gputrain/buffers/nf4"
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
	out := make([]float32, n)
	array.Decode(F32, out, raw)
	return out, err
}

// readCodes gives n codes of a part in nf4 from an even one on.
func (t *Tree) readCodes(ctx context.Context, p Part, first, n int) ([]byte, error) {
	return t.readSlab(ctx, p.Slab, uint64(p.Offset+first)/2, uint64(n+1)/2)
}

// readMaxima gives n maxima of a part in nf4 from a block on.
func (t *Tree) readMaxima(ctx context.Context, p Part, block, n int) ([]float32, error) {
	d := t.layout.SlabType(t.dtype, p.Slab)
	_, at, _ := PackedBytes(d, uint64(p.Offset+block*nf4.Block), uint64(t.layout.slabs[p.Slab]))
	if d == NF4 {
		return t.readFloats(ctx, p.Slab, at, n)
	}
	group := block / nf4.Group
	nested, err := t.readNested(ctx, p, group, block+n-group*nf4.Group)
	if err != nil {
		return nil, err
	}
	out := make([]float32, n)
	for i := range out {
		out[i] = nested.Maximum(block - group*nf4.Group + i)
	}
	return out, nil
}

// readNested gives n nested maxima of a part from the first of a group on.
func (t *Tree) readNested(ctx context.Context, p Part, group, n int) (out nf4.Nested, err error) {
	first := p.Offset/(nf4.Group*nf4.Block) + group
	_, at, groups := PackedBytes(NF4Nested, uint64(first*nf4.Group*nf4.Block), uint64(t.layout.slabs[p.Slab]))
	if out.Codes, err = t.readSlab(ctx, p.Slab, at, uint64(n)); err != nil {
		return out, err
	}
	pairs, err := t.readFloats(ctx, p.Slab, groups+8*uint64(first), 2*((n+nf4.Group-1)/nf4.Group))
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
	block := first / nf4.Block
	skip := first - block*nf4.Block
	codes, err := t.readCodes(ctx, p, first-skip, skip+len(to))
	if err != nil {
		return err
	}
	maxima, err := t.readMaxima(ctx, p, block, nf4.Blocks(skip+len(to)))
	if err != nil {
		return err
	}
	for i := range to {
		to[i] = nf4.Number(nf4.Code(codes, skip+i), maxima[(skip+i)/nf4.Block])
	}
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

// Host is a leaf of an F32, BF16 or nf4 tree as an array that is read a part at a time, while the tree is not released and until ctx ends. One in nf4
// has its codes and maxima.
func (t *Tree) Host(ctx context.Context, path string) (Host, error) {
	leaf, err := t.floatLeaf("read", path)
	if err != nil {
		return Host{}, err
	}
	h := Host{Path: path, Shape: leaf.Shape, OutIn: leaf.OutIn, Read: func(dst []float32, first int) error {
		err := leaf.along(first, len(dst), func(p Part, at, of, n int) error { return t.readPart(ctx, p, at, dst[of:][:n]) })
		if err != nil {
			err = fmt.Errorf("buffers: read: tree %q: leaf %q: %w", t.label, path, err)
		}
		return err
	}}
	if len(leaf.Parts) > 0 && t.layout.SlabType(t.dtype, leaf.Parts[0].Slab).Packed() {
		h.NF4 = packedLeaf{ctx, t, leaf}
	}
	return h, nil
}

// packedLeaf is a leaf in nf4 as a source of another tree's.
type packedLeaf struct {
	ctx  context.Context
	tree *Tree
	leaf Leaf
}

// ReadCodes gives the codes of the elements from an even one on.
func (l packedLeaf) ReadCodes(dst []byte, first int) error {
	return l.leaf.along(first, min(2*len(dst), l.leaf.Elements()-first), func(p Part, at, of, n int) error {
		codes, err := l.tree.readCodes(l.ctx, p, at, n)
		copy(dst[of/2:], codes)
		return err
	})
}

// ReadMaxima gives the maxima of blocks from one on.
func (l packedLeaf) ReadMaxima(dst []float32, first int) error {
	return l.leaf.along(first*nf4.Block, len(dst)*nf4.Block, func(p Part, at, of, n int) error {
		maxima, err := l.tree.readMaxima(l.ctx, p, at/nf4.Block, nf4.Blocks(n))
		copy(dst[of/nf4.Block:], maxima)
		return err
	})
}

// Nested gives nested maxima of the whole leaf.
func (l packedLeaf) Nested() (*nf4.Nested, error) {
	if l.tree.dtype != NF4Nested {
		return nil, nil
	}
	out := &nf4.Nested{}
	for _, p := range l.leaf.Parts {
		part, err := l.tree.readNested(l.ctx, p, 0, nf4.Blocks(p.Count))
		if err != nil {
			return nil, err
		}
		out.Codes, out.Tops, out.Offset = append(out.Codes, part.Codes...), append(out.Tops, part.Tops...), part.Offset
	}
	return out, nil
}

// readMixed gives a leaf of a tree in nf4.
func (t *Tree) readMixed(ctx context.Context, leaf Leaf) ([]float32, error) {
	h, err := t.Host(ctx, leaf.Path)
	if err != nil {
		return nil, err
	}
	data := make([]float32, leaf.Elements())
	return data, h.Read(data, 0)
}

// downloadMixed fills the arrays of all leaves of a tree in nf4.
func (t *Tree) downloadMixed(ctx context.Context, out []Host) (err error) {
	for i, leaf := range t.layout.leaves {
		if out[i].Data, err = t.readMixed(ctx, leaf); err != nil {
			return err
		}
	}
	return nil
}
