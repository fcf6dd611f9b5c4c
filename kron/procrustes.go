package kron

import (
	"strconv"

	"gputrain/gpu"
	"gputrain/shaders"
)

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
