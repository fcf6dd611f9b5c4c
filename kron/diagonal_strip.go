package kron

import (
	"slices"

	"gputrain/gpu"
)

// oneStrip is rows [first, first+longs) of the long sides of a batch's blocks, with padding a whole number of slices.
type oneStrip struct {
	first, longs, rows int
	shares             []*stripShares
}

// patch is what of a strip of a block lies in one slab.
type patch struct {
	first int // of the long side
	patchRow
}

// patchRow is a row of the table of patches: Patch in shared/kron_strip.wgsl.
type patchRow struct {
	place, long, dense, longs, rows, begin, end, fill, at, width uint32
	draw, drawLong, drawDense, block, kind, stack, leaf, q       uint32
}

// stripShares is the workgroups of a strip for one slab: Share in shared/kron_strip.wgsl. Two patches of a block may have elements of the
// same four, where a slab holds fewer than four rows; they are in different slabs then, as what is left of a slab has no room for the
// next part.
type stripShares struct {
	slab    int
	aligned bool // fours of the patches are fours of the slab too
	items   [][3]uint32
	table   *gpu.Buffer
}

const shareFours = 1024 // as in shared/kron_strip.wgsl

// cut makes the strips of a batch, each of as many slices as the scratch has room for, and numbers the sums of squares
// of their shares: the sums of a block follow each other.
func (b *oneBatch) cut(d *diagonals, capacity int, squares uint32) uint32 {
	each := max(1, capacity/(len(b.sides)*b.width*b.slice)) * b.slice
	for first := 0; first < b.long; first += each {
		longs := min(each, b.long-first)
		b.strips = append(b.strips, &oneStrip{first: first, longs: longs, rows: roundUp(longs, b.slice)})
	}
	for i, s := range b.sides {
		block := &d.blocks[s.number]
		block.squares = squares
		pieces := piecesOf(s.leaf, s.matrix, s.block)
		for _, strip := range b.strips {
			for k, p := range pieces {
				var q patch
				if s.left() {
					q = s.across(p, strip, b.width)
				} else {
					q = s.along(p, strip, k == len(pieces)-1, b.width)
				}
				if q.rows == 0 {
					continue
				}
				q.at += uint32(i * strip.rows * b.width / 4)
				squares = strip.share(p.Slab, uint32(len(b.patches)), q, squares)
				b.patches = append(b.patches, s.named(d, q))
			}
		}
		block.sums = squares - block.squares
	}
	for _, strip := range b.strips {
		for _, g := range strip.shares {
			whole := sharesOf(&b.measured, g.slab, g.aligned)
			whole.items = append(whole.items, g.items...)
		}
	}
	return squares
}

// across is what of a piece is in a strip where rows are counted by the long side. What has the last valid row has the padding too.
func (s *oneSide) across(p piece, strip *oneStrip, width int) patch {
	from, to := max(p.Row, strip.first), min(p.Row+p.Rows, strip.first+strip.longs)
	if from >= to {
		return patch{}
	}
	end := to
	if to == strip.first+strip.longs {
		end = strip.first + strip.rows
	}
	cols := s.matrix.Cols
	return patch{first: from, patchRow: patchRow{
		place: uint32(p.At + (from-p.Row)*cols), long: uint32(cols), dense: 1,
		longs: uint32(to - from), rows: uint32(end - from), end: uint32(s.block.Cols), fill: uint32(width),
		at: uint32((from - strip.first) * width / 4), width: uint32(width / 4),
	}}
}

// along is the same where columns are counted by the long side: the last piece has the padding of the dense side.
func (s *oneSide) along(p piece, strip *oneStrip, last bool, width int) patch {
	end := p.Row + p.Rows
	fill := end
	if last {
		fill = width
	}
	return patch{first: strip.first, patchRow: patchRow{
		// Of element 0 of the dense side, which may lie in another slab: the sum in the shader wraps as this does.
		place: uint32(p.At + strip.first - p.Row*s.matrix.Cols), long: 1, dense: uint32(s.matrix.Cols),
		longs: uint32(strip.longs), rows: uint32(strip.rows), begin: uint32(p.Row), end: uint32(end), fill: uint32(fill),
		width: uint32(width / 4),
	}}
}

// named adds what a patch says of its block.
func (s *oneSide) named(d *diagonals, p patch) patch {
	f := d.factors[s.factor]
	p.drawLong, p.drawDense = 1, uint32(s.block.Cols)
	if s.left() {
		p.drawLong, p.drawDense = uint32(d.config.BlockSize), 1
	}
	p.draw = uint32(p.first) * p.drawLong
	p.block, p.kind, p.stack, p.leaf = f.block, f.kind, f.stack, f.leaf
	p.q = uint32(4*f.runs[0].four + p.first)
	return p
}

// share adds the workgroups of a patch.
func (s *oneStrip) share(slab int, number uint32, p patch, squares uint32) uint32 {
	aligned := p.dense == 1 && p.place%4 == 0 && p.long%4 == 0 && p.end%4 == 0
	g := sharesOf(&s.shares, slab, aligned)
	across := (p.fill+3)/4 - p.begin/4
	for first := uint32(0); first < across*p.rows; first += shareFours {
		g.items = append(g.items, [3]uint32{number, first, squares})
		squares++
	}
	return squares
}

// sharesOf is the workgroups for a slab, which it adds if there are none yet.
func sharesOf(all *[]*stripShares, slab int, aligned bool) *stripShares {
	i := slices.IndexFunc(*all, func(g *stripShares) bool { return g.slab == slab && g.aligned == aligned })
	if i < 0 {
		i = len(*all)
		*all = append(*all, &stripShares{slab: slab, aligned: aligned})
	}
	return (*all)[i]
}
