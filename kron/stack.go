package kron

import (
	"cmp"
	"fmt"
	"slices"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/shaders"
)

// sizeClass is the side that a side of n valid elements is stored with: quarters of octaves in multiples of four, which pad a side by
// less than a fifth (and three elements), but never above a full block. A model has few of them, whatever its leaves.
func sizeClass(n, blockSize int) int {
	step := 4
	for 8*step < n {
		step *= 2
	}
	return min(roundUp(n, step), roundUp(blockSize, 4))
}

func roundUp(n, step int) int { return (n + step - 1) / step * step }

// A piece is rows [Row, Row+Rows) of a block, as they lie in one slab: row r begins at element At + (r-Row)*stride, where the stride
// is Cols of the block's matrix.
type piece struct{ Slab, At, Row, Rows int }

// piecesOf finds a block in the slabs of a tree. Parts are whole rows of the leaf's first axis and so whole rows of its matrix.
func piecesOf(leaf buffers.Leaf, m Matrix, b Block) []piece {
	var out []piece
	first := b.Batch*m.Rows + b.Row // among the rows of all matrices of the leaf
	begin := 0                      // of the part, likewise
	for _, p := range leaf.Parts {
		rows := p.Count / m.Cols
		from, to := max(first, begin), min(first+b.Rows, begin+rows)
		if from < to {
			out = append(out, piece{Slab: p.Slab, At: p.Offset + (from-begin)*m.Cols + b.Col, Row: from - first, Rows: to - from})
		}
		begin += rows
	}
	return out
}

// A spot is a block and its place in a buffer of stacks: a matrix of class sides [height, width], zero outside of the block.
type spot struct {
	block         Block
	height, width int
	at            int // elements before it
}

// A tile is what a workgroup of the gather, the scatter and the noise handles: whole rows of one block in one slab, and the rows of
// padding below. Twelve words in a table, as in shaders/shared/kron_tile.wgsl.
type tile struct {
	Source, Stride uint32 // element of the slab where the first row begins; elements from row to row
	Rows, Cols     uint32 // valid
	At             uint32 // quad of the stacks where it begins
	Width, Quads   uint32 // of a row, and in all
	Spot           uint32 // number of the block
	Row            uint32 // of the block, of the first one
	Unused         [3]uint32
}

const tileQuads = 1024 // of a tile, where a row is not longer

// A slabTiles is tiles of one slab: entries [first, first+count) of the table. Those whose rows are whole vec4 of the slab go apart.
type slabTiles struct {
	slab, first, count int
	vector             bool
}

// isVector tells whether every row begins at a vec4 of the slab and ends with one.
func (t tile) isVector() bool { return t.Source%4 == 0 && t.Stride%4 == 0 && t.Cols%4 == 0 }

// A transport carries blocks between the slabs of trees of one layout and a buffer of stacks, whatever the blocks' classes: one
// dispatch a slab, two where not all rows are whole vec4. Its table is on the device.
type transport struct {
	device *gpu.Device
	table  *gpu.Buffer
	slabs  []slabTiles // in order of their slabs
	tiles  int
}

// newTransport lays out the tiles of spots whose leaves are in the layout.
func newTransport(set *gpu.Set, layout *buffers.Layout, plan *Plan, spots []spot) (*transport, error) {
	bySlab := map[int][]tile{}
	for i, s := range spots {
		m := plan.Leaves[s.block.Leaf]
		leaf, ok := layout.Leaf(m.Path)
		if !ok {
			return nil, fmt.Errorf("leaf %q: not in the layout", m.Path)
		}
		pieces := piecesOf(leaf, m, s.block)
		for k, p := range pieces {
			end := p.Row + p.Rows
			if k == len(pieces)-1 {
				end = s.height // the padding below comes with the last rows
			}
			bySlab[p.Slab] = append(bySlab[p.Slab], tilesOf(i, s, p, m.Cols, end)...)
		}
	}
	t := &transport{device: set.Device()}
	var table []tile
	for slab := range layout.Slabs() {
		for _, vector := range []bool{true, false} {
			if len(bySlab[slab]) == 0 {
				continue
			}
			tiles := slices.DeleteFunc(slices.Clone(bySlab[slab]), func(t tile) bool { return t.isVector() != vector })
			if len(tiles) == 0 {
				continue
			}
			t.slabs = append(t.slabs, slabTiles{slab: slab, first: t.tiles, count: len(tiles), vector: vector})
			t.tiles += len(tiles)
			table = append(table, tiles...)
		}
	}
	t.table = set.Filled("tiles", table)
	return t, set.Err()
}

// tilesOf cuts a piece, with the rows of padding up to end, into tiles.
func tilesOf(number int, s spot, p piece, stride, end int) []tile {
	var out []tile
	width := s.width / 4
	for row := p.Row; row < end; {
		rows := min(end-row, max(1, tileQuads/width))
		out = append(out, tile{
			Source: uint32(p.At + (row-p.Row)*stride), Stride: uint32(stride),
			Rows: uint32(max(0, min(rows, p.Row+p.Rows-row))), Cols: uint32(s.block.Cols),
			At: uint32(s.at/4 + row*width), Width: uint32(width), Quads: uint32(rows * width),
			Spot: uint32(number), Row: uint32(row),
		})
		row += rows
	}
	return out
}

// gather copies the blocks out of a tree into the stacks, and zeros around them; scatter copies them back.
func (t *transport) gather(rec *gpu.Recording, stacks gpu.Range, tree *buffers.Tree) {
	t.carry(rec, stacks, tree, false)
}

func (t *transport) scatter(rec *gpu.Recording, tree *buffers.Tree, stacks gpu.Range) {
	t.carry(rec, stacks, tree, true)
}

func (t *transport) carry(rec *gpu.Recording, stacks gpu.Range, tree *buffers.Tree, back bool) {
	suffix := map[bool]string{false: "_gather", true: "_scatter"}[back]
	for _, s := range t.slabs {
		element := "f32"
		if s.vector {
			element = "vec4<f32>"
		}
		k := kernelOf("carry", suffix, shaders.Variant{Flags: map[string]bool{"SCATTER": back, "VECTOR": s.vector}, Constants: map[string]string{"ELEMENT": element}})
		rec.Dispatch(k, gpu.Linear(uint64(s.count), 1, t.device.Limits()), struct{ First, Count uint32 }{uint32(s.first), uint32(s.count)},
			t.table.All(), tree.Slab(s.slab), stacks)
	}
}

// byClass orders blocks so that blocks of one class are neighbours, and within a class by their place in the plan.
func byClass(blocks []Block, blockSize int) []Block {
	blocks = slices.Clone(blocks)
	slices.SortStableFunc(blocks, func(a, b Block) int {
		return cmp.Or(cmp.Compare(sizeClass(a.Rows, blockSize), sizeClass(b.Rows, blockSize)),
			cmp.Compare(sizeClass(a.Cols, blockSize), sizeClass(b.Cols, blockSize)))
	})
	return blocks
}
