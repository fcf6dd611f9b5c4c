package buffers

import (
	"context"
	"fmt"
	"slices"

	"gputrain/buffers/array"
	"gputrain/gpu"
	"gputrain/internal/suggest"
)

// Write stores a leaf's elements, row-major, in an F32 or BF16 tree, rounding to nearest even. The write is ordered before
// the next submit.
func (t *Tree) Write(path string, data []float32) error {
	leaf, err := t.floatLeaf("write", path)
	if err != nil {
		return err
	}
	if len(data) != leaf.Elements() {
		return fmt.Errorf("buffers: write: tree %q: leaf %q: %d elements, want %d of shape %v",
			t.label, path, len(data), leaf.Elements(), leaf.Shape)
	}
	return t.WriteRaw(path, array.Encoded(t.dtype, data))
}

// WriteRaw stores a leaf's bytes as the tree keeps them: little-endian, row-major, two bytes an element for BF16.
func (t *Tree) WriteRaw(path string, raw []byte) error {
	leaf, err := t.rawLeaf("write", path)
	if err != nil {
		return err
	}
	if want := t.dtype.Bytes(uint64(leaf.Elements())); uint64(len(raw)) != want {
		return fmt.Errorf("buffers: write: tree %q: leaf %q: %d bytes, want %d of %v %v",
			t.label, path, len(raw), want, t.dtype, leaf.Shape)
	}
	return t.WriteRawAt(path, raw, 0)
}

// WriteRawAt stores bytes of a leaf from byte at on, as the tree keeps them. Where they end before the leaf, that is at a whole word, and they begin at one.
func (t *Tree) WriteRawAt(path string, raw []byte, at int) error {
	leaf, err := t.rawLeaf("write", path)
	if err != nil {
		return err
	}
	if leaf.Table {
		return fmt.Errorf("buffers: write: tree %q: leaf %q: found a table that the host keeps, wanted one on the device", t.label, path)
	}
	return t.eachRange(leaf, at, len(raw), func(dst gpu.Range, from, to int) error {
		part := raw[from:to]
		if uint64(len(part)) < dst.Bytes { // an odd number of halves: the padding after it is written too
			part = append(slices.Clip(part), make([]byte, dst.Bytes-uint64(len(part)))...)
		}
		if err := t.device.Write(dst, part); err != nil {
			return fmt.Errorf("buffers: write: tree %q: leaf %q: %w", t.label, path, err)
		}
		return nil
	})
}

// eachRange calls f with where a leaf's bytes [at, at+n) lie, in whole words, and which of these n bytes each range begins with.
func (t *Tree) eachRange(leaf Leaf, at, n int, f func(r gpu.Range, from, to int) error) error {
	size := t.dtype.Bits() / 8
	if whole := size * leaf.Elements(); at < 0 || at+n > whole || n < whole && (at%4 != 0 || !t.inWords(leaf)) {
		return fmt.Errorf("buffers: tree %q: leaf %q: found bytes [%d, %d), wanted some of its %d, in whole words", t.label, leaf.Path, at, at+n, whole)
	}
	begin := 0 // of a part, in the leaf
	for _, p := range leaf.Parts {
		end := begin + size*p.Count
		from, to := max(at, begin), min(at+n, end)
		if from < to {
			whole := t.Part(p)
			words := uint64(to-from+3) / 4 * 4
			if err := f(whole.Buffer.Range(whole.Offset+uint64(from-begin), words), from-at, to-at); err != nil {
				return err
			}
		}
		begin = end
	}
	return nil
}

// Read waits for submitted work and gives a leaf of an F32, BF16 or packed tree.
func (t *Tree) Read(ctx context.Context, path string) ([]float32, error) {
	h, err := t.Host(ctx, path)
	if err != nil {
		return nil, err
	}
	data := make([]float32, h.Elements())
	return data, h.Read(data, 0)
}

// ReadRaw gives a leaf's bytes as the tree keeps them.
func (t *Tree) ReadRaw(ctx context.Context, path string) ([]byte, error) {
	leaf, err := t.rawLeaf("read", path)
	if err != nil {
		return nil, err
	}
	raw := make([]byte, t.dtype.Bytes(uint64(leaf.Elements())))
	return raw, t.ReadRawAt(ctx, path, raw, 0)
}

// ReadRawAt fills dst with a leaf's bytes from byte at on, a multiple of 4, as the tree keeps them.
func (t *Tree) ReadRawAt(ctx context.Context, path string, dst []byte, at int) error {
	leaf, err := t.rawLeaf("read", path)
	if err != nil {
		return err
	}
	if leaf.Table {
		table, err := t.ofHost("read", leaf)
		if err != nil {
			return err
		}
		size := t.dtype.Bits() / 8
		numbers := make([]float32, len(dst)/size)
		if err := table.Read(numbers, at/size); err != nil {
			return err
		}
		array.Encode(t.dtype, dst, numbers)
		return nil
	}
	return t.eachRange(leaf, at, len(dst), func(src gpu.Range, from, to int) error {
		part := dst[from:to]
		if uint64(len(part)) < src.Bytes {
			part = make([]byte, src.Bytes)
		}
		if err := t.device.Read(ctx, part, src); err != nil {
			return fmt.Errorf("buffers: read: tree %q: leaf %q: %w", t.label, path, err)
		}
		copy(dst[from:to], part)
		return nil
	})
}

// inWords tells whether every part of a leaf but the last ends at a whole word.
func (t *Tree) inWords(leaf Leaf) bool {
	return !slices.ContainsFunc(leaf.Parts[:max(0, len(leaf.Parts)-1)], func(p Part) bool { return p.Count*t.dtype.Bits()%32 != 0 })
}

func (t *Tree) leaf(operation, path string) (Leaf, error) {
	leaf, ok := t.layout.Leaf(path)
	if !ok {
		return leaf, fmt.Errorf("buffers: %s: tree %q: no leaf %q", operation, t.label, path)
	}
	return leaf, nil
}

// rawLeaf is a leaf of a tree that keeps all of them in one type.
func (t *Tree) rawLeaf(operation, path string) (Leaf, error) {
	if t.dtype.Packed() {
		return Leaf{}, fmt.Errorf("buffers: %s: tree %q: leaf %q: found its bytes in %s, wanted whole elements: WriteAll and Read have its numbers", operation, t.label, path, t.dtype.Format().Load)
	}
	return t.leaf(operation, path)
}

func (t *Tree) floatLeaf(operation, path string) (Leaf, error) {
	if !slices.Contains(array.Bases, t.dtype) {
		plain := slices.DeleteFunc(slices.Clone(array.Bases), func(d DType) bool { return d.Format().Group > 0 })
		return Leaf{}, fmt.Errorf("buffers: %s: tree %q: leaf %q: dtype %v, want %s", operation, t.label, path, t.dtype, suggest.Or(array.Names(plain)))
	}
	return t.leaf(operation, path)
}

// Upload makes a tree of the arrays, in F32, BF16 or a packed type, with one transfer a slab.
func Upload(dev *gpu.Device, label string, hosts []Host, dtype DType) (*Tree, error) {
	if dev == nil {
		return nil, fmt.Errorf("buffers: upload %q: device: found none, wanted one of gpu.Open", label)
	}
	specs := make([]Spec, len(hosts))
	for i, h := range hosts {
		specs[i] = h.Spec()
	}
	layout, err := NewLayoutFor(dtype, specs, dev.Limits())
	if err != nil {
		return nil, err
	}
	return UploadAs(dev, label, layout, hosts, dtype)
}

// UploadAs is Upload to a tree of that layout, whose leaves are the arrays.
func UploadAs(dev *gpu.Device, label string, layout *Layout, hosts []Host, dtype DType) (*Tree, error) {
	t, err := NewTree(dev, label, layout, dtype)
	if err != nil {
		return nil, err
	}
	if err := t.WriteAll(hosts); err != nil {
		t.Release()
		return nil, err
	}
	return t, nil
}

// Download waits for submitted work and gives every leaf of an F32 or BF16 tree in canonical order, with one transfer a slab.
func (t *Tree) Download(ctx context.Context) ([]Host, error) {
	out := make([]Host, len(t.layout.leaves))
	for i, leaf := range t.layout.leaves {
		if _, err := t.floatLeaf("download", leaf.Path); err != nil {
			return nil, err
		}
		out[i] = Host{Path: leaf.Path, Shape: slices.Clone(leaf.Shape), OutIn: leaf.OutIn, Table: leaf.Table, Data: make([]float32, leaf.Elements())}
		if t.dtype.Packed() || leaf.Table {
			h, err := t.Host(ctx, leaf.Path)
			if err == nil {
				err = h.Read(out[i].Data, 0)
			}
			if err != nil {
				return nil, err
			}
		}
	}
	if t.dtype.Packed() {
		return out, nil
	}
	for s := range t.slabs {
		image := make([]byte, t.slabs[s].Bytes())
		if err := t.device.Read(ctx, image, t.Slab(s)); err != nil {
			return nil, fmt.Errorf("buffers: download: tree %q: slab %d: %w", t.label, s, err)
		}
		t.eachPart(s, func(leaf Leaf, p Part, bytes []byte) {
			first := p.Row * leaf.rowElements()
			array.Decode(t.dtype, out[leaf.Index].Data[first:first+p.Count], bytes)
		}, image)
	}
	return out, nil
}

// eachPart calls f with every part in slab s and its bytes in the slab's image.
func (t *Tree) eachPart(s int, f func(leaf Leaf, p Part, bytes []byte), image []byte) {
	for _, leaf := range t.layout.leaves {
		for _, p := range leaf.Parts {
			if p.Slab == s {
				at := t.dtype.Bytes(uint64(p.Offset))
				f(leaf, p, image[at:at+t.dtype.Bytes(uint64(p.Count))])
			}
		}
	}
}
