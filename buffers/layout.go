package buffers

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"

	"gputrain/buffers/array"
	"gputrain/gpu"
)

// BlockElements is the alignment of every part in its slab, in elements: 256 bytes of bf16, 512 of f32, so
// that a part can be bound on its own whatever the dtype, and a block of this size never has two leaves.
const BlockElements = 128

// maxLeafElements keeps the index of a group of four elements of a leaf in a u32, which kernels count in.
const maxLeafElements = 1 << 34

// Leaf says where one array of a tree lives. A leaf without elements has no parts, nor has one that the host keeps.
type Leaf struct {
	Path    string
	Shape   []int
	OutIn   bool // of Spec, as
	InOut   bool
	Scanned bool
	Table   bool // the host keeps it, see Gather
	Index   int  // place in Layout.Leaves
	Parts   []Part
}

// Spec is the leaf without its place.
func (l Leaf) Spec() Spec {
	return Spec{Path: l.Path, Shape: l.Shape, OutIn: l.OutIn, InOut: l.InOut, Scanned: l.Scanned, Table: l.Table}
}

// Elements is the product of the shape, 1 for a scalar.
func (l Leaf) Elements() int { return array.Elements(l.Shape) }

// rowElements is the length of a row of the leaf's two-dimensional view [Shape[0], rest].
func (l Leaf) rowElements() int { return array.Elements(l.Shape[min(1, len(l.Shape)):]) }

// Part is a run of whole rows of a leaf in one slab: rows [Row, Row+Rows) of the view [Shape[0], rest] (a scalar is
// [1, 1], a vector [n, 1]), at elements [Offset, Offset+Count) of the slab. Offset is a multiple of BlockElements.
type Part struct {
	Slab, Offset, Count int
	Row, Rows           int
}

// Layout places the leaves of a tree in slabs, in elements and so alike for every dtype: params, gradients and moments
// share one layout. It is immutable.
type Layout struct {
	leaves   []Leaf
	index    map[string]int
	slabs    []int
	elements int
	groups   []*Layout // of NewGroupedLayout, each with its own slabs
	packed   int       // slabs, the first ones, that a tree in a packed type has in it; the others are in BF16
}

// NewLayout sorts specs by path in order of Unicode code points and places them in slabs. A slab holds at most as many
// elements as one binding (and one buffer) of the device has in f32. A leaf that is larger than a slab is split by rows. Errors: a
// path that is empty or given twice, a negative dimension, a size that overflows, a row larger than a slab.
func NewLayout(specs []Spec, lim gpu.Limits) (*Layout, error) {
	return newLayout(specs, lim, BlockElements, false)
}

// newLayout begins each part at a multiple of align elements. Tables may stay with the host.
func newLayout(specs []Spec, lim gpu.Limits, align int, tables bool) (*Layout, error) {
	capacity, err := slabCapacity(lim)
	if err != nil {
		return nil, err
	}
	specs = slices.Clone(specs)
	slices.SortStableFunc(specs, func(a, b Spec) int { return cmp.Compare(a.Path, b.Path) })
	l := &Layout{index: make(map[string]int, len(specs))}
	for i, s := range specs {
		if s.Path == "" {
			return nil, fmt.Errorf("buffers: layout: leaf of shape %v: path is empty", s.Shape)
		}
		if _, twice := l.index[s.Path]; twice {
			return nil, fmt.Errorf("buffers: layout: leaf %q: given twice", s.Path)
		}
		n, err := elementCount(s.Shape)
		if err != nil {
			return nil, fmt.Errorf("buffers: layout: leaf %q: %w", s.Path, err)
		}
		leaf := Leaf{Path: s.Path, Shape: slices.Clone(s.Shape), OutIn: s.OutIn, InOut: s.InOut, Scanned: s.Scanned, Table: s.Table && tables, Index: i}
		if !leaf.Table {
			if leaf.Parts, err = l.place(leaf, n, capacity/align*align, align); err != nil {
				return nil, err
			}
		}
		l.index[s.Path] = i
		l.leaves = append(l.leaves, leaf)
		l.elements += n
	}
	return l, nil
}

func slabCapacity(lim gpu.Limits) (int, error) {
	room := lim.BindingBytes
	if lim.BufferBytes > 0 {
		room = min(room, lim.BufferBytes)
	}
	room = min(room, 1<<34) // element indices stay below 2^32
	capacity := int(room / 4 / BlockElements * BlockElements)
	if capacity == 0 {
		return 0, fmt.Errorf("buffers: layout: limit BindingBytes %d, want at least %d", lim.BindingBytes, 4*BlockElements)
	}
	return capacity, nil
}

// elementCount multiplies a shape out, with every intermediate product below maxLeafElements.
func elementCount(shape []int) (int, error) {
	for _, d := range shape {
		if d < 0 {
			return 0, fmt.Errorf("shape %v: dimension %d is negative", shape, d)
		}
	}
	if slices.Contains(shape, 0) {
		return 0, nil
	}
	n := uint64(1)
	for _, d := range shape {
		high, low := bits.Mul64(n, uint64(d))
		if n = low; high != 0 || n > maxLeafElements {
			return 0, fmt.Errorf("shape %v: more than %d elements", shape, maxLeafElements)
		}
	}
	return int(n), nil
}

// place puts the n elements of a leaf into the first slabs with room for them, opening new ones at need.
func (l *Layout) place(leaf Leaf, n, capacity, align int) ([]Part, error) {
	if n == 0 {
		return nil, nil
	}
	width := leaf.rowElements()
	if width > capacity {
		return nil, fmt.Errorf("buffers: layout: leaf %q: shape %v: a row of %d elements, a slab holds %d",
			leaf.Path, leaf.Shape, width, capacity)
	}
	var parts []Part
	for row, rows := 0, n/width; row < rows; {
		take := rows - row
		if take > capacity/width {
			take = alignedRows(capacity / width)
		}
		room := (take*width + align - 1) / align * align
		slab := l.slabWithRoom(room, capacity)
		parts = append(parts, Part{Slab: slab, Offset: l.slabs[slab], Count: take * width, Row: row, Rows: take})
		l.slabs[slab] += room
		row += take
	}
	return parts, nil
}

// alignedRows rounds the rows of a part that others follow down to a multiple of 64, or of the largest power of two
// below that fits: the parts' edges then suit kernels that go through rows by tiles or four at a time.
func alignedRows(rows int) int {
	tile := 64
	for tile > rows {
		tile /= 2
	}
	return rows / tile * tile
}

func (l *Layout) slabWithRoom(room, capacity int) int {
	for s, used := range l.slabs {
		if used+room <= capacity {
			return s
		}
	}
	l.slabs = append(l.slabs, 0)
	return len(l.slabs) - 1
}

func roundUp(n int) int { return (n + BlockElements - 1) / BlockElements * BlockElements }

// Leaves lists the leaves in canonical order. The caller must not change them.
func (l *Layout) Leaves() []Leaf { return l.leaves }

// Leaf finds a leaf by its path.
func (l *Layout) Leaf(path string) (Leaf, bool) {
	i, ok := l.index[path]
	if !ok {
		return Leaf{}, false
	}
	return l.leaves[i], true
}

// Slabs gives the length of each slab in elements, padding included: multiples of BlockElements.
func (l *Layout) Slabs() []int { return l.slabs }

// Elements counts the elements of all leaves, without padding.
func (l *Layout) Elements() int { return l.elements }

// Bytes is the device memory of a tree with this layout, padding included.
func (l *Layout) Bytes(d DType) uint64 {
	var n uint64
	for i := range l.slabs {
		n += l.slabBytes(d, i)
	}
	return n
}

// Subset is the layout of some of the leaves: each stays in its slab, closer together. Slab i of a subset goes with slab i of the whole, so
// that one kernel can take both. A slab without any of them keeps one block of padding, as no binding may be empty.
func (l *Layout) Subset(keep func(Leaf) bool) *Layout {
	out := &Layout{index: map[string]int{}, slabs: make([]int, len(l.slabs))}
	for _, leaf := range l.leaves {
		if !keep(leaf) {
			continue
		}
		leaf.Index = len(out.leaves)
		leaf.Parts = slices.Clone(leaf.Parts)
		for i := range leaf.Parts {
			p := &leaf.Parts[i]
			p.Offset = out.slabs[p.Slab]
			out.slabs[p.Slab] += roundUp(p.Count)
		}
		out.index[leaf.Path] = leaf.Index
		out.leaves = append(out.leaves, leaf)
		out.elements += leaf.Elements()
	}
	for i := range out.slabs {
		out.slabs[i] = max(out.slabs[i], BlockElements)
	}
	return out
}

// Equal says whether both layouts place the same leaves at the same elements.
func (l *Layout) Equal(other *Layout) bool { return l.difference(other) == "" }

// difference describes the first leaf in which the other layout differs, "" when there is none.
func (l *Layout) difference(other *Layout) string {
	if l == other {
		return ""
	}
	for i, a := range l.leaves {
		if i >= len(other.leaves) {
			return fmt.Sprintf("leaf %q is missing", a.Path)
		}
		b := other.leaves[i]
		switch {
		case a.Path < b.Path:
			return fmt.Sprintf("leaf %q is missing", a.Path)
		case a.Path > b.Path:
			return fmt.Sprintf("leaf %q is unknown here", b.Path)
		case !slices.Equal(a.Shape, b.Shape):
			return fmt.Sprintf("leaf %q: shape %v, want %v", a.Path, b.Shape, a.Shape)
		case !slices.Equal(a.Parts, b.Parts):
			return fmt.Sprintf("leaf %q: placed at %v, want %v", a.Path, b.Parts, a.Parts)
		}
	}
	if len(other.leaves) > len(l.leaves) {
		return fmt.Sprintf("leaf %q is unknown here", other.leaves[len(l.leaves)].Path)
	}
	return ""
}

// StagingBytes is the buffer that a device keeps once it has read every leaf of a tree of this layout, a part at a time.
func (l *Layout) StagingBytes(d DType) uint64 {
	largest := uint64(0)
	for _, leaf := range l.leaves {
		for _, part := range leaf.Parts {
			largest = max(largest, wordBytes(l.SlabType(d, part.Slab), part.Count))
		}
	}
	return gpu.StagingBytes(largest)
}
