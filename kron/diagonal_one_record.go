package kron

import (
	"gputrain/buffers"
	"gputrain/gpu"
)

// oneScratch is what batches use one after the other.
type oneScratch struct {
	x, y, slices               *gpu.Buffer // strips, and the Gram matrices of their slices
	gram, first, next, r, rq   *gpu.Buffer // as large as the dense factors of a batch
	bounds, coefficients, keep *gpu.Buffer // for each block an f32, two, a u32
	boundKeys, turnKeys, turns *gpu.Buffer // for each block two u32, two, four f32
}

func (s *oneScratch) allocate(d *diagonals, strip, slices, square, blocks int) {
	n, q := uint64(blocks), 4*uint64(square)
	s.x, s.y, s.slices = d.Zeros("x", 4*uint64(strip)), d.Zeros("y", 4*uint64(strip)), d.Zeros("slices", 4*uint64(slices))
	s.gram, s.first, s.next = d.Zeros("gram", q), d.Zeros("first", q), d.Zeros("next", q)
	s.bounds, s.coefficients, s.keep, s.boundKeys = d.Zeros("bounds", 4*n), d.Zeros("coefficients", 8*n), d.Zeros("keep", 4*n), d.Zeros("keys", 8*n)
	s.rq = d.Zeros("rq", q) // which Quad uses for large bounds only
	if d.config.Method == Skew {
		s.r, s.turnKeys, s.turns = d.Zeros("r", q), d.Zeros("turn_keys", 8*n), d.Zeros("turns", 16*n)
	}
}

// eachShares records a kernel for all workgroups of a list; flags get ALIGNED.
func eachShares(d *diagonals, rec *gpu.Recording, all []*stripShares, name string, flags map[string]bool, bind func(g *stripShares) []gpu.Range) {
	for _, g := range all {
		flags["ALIGNED"] = g.aligned
		d.dispatch(rec, name, flags, d.groups(len(g.items)), uint32(len(g.items)), bind(g)...)
	}
}

// balance records what updates that balance begin with.
func (o *oneDiagonal) balance(d *diagonals, rec *gpu.Recording, c call) {
	for _, b := range o.batches {
		n := len(b.sides)
		d.dispatch(rec, "diagonal_balance", map[string]bool{"BF16": d.bf16(), "DENSE": true}, d.groups(n), uint32(n),
			c.scalars, b.pairs.All(), c.flag, d.banks[b.bank].q.All(), b.q.All())
		square := b.square(d)
		square.update, square.balancing = c.scalars, true
		square.Record(rec, d.Device())
	}
}

// measure records the sums of squares of the gradients, all strips of a batch in one dispatch for each slab.
func (o *oneDiagonal) measure(d *diagonals, rec *gpu.Recording, c call) {
	for _, b := range o.batches {
		eachShares(d, rec, b.measured, "diagonal_strip_squares", map[string]bool{}, func(g *stripShares) []gpu.Range {
			return []gpu.Range{g.table.All(), b.patchTable.All(), c.updates.Slab(g.slab), d.squares.All()}
		})
	}
}

// load records x, with noise or without, and y = x DᵀD.
func (o *oneDiagonal) load(d *diagonals, rec *gpu.Recording, c call, b *oneBatch, s *oneStrip, noise bool) {
	flags := map[string]bool{"NOISE": noise && d.noise()}
	if flags["NOISE"] {
		flags["BF16"], flags["INDEPENDENT"] = d.bf16(), d.config.Rules.IndependentNoise
	}
	eachShares(d, rec, s.shares, "diagonal_gather", flags, func(g *stripShares) []gpu.Range {
		return []gpu.Range{c.scalars, g.table.All(), b.patchTable.All(), c.updates.Slab(g.slab), d.amplitude.All(), o.scratch.x.All()}
	})
	n := len(b.sides)
	Product{
		A: b.stack(o.scratch.x, n, s.rows, buffers.F32), B: b.stack(b.p, n, b.width, buffers.F32),
		C: b.stack(o.scratch.y, n, s.rows, buffers.F32), Alpha: 1,
	}.Record(rec, d.Device())
}

// follow records T of the diagonal sides and its maxima, and the step of the dense ones.
func (o *oneDiagonal) follow(d *diagonals, rec *gpu.Recording, c call) {
	for _, b := range o.batches {
		for i, s := range b.strips {
			o.load(d, rec, c, b, s, true)
			o.gather(d, rec, b, s, i > 0)
		}
		o.refresh(d, rec, c, b)
	}
	for _, f := range o.folds {
		d.fold(rec, f)
	}
}

// gather records what follows from y: P, T of the diagonal sides, the Gram matrices of the dense ones.
func (o *oneDiagonal) gather(d *diagonals, rec *gpu.Recording, b *oneBatch, s *oneStrip, add bool) {
	n, bank := len(b.sides), d.banks[b.bank]
	params := struct{ Blocks, Rows, Longs, First, Width uint32 }{uint32(n), uint32(s.rows), uint32(s.longs), uint32(s.first), uint32(b.width / 4)}
	d.dispatch(rec, "diagonal_scale", map[string]bool{"BF16": d.bf16()}, d.each(n*s.rows), params,
		b.places.All(), bank.q.All(), o.scratch.y.All(), bank.t.All())
	slices := s.rows / b.slice
	y := b.stack(o.scratch.y, n*slices, b.slice, buffers.F32)
	Product{A: y, B: y, C: b.stack(o.scratch.slices, n*slices, b.width, buffers.F32), TransA: true, Symmetric: true, Alpha: 1}.Record(rec, d.Device())
	fours, added := b.width*b.width/4, uint32(0)
	if add {
		added = 1
	}
	d.dispatch(rec, "diagonal_gram", nil, d.each(n*fours), struct{ Blocks, Slices, Fours, Add uint32 }{uint32(n), uint32(slices), uint32(fours), added},
		o.scratch.slices.All(), o.scratch.gram.All())
}

// refresh records the step of the dense factors of a batch, after their Gram matrices.
func (o *oneDiagonal) refresh(d *diagonals, rec *gpu.Recording, c call, b *oneBatch) {
	n, z := len(b.sides), o.scratch
	square := func(from *gpu.Buffer) Stack { return b.stack(from, n, b.width, buffers.F32) }
	skew := d.config.Method == Skew
	flags := map[string]bool{"SPLIT": skew, "BF16": d.bf16(), "INDEPENDENT": d.config.Rules.IndependentNoise}
	bind := []gpu.Range{c.scalars, b.table.All(), z.boundKeys.All()}
	if skew {
		bind = append(bind, z.turnKeys.All())
	}
	d.dispatch(rec, "diagonal_keys", flags, d.each(n), uint32(n), bind...)
	gram := square(z.gram)
	bounding{t: gram, keys: z.boundKeys.All(), bounds: z.bounds.All(), spare: z.rq.All()}.record(rec, d.Device(), d.config)
	params := struct {
		Count uint32
		Share float32
	}{uint32(n), float32(d.share(true))}
	d.dispatch(rec, "diagonal_side", nil, d.each(n), params,
		c.scalars, b.table.All(), z.bounds.All(), d.amplitude.All(), c.flag, o.lipschitz.All(), z.coefficients.All(), z.keep.All())
	old, first, next := b.stack(b.q, n, b.width, d.config.DType), square(z.first), square(z.next)
	coefficients := z.coefficients.Range(0, 8*uint64(n))
	Product{A: gram, B: old, C: first, D: &old, Coefficients: coefficients}.Record(rec, d.Device())
	if skew {
		procrustes{
			q: first, out: next, r: square(z.r), rr: square(z.rq), turns: z.turns.All(), coefficients: z.coefficients.All(), keys: z.turnKeys.All(),
		}.record(rec, d.Device(), d.config)
	} else {
		Product{A: first, B: gram, C: next, D: &first, Coefficients: coefficients, Symmetric: true}.Record(rec, d.Device())
	}
	flags = map[string]bool{"BF16": d.bf16(), "DITHER": d.dithers()}
	if d.dithers() {
		flags["INDEPENDENT"], flags["SYMMETRIC"] = d.config.Rules.IndependentNoise, !skew
	}
	d.dispatch(rec, "diagonal_store", flags, d.each(n*b.width*b.width/4), struct{ Count, Width uint32 }{uint32(n), uint32(b.width / 4)},
		c.scalars, b.table.All(), z.keep.All(), z.next.All(), b.q.All())
	b.square(d).Record(rec, d.Device())
}

// square is DᵀD.
func (b *oneBatch) square(d *diagonals) Product {
	n := len(b.sides)
	q := b.stack(b.q, n, b.width, d.config.DType)
	return Product{A: q, B: q, C: b.stack(b.p, n, b.width, buffers.F32), TransA: true, Symmetric: true, Alpha: 1}
}

// apply records the updates.
func (o *oneDiagonal) apply(d *diagonals, rec *gpu.Recording, c call) {
	for _, b := range o.batches {
		for _, s := range b.strips {
			o.load(d, rec, c, b, s, false)
			eachShares(d, rec, s.shares, "diagonal_scatter", map[string]bool{"BF16": d.bf16()}, func(g *stripShares) []gpu.Range {
				return []gpu.Range{g.table.All(), b.patchTable.All(), d.banks[b.bank].q.All(), o.scratch.y.All(), c.updates.Slab(g.slab)}
			})
		}
	}
}
