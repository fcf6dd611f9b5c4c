package optim

import (
	"fmt"
	"math"
	"slices"

	"gputrain/buffers"
	"gputrain/gpu"
)

// A factoredLeaf is a leaf seen as [outer, rows, between, cols, inner], of which rows and cols are its two largest axes: outer*between*inner
// matrices. Its statistics are two arrays in the buffer of its group: byRow, the means over cols, and byCol, the means over rows.
type factoredLeaf struct {
	buffers.Leaf
	outer, rows, between, cols, inner int
	split                             bool // rows are the first axis, by which a leaf is cut in parts
	rowsFirst                         bool // v_row is byRow: cols are the largest axis
	byRow, byCol                      int  // where they begin
	matrices                          int  // where its means begin in the group
}

// byRowSize and byColSize count the two statistics.
func (l factoredLeaf) byRowSize() int { return l.outer * l.rows * l.between * l.inner }
func (l factoredLeaf) byColSize() int { return l.outer * l.between * l.cols * l.inner }

func newFactoredLeaf(leaf buffers.Leaf) factoredLeaf {
	first, second := largestAxes(leaf.Shape)
	i, j := min(first, second), max(first, second)
	product := func(shape []int) int { return buffers.Leaf{Shape: shape}.Elements() }
	return factoredLeaf{
		Leaf: leaf, split: i == 0, rowsFirst: first == j,
		outer: product(leaf.Shape[:i]), rows: leaf.Shape[i], between: product(leaf.Shape[i+1 : j]), cols: leaf.Shape[j],
		inner: product(leaf.Shape[j+1:]),
	}
}

// vector tells whether rows are contiguous and whole vec4s.
func (l factoredLeaf) vector() bool { return l.inner == 1 && l.cols%4 == 0 }

// Tiles of up to tileRows rows are summed by an invocation each. The smaller, the more invocations, and the more partial sums by column.
const (
	minTileRows, maxTileRows = 8, 64
	vectorTile, scalarTile   = 16, 32 // columns: vec4s, numbers
	tileWords                = 12     // of a tile in its table
	foldWords                = 8      // of a block of sums in its table
)

// A factoredGroup is leaves whose statistics share a buffer.
type factoredGroup struct {
	leaves   []factoredLeaf
	size     int // numbers in the buffer, a multiple of four
	matrices []uint32
	carries  bool // a leaf's columns have parts in several slabs
	slabs    []factoredSlab
}

// A factoredSlab is a group's part of one slab: tiles of leaves with whole vec4s and of others, and the blocks of sums
// that put their partial sums together, four at once and one by one.
type factoredSlab struct {
	vector, scalar           []uint32
	vectorFolds, scalarFolds []uint32
	rowSums, colSums         int // partial sums
}

// groupLeaves deals leaves out to groups, each within a binding.
func groupLeaves(leaves []buffers.Leaf, chosen []bool, slabs int, limits gpu.Limits) ([]factoredGroup, error) {
	room := int(min(limits.BindingBytes, limits.BufferBytes) / 4)
	var groups []factoredGroup
	for i, leaf := range leaves {
		if !chosen[i] {
			continue
		}
		l := newFactoredLeaf(leaf)
		size := roundUp4(l.byRowSize()) + roundUp4(l.byColSize())
		if size > room {
			return nil, fmt.Errorf("leaf %q: %w", leaf.Path, &gpu.LimitError{
				Subject: "factored second moments", Bytes: 4 * uint64(size), Limit: 4 * uint64(room), Name: "BindingBytes",
			})
		}
		if len(groups) == 0 || groups[len(groups)-1].size+size > room {
			groups = append(groups, factoredGroup{slabs: make([]factoredSlab, slabs)})
		}
		groups[len(groups)-1].add(l)
	}
	return groups, nil
}

func roundUp4(n int) int { return (n + 3) / 4 * 4 }

func (g *factoredGroup) add(l factoredLeaf) {
	l.byRow, l.byCol = g.size, g.size+roundUp4(l.byRowSize())
	g.size = l.byCol + roundUp4(l.byColSize())
	l.matrices = len(g.matrices) / 4
	for m := range l.outer * l.between * l.inner { // the mean of either is the mean of the matrix
		a, b, d := m/(l.between*l.inner), m/l.inner%l.between, m%l.inner
		base, stride, count := l.byRow+(a*l.rows*l.between+b)*l.inner+d, l.between*l.inner, l.rows
		if !l.rowsFirst {
			base, stride, count = l.byCol+(a*l.between+b)*l.cols*l.inner+d, l.inner, l.cols
		}
		g.matrices = append(g.matrices, uint32(base), uint32(stride), uint32(count), math.Float32bits(1/float32(count)))
	}
	parts := slices.Clone(l.Parts) // each in a slab of its own: two that fit one slab would have been one
	slices.SortFunc(parts, func(a, b buffers.Part) int { return a.Slab - b.Slab })
	for k, p := range parts {
		g.slabs[p.Slab].add(l, p, !l.split || k == 0, !l.split || k == len(parts)-1)
	}
	g.carries = g.carries || l.split && len(parts) > 1
	g.leaves = append(g.leaves, l)
}

// A box is the piece of a leaf that a part of the layout has: some of outer, or some of rows.
type box struct {
	offset        int // in the slab
	outer, outers int // first and number
	row, rows     int
}

// rowEntry and colEntry are the places of an element's sums among the sums of the box.
func (b box) rowEntry(l factoredLeaf, outer, row, between, inner int) int {
	return ((outer*b.rows+row)*l.between+between)*l.inner + inner
}

func (b box) colEntry(l factoredLeaf, outer, between, col, inner int) int {
	return ((outer*l.between+between)*l.cols+col)*l.inner + inner
}

// add makes the tiles of a part of a leaf. first and last tell whether other parts have summed its columns before, and will after.
func (s *factoredSlab) add(l factoredLeaf, p buffers.Part, first, last bool) {
	b := box{offset: p.Offset, outers: l.outer, row: p.Row, rows: p.Rows}
	if !l.split {
		each := l.outer / l.Shape[0]
		b = box{offset: p.Offset, outer: p.Row * each, outers: p.Rows * each, rows: l.rows}
	}
	height := min(max((b.rows+31)/32, minTileRows), maxTileRows)
	width := scalarTile
	if l.vector() {
		width = 4 * vectorTile
	}
	across, down := (l.cols+width-1)/width, (b.rows+height-1)/height
	rowEntries, colEntries := b.outers*b.rows*l.between*l.inner, b.outers*l.between*l.cols*l.inner
	byRow, byCol := l.byRow+(b.outer*l.rows+b.row)*l.between*l.inner, l.byCol+b.outer*l.between*l.cols*l.inner
	s.tiles(l, b, height, width, byRow, byCol)
	flags := uint32(foldColumns)
	if !first {
		flags |= foldCarried
	}
	if !last {
		flags |= foldCarries
	}
	s.fold(s.rowSums, across, rowEntries, byRow, l.cols, 0)
	s.fold(s.colSums, down, colEntries, byCol, l.rows, flags)
	s.rowSums += roundUp4(across * rowEntries)
	s.colSums += roundUp4(down * colEntries)
}

// tiles lists the tiles of a box, whose statistics begin at byRow and byCol; see Tile in shared/adafactor.wgsl.
func (s *factoredSlab) tiles(l factoredLeaf, b box, height, width, byRow, byCol int) {
	unit, table := 1, &s.scalar
	if l.vector() {
		unit, table = 4, &s.vector
	}
	rowEntries, colEntries := b.outers*b.rows*l.between*l.inner, b.outers*l.between*l.cols*l.inner
	for m := range b.outers * l.between * l.inner {
		outer, between, inner := m/(l.between*l.inner), m/l.inner%l.between, m%l.inner
		for row := 0; row < b.rows; row += height {
			for col := 0; col < l.cols; col += width {
				rowEntry, colEntry := b.rowEntry(l, outer, row, between, inner), b.colEntry(l, outer, between, col, inner)
				first := b.offset + (((outer*b.rows+row)*l.between+between)*l.cols+col)*l.inner + inner
				for _, word := range [tileWords]int{
					first / unit, l.between * l.cols * l.inner / unit, min(height, b.rows-row), (min(width, l.cols-col) + unit - 1) / unit,
					s.rowSums + col/width*rowEntries + rowEntry, l.between * l.inner,
					(s.colSums + row/height*colEntries + colEntry) / unit, l.inner,
					byRow + rowEntry, (byCol + colEntry) / unit, l.matrices + b.outer*l.between*l.inner + m, 0,
				} {
					*table = append(*table, uint32(word))
				}
			}
		}
	}
}

// Flags of a block of sums; see optim_adafactor_fold.wgsl.
const (
	foldColumns = 1 // of columns, else of rows
	foldCarried = 2 // earlier slabs have carried a sum
	foldCarries = 4 // later slabs go on
)

// fold lists blocks of sums: entries of them, each of count partial sums that lie entries apart, to be means of n. Partial begins at a
// multiple of four.
func (s *factoredSlab) fold(partial, count, entries, out, n int, flags uint32) {
	unit, table := 1, &s.scalarFolds
	if entries%4 == 0 && out%4 == 0 {
		unit, table = 4, &s.vectorFolds
	}
	for at := 0; at < entries/unit; at += lanes {
		*table = append(*table, uint32(partial/unit+at), uint32(count), uint32(entries/unit), uint32(min(lanes, entries/unit-at)),
			uint32(out/unit+at), flags, math.Float32bits(1/float32(n)), 0)
	}
}
