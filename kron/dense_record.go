package kron

import (
	"strconv"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/shaders"
)

func (d *dense) record(rec *gpu.Recording, c call) {
	for _, ch := range d.chunks {
		rec.Group("kron.gather")
		ch.carrier.gather(rec, d.gradient.All(), c.updates)
		if c.refresh {
			d.refresh(rec, c, ch)
		} else if d.squaresAnew() {
			d.square(rec, ch)
		}
		if !c.apply {
			continue
		}
		rec.Group("kron.apply")
		for _, g := range ch.groups {
			d.apply(rec, ch, g, d.gradient)
		}
		rec.Group("kron.scatter")
		ch.carrier.scatter(rec, c.updates, d.work.All())
	}
}

// refresh records an update of the factors and of the values derived from them.
func (d *dense) refresh(rec *gpu.Recording, c call, ch *denseChunk) {
	rec.Group("kron.begin")
	d.begin(rec, c, ch)
	if d.squaresAnew() { // after balancing, which rounds again. Without rounding QlᵀQl and QrᵀQr change by factors that cancel in P.
		d.square(rec, ch)
	}
	rec.Group("kron.noise")
	noisy := d.noise(rec, c, ch)
	for _, g := range ch.groups {
		rec.Group("kron.apply")
		d.apply(rec, ch, g, noisy)
		rec.Group("kron.gram")
		p := d.blocks(d.work, g)
		for _, gram := range []Product{
			{A: p, B: p, TransB: true, C: d.runs(d.gram, g.left, g.count)},
			{A: p, B: p, TransA: true, C: d.runs(d.gram, g.right, g.count)},
		} {
			gram.Symmetric, gram.Alpha = true, 1
			gram.Record(rec, d.Device())
		}
	}
	for _, s := range ch.stacks {
		d.move(rec, c, ch, s)
	}
	d.square(rec, ch)
}

// begin decides which blocks keep their state, and balances.
func (d *dense) begin(rec *gpu.Recording, c call, ch *denseChunk) {
	rules := d.plan.Config.Rules
	lanes := 64
	if d.Device().Limits().Software {
		lanes = 8 // one vector, for which a barrier is nearly free
	}
	element, load, store := "vec4<f32>", "", ""
	if d.dtype == buffers.BF16 {
		element, load, store = "vec2<u32>", "bf16_unpack4", "bf16_pack4"
	}
	k := kernelOf("begin", "", shaders.Variant{
		Flags:     map[string]bool{"RMS": rules.RelativeDamping},
		Constants: map[string]string{"LANES": strconv.Itoa(lanes), "Q_TYPE": element, "Q_LOAD": load, "Q_STORE": store},
	})
	bind := []gpu.Range{c.scalars, ch.spotTable.All(), c.flag, ch.q.All(), d.keep.All()}
	if rules.RelativeDamping {
		bind = append(bind, d.gradient.All(), ch.rms.All(), d.deviation.All())
	}
	rec.Dispatch(k, gpu.Linear(uint64(len(ch.spots)), 1, d.Device().Limits()), struct {
		Count          uint32
		Damping, Decay float32
	}{uint32(len(ch.spots)), float32(d.plan.Config.Damping), rmsDecay}, bind...)
}

// noise makes G + N and tells where it is.
func (d *dense) noise(rec *gpu.Recording, c call, ch *denseChunk) *gpu.Buffer {
	config := d.plan.Config
	blockwise := config.Rules.RelativeDamping
	if blockwise && config.Damping == 0 || !blockwise && config.NoiseScale == 0 {
		return d.gradient
	}
	k := kernelOf("noise", "", shaders.Variant{
		Flags:     map[string]bool{"BLOCKWISE": blockwise},
		Constants: map[string]string{"NORMAL": config.normalFunction()},
	})
	bind := []gpu.Range{c.scalars, ch.carrier.table.All(), ch.spotTable.All(), d.gradient.All(), d.work.All()}
	if blockwise {
		bind = append(bind, d.deviation.All())
	}
	tiles := ch.carrier.tiles
	rec.Dispatch(k, gpu.Linear(uint64(tiles), 1, d.Device().Limits()), struct {
		Count, Stride uint32
		Deviation     float32
	}{uint32(tiles), uint32(config.BlockSize), float32(config.NoiseScale)}, bind...)
	return d.work
}

// apply makes QlᵀQl G QrᵀQr of a group in work; G may be there too.
func (d *dense) apply(rec *gpu.Recording, ch *denseChunk, g group, from *gpu.Buffer) {
	left, right := d.runs(ch.squares, g.left, g.count), d.runs(ch.squares, g.right, g.count)
	half := d.blocks(d.half, g)
	Product{A: left, B: d.blocks(from, g), C: half, Alpha: 1}.Record(rec, d.Device())
	Product{A: half, B: right, C: d.blocks(d.work, g), Alpha: 1}.Record(rec, d.Device())
}

// move updates the factors of one size by their Grams.
func (d *dense) move(rec *gpu.Recording, c call, ch *denseChunk, s sideStack) {
	config := d.plan.Config
	step := 1.0
	if config.Method == Quad {
		step /= 2
	}
	if config.Rules.HalvedPair {
		step /= 2
	}
	number := func(b *gpu.Buffer, bytes int) gpu.Range {
		if b == nil {
			return gpu.Range{}
		}
		return b.Range(uint64(s.number*bytes), uint64(s.count*bytes))
	}
	sides, keep, coefficients := number(ch.sideTable, 16), number(d.keep, 4), number(d.coefficients, 8)
	t, q, moved := d.sides(d.gram, s), d.factors(ch, s), d.sides(d.moved, s)
	rec.Group("kron.bound")
	bounding{
		t: t, use: boundFactor, step: step, update: c.scalars, sides: sides,
		keep: keep, lipschitz: number(ch.lipschitz, 4), coefficients: coefficients, spare: moved.bound(),
	}.record(rec, d.Device(), config)
	rec.Group("kron.move")
	Product{A: t, B: q, C: moved, D: &q, Coefficients: coefficients}.Record(rec, d.Device())
	rounding := config.Rules.StochasticRounding && d.dtype == buffers.BF16
	if config.Method == Skew {
		procrustes{
			q: moved, out: q, r: t, rr: d.sides(d.turned, s), turns: number(d.turns, 16), coefficients: coefficients, keep: keep,
			update: c.scalars, sides: sides, rounding: rounding,
		}.record(rec, d.Device(), config)
		return
	}
	// W Q W; T is its own transpose, as a Gram is.
	last := Product{A: moved, B: t, TransB: true, C: q, D: &moved, Symmetric: true, Coefficients: coefficients, Keep: keep}
	if rounding {
		last.update, last.sides = c.scalars, sides
	}
	last.Record(rec, d.Device())
}

// square derives QᵀQ of a chunk.
func (d *dense) square(rec *gpu.Recording, ch *denseChunk) {
	rec.Group("kron.square")
	for _, s := range ch.stacks {
		q := d.factors(ch, s)
		Product{A: q, B: q, TransA: true, C: d.sides(ch.squares, s), Symmetric: true, Alpha: 1}.Record(rec, d.Device())
	}
}

func (d *dense) derive(rec *gpu.Recording) {
	for _, ch := range d.chunks {
		if !d.squaresAnew() {
			d.square(rec, ch)
		}
	}
}

// factors are the sides of a chunk in their own type; blocks, sides and runs are stacks in f32.
func (d *dense) factors(ch *denseChunk, s sideStack) Stack {
	return d.stack(ch.q, d.dtype, s.at, s.count, s.size, s.size)
}

func (d *dense) blocks(b *gpu.Buffer, g group) Stack {
	return d.stack(b, buffers.F32, g.at, g.count, g.height, g.width)
}

func (d *dense) sides(b *gpu.Buffer, s sideStack) Stack {
	return d.stack(b, buffers.F32, s.at, s.count, s.size, s.size)
}

func (d *dense) runs(b *gpu.Buffer, r run, count int) Stack {
	return d.stack(b, buffers.F32, r.at, count, r.size, r.size)
}

func (d *dense) stack(b *gpu.Buffer, dtype buffers.DType, at, count, rows, cols int) Stack {
	s := Stack{Count: count, Rows: rows, Cols: cols, DType: dtype}
	bytes := dtype.Bits() / 8
	s.Range = b.Range(uint64(at*bytes), uint64(s.elements()*bytes))
	return s
}

// procrustes turns every matrix of a stack towards a symmetric one, as procrustesTwin: Q + (a R + a²/2 R R) Q with R = Qᵀ - Q divided
// by its largest element. R R = -R Rᵀ is symmetric and so half a product; the definition's R (R Q) would be a whole one.
type procrustes struct {
	q, out       Stack
	r, rr        Stack     // scratch
	turns        gpu.Range // scratch, 16 bytes a matrix
	coefficients gpu.Range // scratch, 8 bytes a matrix
	keep         gpu.Range // of the last product

	update, sides, keys gpu.Range // of the bound
	rounding            bool      // out is rounded at random by update and sides
}

func (p procrustes) record(rec *gpu.Recording, dev *gpu.Device, c Config) {
	n, lim := p.q.Rows, dev.Limits()
	tiles := n / 4 * (n/4 + 1) / 2
	rec.Dispatch(kernelOf("skew", "", shaders.Variant{}), gpu.Linear(uint64(p.q.Count*tiles), 64, lim),
		struct{ Count, Size, Tiles uint32 }{uint32(p.q.Count), uint32(n / 4), uint32(tiles)}, p.q.bound(), p.r.bound())
	bounding{
		t: p.r, skew: true, use: boundTurn, update: p.update, sides: p.sides, keys: p.keys,
		turns: p.turns, coefficients: p.coefficients, spare: p.rr.bound(),
	}.record(rec, dev, c)
	Product{A: p.r, B: p.r, TransB: true, C: p.rr, Symmetric: true, Coefficients: p.coefficients}.Record(rec, dev)
	lanes := 64
	if dev.Limits().Software {
		lanes = 8 // one vector, for which a barrier is nearly free
	}
	turn := kernelOf("turn", "", shaders.Variant{Constants: map[string]string{"LANES": strconv.Itoa(lanes)}})
	rec.Dispatch(turn, gpu.Linear(uint64(p.q.Count), 1, lim), struct{ Count, Quads uint32 }{uint32(p.q.Count), uint32(n * n / 4)},
		p.r.bound(), p.q.bound(), p.turns, p.rr.bound())
	last := Product{A: p.rr, B: p.q, C: p.out, D: &p.q, Alpha: 1, Beta: 1, Keep: p.keep}
	if p.rounding {
		last.update, last.sides = p.update, p.sides
	}
	last.Record(rec, dev)
}
