package kron

import (
	"fmt"
	"math"

	"gputrain/gpu"
)

// A chunk is the dense blocks that are treated together: their matrices G lie in one buffer of stacks, their factors, the sides, in
// another. Blocks of one class are a group, a stack; their left factors are a run of one stack of sides and their right ones of
// another, or the same. So what concerns the blocks is done once a class, what concerns factors once a size of sides.
type chunk struct {
	spots  []spot // blocks by number
	groups []group
	stacks []sideStack
	// Elements of all groups and of all stacks of sides, and the numbers of sides, fillers included.
	blockElements, sideElements, sides int
}

// A group is the blocks [first, first+count) of a chunk, of one class.
type group struct {
	height, width int
	first, count  int
	at            int // elements before it
	left, right   run
}

// side are the left sides of the blocks, or the right ones.
func (g group) side(right bool) run {
	if right {
		return g.right
	}
	return g.left
}

// A run is one side of all blocks of a group: sides from number `number` on, elements from at.
type run struct{ size, number, at int }

// A sideStack is all sides of one size, in runs, with fillers between them, factors of zeros: a run begins where it can be bound.
type sideStack struct {
	size          int
	number, count int
	at            int
}

// A spotEntry is Spot of shaders/shared/kron_spot.wgsl; numbers of elements are in quads.
type spotEntry struct {
	Stack, Rows, Cols  uint32
	At, Quads          uint32
	LeftAt, LeftQuads  uint32
	RightAt, RightQuad uint32
	Left, Right        uint32
	Unused             uint32
}

// A sideEntry is what kernels know of a side: the number of its block, 0 for left or 1 for right, the global index of the block and the
// bits of s. Fillers have no block.
type sideEntry struct{ Spot, Side, Stack, S uint32 }

const noSpot = math.MaxUint32

// newChunk lays out blocks that are ordered by class. align is the alignment of bindings in bytes.
func newChunk(blocks []Block, blockSize, align int) chunk {
	c := chunk{spots: make([]spot, 0, len(blocks))}
	for _, b := range blocks {
		height, width := sizeClass(b.Rows, blockSize), sizeClass(b.Cols, blockSize)
		last := len(c.groups) - 1
		if last < 0 || c.groups[last].height != height || c.groups[last].width != width {
			c.blockElements = roundUp(c.blockElements, align/4)
			c.groups = append(c.groups, group{height: height, width: width, first: len(c.spots), at: c.blockElements})
			last++
		}
		c.spots = append(c.spots, spot{block: b, height: height, width: width, at: c.blockElements})
		c.groups[last].count++
		c.blockElements += height * width
	}
	for size := 4; size <= roundUp(blockSize, 4); size += 4 {
		c.placeSides(size, align)
	}
	return c
}

// placeSides appends the stack of the sides of one size.
func (c *chunk) placeSides(size, align int) {
	// A run may be bound in bf16, and arrays with a word a side from the stack's first one on.
	unit := align / 2
	step := unit / gcd(unit, size*size)
	s := sideStack{size: size, number: roundUp(c.sides, align/4), at: roundUp(c.sideElements, unit)}
	place := func(count int) run {
		s.count = roundUp(s.count, step)
		r := run{size: size, number: s.number + s.count, at: s.at + s.count*size*size}
		s.count += count
		return r
	}
	for i := range c.groups {
		if g := &c.groups[i]; g.height == size {
			g.left = place(g.count)
		}
	}
	for i := range c.groups {
		if g := &c.groups[i]; g.width == size {
			g.right = place(g.count)
		}
	}
	if s.count == 0 {
		return
	}
	c.stacks = append(c.stacks, s)
	c.sides, c.sideElements = s.number+s.count, s.at+s.count*size*size
}

func gcd(a, b int) int {
	for b > 0 {
		a, b = b, a%b
	}
	return a
}

// A chunk has chunkElements of G or of the factors at most, where blocks are not larger, or the share of one of mostChunks: 2^22 elements are 128 pairs
// of factors of blocks of 128. Scratch is a few times that; smaller stacks would not fill a large GPU, and each chunk takes some 15 dispatches.
var chunkElements, mostChunks = 1 << 22, 32 // variables for tests

// newChunks cuts blocks, ordered by class, into chunks that can be bound. Errors: a block whose factors cannot.
func newChunks(blocks []Block, blockSize int, lim gpu.Limits) ([]chunk, error) {
	align := int(lim.StorageAlign)
	share := 0
	for _, b := range blocks {
		height, width := sizeClass(b.Rows, blockSize), sizeClass(b.Cols, blockSize)
		share += max(height*width, height*height+width*width)
	}
	most := min(max(chunkElements, share/mostChunks), int(min(lim.BindingBytes, lim.BufferBytes)/4))
	var out []chunk
	for len(blocks) > 0 {
		// The size grows with the number of blocks: double the step, then halve it. So a chunk costs the work of a few, however many blocks there are.
		fits := func(n int) bool {
			c := newChunk(blocks[:n], blockSize, align)
			return max(c.blockElements, c.sideElements) <= most
		}
		n, step := 0, 1
		for ; n+step <= len(blocks) && fits(n+step); step *= 2 {
			n += step
		}
		for ; step > 0; step /= 2 {
			if n+step <= len(blocks) && fits(n+step) {
				n += step
			}
		}
		if n == 0 {
			b := blocks[0]
			return nil, fmt.Errorf("block of %d by %d: its factors take %d bytes, a binding has %d", b.Rows, b.Cols,
				4*newChunk(blocks[:1], blockSize, align).sideElements, 4*most)
		}
		out = append(out, newChunk(blocks[:n], blockSize, align))
		blocks = blocks[n:]
	}
	return out, nil
}

// eachSide calls f with every side of a block: 0 for left or 1 for right, its number, its size and elements before it, and how much of
// it is valid.
func (c *chunk) eachSide(f func(spot, side int, r run, valid int)) {
	for _, g := range c.groups {
		for i := range g.count {
			b := c.spots[g.first+i].block
			f(g.first+i, 0, run{g.left.size, g.left.number + i, g.left.at + i*g.left.size*g.left.size}, b.Rows)
			f(g.first+i, 1, run{g.right.size, g.right.number + i, g.right.at + i*g.right.size*g.right.size}, b.Cols)
		}
	}
}

// spotTable and sideTable are what kernels look up.
func (c *chunk) spotTable() []spotEntry {
	entries := make([]spotEntry, len(c.spots))
	for i, s := range c.spots {
		entries[i] = spotEntry{
			Stack: uint32(s.block.Stack), Rows: uint32(s.block.Rows), Cols: uint32(s.block.Cols),
			At: uint32(s.at / 4), Quads: uint32(s.height * s.width / 4),
		}
	}
	c.eachSide(func(spot, side int, r run, _ int) {
		e := &entries[spot]
		if side == 0 {
			e.Left, e.LeftAt, e.LeftQuads = uint32(r.number), uint32(r.at/4), uint32(r.size*r.size/4)
		} else {
			e.Right, e.RightAt, e.RightQuad = uint32(r.number), uint32(r.at/4), uint32(r.size*r.size/4)
		}
	})
	return entries
}

func (c *chunk) sideTable() []sideEntry {
	entries := make([]sideEntry, c.sides)
	for i := range entries {
		entries[i] = sideEntry{Spot: noSpot, S: math.Float32bits(1)}
	}
	c.eachSide(func(spot, side int, r run, _ int) {
		b := c.spots[spot].block
		s := float32(b.Cols) // mn/m
		if side == 1 {
			s = float32(b.Rows)
		}
		entries[r.number] = sideEntry{Spot: uint32(spot), Side: uint32(side), Stack: uint32(b.Stack), S: math.Float32bits(s)}
	})
	return entries
}
