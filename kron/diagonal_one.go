package kron

import (
	"cmp"
	"fmt"
	"slices"

	"gputrain/buffers"
	"gputrain/gpu"
)

// oneDiagonal is the matrices with one diagonal side, which may be of any length, and one dense side of at most BlockSize. Their blocks are
// treated in batches of one length and one class of the dense side, with the long side going down whichever way it goes in the leaf, and
// a batch in strips of the long side that fit the scratch. With D the dense factor and q the diagonal one a refresh is, for each batch,
//
//	the sums of squares of all strips, a dispatch for each slab
//	in updates that balance: q and D get one largest magnitude;  DᵀD
//	for each strip: x = G + N (a dispatch for each slab);  y = x DᵀD;  y <- q² y, which is P, and T of the diagonal side;
//	                the Gram matrices of slices of y;  their sums, added to the sums of the strips before
//	keys;  the bounds of the Gram matrices;  L;  two products for Quad, one and a turn for Skew;  D;  DᵀD
//
// and after the step of q an update is, for each strip, x = G, y = x DᵀD, u = q² y. The number of dispatches grows
// with the bytes and the number of shapes, not with the number of leaves.
type oneDiagonal struct {
	sides   []*oneSide
	batches []*oneBatch
	folds   []*fold // of all diagonal factors of these matrices

	lipschitz *gpu.Buffer // of the dense sides
	scratch   oneScratch
}

// oneSide is the dense side of a block: Side in shared/kron_side.wgsl.
type oneSide struct {
	leaf   buffers.Leaf
	matrix Matrix
	block  Block
	number uint32 // of the block
	factor int    // of the other side
	place  int    // of its L

	batch *oneBatch
	index int // in the batch
}

// left tells that the left side is the long one.
func (s *oneSide) left() bool { return s.matrix.Kind == diagonalLeft }

// sizes are the lengths of the long and of the dense side.
func (s *oneSide) sizes() (long, dense int) {
	if s.left() {
		return s.block.Rows, s.block.Cols
	}
	return s.block.Cols, s.block.Rows
}

// oneBatch is blocks of one length whose dense sides are of one class, and whose diagonal factors are in one bank.
type oneBatch struct {
	sides       []*oneSide
	long, width int
	bank        int
	slice       int // rows whose Gram matrix is computed on its own
	strips      []*oneStrip
	measured    []*stripShares // of all strips: sums of squares need no scratch
	patches     []patch

	table, places, patchTable *gpu.Buffer
	pairs                     *gpu.Buffer // the factors of each block: Pair in kron_diagonal_balance.wgsl
	q, p                      *gpu.Buffer // D as it is stored, and DᵀD in f32
}

// sideRow is a row of the table of dense sides: Side in shared/kron_side.wgsl.
type sideRow struct {
	block, kind, stack, leaf uint32
	s                        float32
	side, place              uint32
}

// scratchElements is the most that a strip of a batch has, or its dense factors: 16 MiB.
const scratchElements = 1 << 22

// addOne adds a leaf.
func (p *diagonalPath) addOne(plan *Plan, m Matrix, leaf buffers.Leaf) error {
	long, side := m.Rows, uint32(0)
	l := diagonalLeaf{matrix: m, block: len(p.blocks), left: len(p.factors), right: -1, sides: len(p.one.sides)}
	if m.Kind == diagonalRight {
		long, side = m.Cols, 1
		l.left, l.right = l.right, l.left
	}
	bank, err := p.room(m, m.Blocks, fours(long))
	if err != nil {
		return err
	}
	p.leaves = append(p.leaves, l)
	for _, b := range plan.BlocksOf(m) {
		s := &oneSide{leaf: leaf, matrix: m, block: b, place: len(p.one.sides)}
		_, dense := s.sizes()
		s.number = p.block(b.Rows * b.Cols)
		s.factor = p.factor(m, b.Stack, s.number, side, dense)
		p.put(bank(b.Stack), long, 0, long, func(int) factorItem { return factorItem{} })
		p.one.sides = append(p.one.sides, s)
	}
	return nil
}

// arrange makes batches and their strips. squares is the number of sums of squares that there are already.
func (o *oneDiagonal) arrange(d *diagonals, squares uint32) error {
	lim := d.Device().Limits()
	capacity := int(min(scratchElements, lim.BindingBytes/4, lim.BufferBytes/4))
	width := func(s *oneSide) int {
		_, dense := s.sizes()
		return sizeClass(dense, d.config.BlockSize)
	}
	bank := func(s *oneSide) int { return d.factors[s.factor].runs[0].bank }
	long := func(s *oneSide) int { n, _ := s.sizes(); return n }
	sorted := slices.Clone(o.sides)
	slices.SortStableFunc(sorted, func(a, b *oneSide) int {
		return cmp.Or(cmp.Compare(long(a), long(b)), cmp.Compare(width(a), width(b)), cmp.Compare(bank(a), bank(b)))
	})
	for _, s := range sorted {
		last := len(o.batches) - 1
		if last < 0 || !o.batches[last].takes(long(s), width(s), bank(s), capacity) {
			// A Gram matrix of a slice takes at most a quarter of the slice.
			slice := min(max(64, 4*width(s)), roundUp(long(s), 4), capacity/width(s)/4*4)
			if slice == 0 || width(s)*width(s) > capacity {
				return fmt.Errorf("leaf %q: %w", s.matrix.Path, &gpu.LimitError{
					Subject: "a dense factor", Bytes: 4 * uint64(width(s)*width(s)), Limit: 4 * uint64(capacity), Name: "BindingBytes",
				})
			}
			o.batches = append(o.batches, &oneBatch{long: long(s), width: width(s), bank: bank(s), slice: slice})
			last++
		}
		s.batch, s.index = o.batches[last], len(o.batches[last].sides)
		s.batch.sides = append(s.batch.sides, s)
		o.folds = foldInto(o.folds, bank(s), d.banks[bank(s)].items[d.factors[s.factor].runs[0].item:][:d.factors[s.factor].chunks])
	}
	for _, b := range o.batches {
		squares = b.cut(d, capacity, squares)
	}
	return nil
}

// takes tells whether another block goes into the batch.
func (b *oneBatch) takes(long, width, bank, capacity int) bool {
	n := len(b.sides) + 1
	return b.long == long && b.width == width && b.bank == bank && n*max(b.slice, width)*width <= capacity
}

// allocate makes the state, D as InitScale times the identity, and the scratch.
func (o *oneDiagonal) allocate(d *diagonals) {
	if len(o.sides) == 0 {
		return
	}
	o.lipschitz = d.Zeros("dense.lipschitz", 4*uint64(len(o.sides)))
	strip, slices, squares, blocks := 0, 0, 0, 0
	for i, b := range o.batches {
		name := func(what string) string { return fmt.Sprintf("batch.%d.%s", i, what) }
		var table []sideRow
		var places []uint32
		var pairs [][4]uint32
		var patches []patchRow
		square := uint32(b.width * b.width / 4)
		for k, s := range b.sides {
			f, dense := d.factors[s.factor], uint32(1)
			if !s.left() {
				dense = 0
			}
			table = append(table, sideRow{f.block, f.kind, f.stack, f.leaf, float32(b.long), dense, uint32(s.place)})
			places = append(places, uint32(f.runs[0].four))
			pairs = append(pairs, [4]uint32{uint32(f.runs[0].four), uint32(fours(b.long)), uint32(k) * square, square})
		}
		for _, p := range b.patches {
			patches = append(patches, p.patchRow)
		}
		b.table, b.places, b.patchTable = d.Filled(name("sides"), table), d.Filled(name("places"), places), d.Filled(name("patches"), patches)
		b.pairs = d.Filled(name("pairs"), pairs)
		n := len(b.sides)
		b.q = d.Filled(name("q"), b.initial(d))
		b.p = d.Filled(name("p"), b.initialSquare(d))
		for j, g := range b.measured {
			g.table = d.Filled(name(fmt.Sprintf("measured.%d", j)), g.items)
		}
		for k, s := range b.strips {
			for j, g := range s.shares {
				g.table = d.Filled(name(fmt.Sprintf("shares.%d.%d", k, j)), g.items)
			}
			strip = max(strip, n*s.rows*b.width)
			slices = max(slices, n*s.rows/b.slice*b.width*b.width)
		}
		squares, blocks = max(squares, n*b.width*max(b.width, 8)), max(blocks, n) // 32 bytes a row for the bound
	}
	o.scratch.allocate(d, strip, slices, squares, blocks)
	for i, f := range o.folds {
		f.table = d.Filled(fmt.Sprintf("folds.one.%d", i), f.items)
	}
}

// initial is D before the first update, and initialSquare DᵀD.
func (b *oneBatch) initial(d *diagonals) []byte { return b.diagonal(d.initialElement()) }

func (b *oneBatch) initialSquare(d *diagonals) []byte {
	x := d.config.nearest(d.config.InitScale)
	return b.diagonal(gpu.Bytes(float32(x * x)))
}

// diagonal is an element on the diagonals of the dense factors.
func (b *oneBatch) diagonal(element []byte) []byte {
	out := make([]byte, len(b.sides)*b.width*b.width*len(element))
	for i, s := range b.sides {
		_, dense := s.sizes()
		for k := range dense {
			copy(out[((i*b.width+k)*b.width+k)*len(element):], element)
		}
	}
	return out
}

// stack is matrices of a buffer, count of [rows, width of the batch].
func (b *oneBatch) stack(from *gpu.Buffer, count, rows int, dtype buffers.DType) Stack {
	return Stack{Range: from.All(), Count: count, Rows: rows, Cols: b.width, DType: dtype}
}
