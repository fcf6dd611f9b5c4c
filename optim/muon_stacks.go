package optim

import (
	"cmp"
	"slices"

	"gputrain/buffers"
	"gputrain/gpu"
)

// A muonChunk is matrices of one shape that are stepped together, rows not above cols: a leaf with more rows than
// columns is in it transposed. A matrix is cut into down*across tiles, each with its own stack of all count matrices:
// one tile, except for a matrix that is larger than a binding.
type muonChunk struct {
	rows, cols, count int
	down, across      int
	height, width     int           // of a tile, multiples of four; what sticks out is zero
	padded            bool          // something does
	moves             [][]muonMoves // by tile, row by row, and by slab
	leaves            []buffers.Leaf
}

// muonMoves are runs of elements of leaves (see Run in optim_muon_move.wgsl): one by one, and by blocks of 4x4.
type muonMoves [2][]uint32

const (
	moveElements = 1024     // of a run
	moveBlock    = 4        // rows and columns of a block
	moveWords    = 8        // of a run in its table
	chunkBytes   = 64 << 20 // that the stack of more than one matrix keeps within
)

// muonChunks deals the chosen leaves out to chunks, by shape and then by their order.
func muonChunks(s Scene, limits gpu.Limits, even bool) []muonChunk {
	room := int(min(limits.BindingBytes, limits.BufferBytes, 1<<33) / 4)
	var leaves []buffers.Leaf
	for i, l := range s.Leaves {
		if s.Chosen[i] && l.Elements() > 0 {
			leaves = append(leaves, l)
		}
	}
	slices.SortStableFunc(leaves, func(a, b buffers.Leaf) int {
		x, y := newMuonChunk(a, room), newMuonChunk(b, room)
		return cmp.Or(x.rows-y.rows, x.cols-y.cols)
	})
	var chunks []muonChunk
	for _, l := range leaves {
		c := newMuonChunk(l, room)
		most := max(1, min(room, chunkBytes/4)/(c.rows*c.cols))
		if n := len(chunks) - 1; n < 0 || chunks[n].rows != c.rows || chunks[n].cols != c.cols || chunks[n].count == most {
			for range c.down * c.across {
				c.moves = append(c.moves, make([]muonMoves, len(s.Layout.Slabs())))
			}
			chunks = append(chunks, c)
		}
		chunks[len(chunks)-1].add(l, l.Shape[0] > l.Shape[1] || even && longRows(l))
	}
	return chunks
}

// newMuonChunk is the shape of a chunk for a leaf; room is the room of a binding.
func newMuonChunk(l buffers.Leaf, room int) muonChunk {
	a, b := roundUp4(l.Shape[0]), roundUp4(l.Shape[1])
	c := muonChunk{rows: min(a, b), cols: max(a, b), down: 1, across: 1}
	c.height, c.width = c.rows, c.cols
	if c.rows*c.cols <= room {
		return c
	}
	side := 4 // the largest square that fits
	for (side+4)*(side+4) <= room {
		side += 4
	}
	c.down = (c.rows + side - 1) / side
	c.height = roundUp4((c.rows + c.down - 1) / c.down)
	widest := room / c.height / 4 * 4
	c.across = (c.cols + widest - 1) / widest
	c.width = roundUp4((c.cols + c.across - 1) / c.across)
	return c
}

// add makes a leaf the next matrix.
func (c *muonChunk) add(l buffers.Leaf, transposed bool) {
	rows, cols := l.Shape[0], l.Shape[1]
	c.padded = c.padded || rows*cols != c.down*c.across*c.height*c.width
	for tile, slabs := range c.moves {
		top, left := tile/c.across*c.height, tile%c.across*c.width
		high, wide, down, across := c.height, c.width, c.width, 1
		if transposed { // element (i, j) of the tile's part of the leaf is at down*i + across*j
			top, left, high, wide, down, across = left, top, wide, high, 1, c.width
		}
		high, wide = min(high, rows-top), min(wide, cols-left)
		for _, p := range l.Parts {
			move := func(table *[]uint32, row, end, block int) {
				corner, base := p.Offset+(row-p.Row)*cols+left, c.count*c.height*c.width+(row-top)*down
				n, each := (end-row)*wide/(block*block), moveElements/(block*block)
				for at := 0; at < n; at += each {
					for _, word := range [moveWords]int{corner / block, cols / block, wide / block, at, min(each, n-at), base / block, down, across} {
						*table = append(*table, uint32(word))
					}
				}
			}
			from, to := max(top, p.Row), min(top+high, p.Row+p.Rows)
			first, last := from, from // rows of whole blocks
			if cols%moveBlock == 0 {
				first = min(roundUp4(from), to)
				last = max(first, to/moveBlock*moveBlock)
			}
			moves := &slabs[p.Slab]
			move(&moves[0], from, first, 1)
			move(&moves[1], first, last, moveBlock)
			move(&moves[0], last, to, 1)
		}
	}
	c.leaves = append(c.leaves, l)
	c.count++
}

// small tells whether steps are taken on A alone, as recordSmall does: where that saves a fifth of the multiply-adds; rows are one tile.
func (c muonChunk) small(steps int) bool {
	alone, each := c.cubes(steps)
	return c.down == 1 && 1.2*alone <= each
}

// cubes are the multiply-adds of a matrix, by the cube of its rows: with steps on A alone, and with X in each. Products that are symmetric count
// half.
func (c muonChunk) cubes(steps int) (alone, each float64) {
	long, k := float64(c.cols)/float64(c.rows), float64(steps)
	return 1.5*long + 2*k - 1.5, k * (1.5*long + 0.5)
}

// work counts the multiply-adds of a matrix.
func (c muonChunk) work(steps int) float64 {
	alone, each := c.cubes(steps)
	cube := float64(c.rows) * float64(c.rows) * float64(c.rows)
	if c.small(steps) {
		return alone * cube
	}
	return each * cube
}

// tile is the place of tile (i, j) among the moves; triangle is the place of block (i, j), i not above j, of a
// symmetric matrix of tiles.
func (c muonChunk) tile(i, j int) int     { return i*c.across + j }
func (c muonChunk) triangle(i, j int) int { return j*(j+1)/2 + i }

// stackSize, gramSize and groups are numbers of elements, and the workgroups that a product of all elements of a tile takes.
func (c muonChunk) stackSize() int { return c.count * c.height * c.width }
func (c muonChunk) gramSize() int  { return c.count * c.height * c.height }
func (c muonChunk) groups() int {
	const each = 4 * lanes * dotSteps
	return (c.height*c.width + each - 1) / each
}

const dotSteps = 32 // vec4s that an invocation multiplies
