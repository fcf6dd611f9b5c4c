package kron

import (
	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/shaders"
)

// dispatch records shaders/kron_<name>.wgsl with its params and, in the order of the source, what it binds after them.
func (d *diagonals) dispatch(rec *gpu.Recording, name string, flags map[string]bool, g gpu.Grid, params any, bind ...gpu.Range) {
	rec.Dispatch(kernelOf(name, "", shaders.Variant{Flags: flags}), g, params, bind...)
}

// groups is a grid of one workgroup for each of n.
func (d *diagonals) groups(n int) gpu.Grid { return gpu.Linear(uint64(n), 1, d.Device().Limits()) }

// each is a grid of one invocation for each of n.
func (d *diagonals) each(n int) gpu.Grid {
	return gpu.Linear(uint64(n), groupLanes, d.Device().Limits())
}

func (d *diagonals) bf16() bool { return d.config.DType == buffers.BF16 }

// noise tells whether gradients get any.
func (d *diagonals) noise() bool {
	if d.config.Rules.RelativeDamping {
		return d.config.Damping > 0
	}
	return d.config.NoiseScale > 0
}

// drawing is the flags of kernels that may draw noise.
func (d *diagonals) drawing() map[string]bool {
	flags := map[string]bool{"NOISE": d.noise(), "BF16": d.bf16()}
	if d.noise() {
		flags["INDEPENDENT"] = d.config.Rules.IndependentNoise
	}
	return flags
}

// dithers tells whether factors are rounded at random.
func (d *diagonals) dithers() bool { return d.bf16() && d.config.Rules.StochasticRounding }

// share is z L over the preconditioner's rate. pair tells that the block has a second factor, which follows the same gradients.
func (d *diagonals) share(pair bool) float64 {
	share := 1.0
	if d.config.Method == Quad {
		share /= 2
	}
	if pair && d.config.Rules.HalvedPair {
		share /= 2
	}
	return share
}

// damp records the amplitude of the noise of each block, after the sums of squares.
func (d *diagonals) damp(rec *gpu.Recording, c call) {
	params := struct {
		Blocks         uint32
		Damping, Decay float32
	}{uint32(len(d.blocks)), float32(d.config.Damping), rmsDecay}
	d.dispatch(rec, "diagonal_damping", nil, d.each(len(d.blocks)), params,
		d.blockTable.All(), d.squares.All(), c.flag, d.rms.All(), d.amplitude.All())
}

// step records L and q, after T and its maxima.
func (d *diagonals) step(rec *gpu.Recording, c call, pair bool) {
	params := struct {
		Factors uint32
		Share   float32
	}{uint32(len(d.factors)), float32(d.share(pair))}
	d.dispatch(rec, "diagonal_rate", nil, d.each(len(d.factors)), params,
		c.scalars, d.table.All(), d.maxima.All(), d.amplitude.All(), c.flag, d.lipschitz.All(), d.rates.All())
	flags := map[string]bool{"BF16": d.bf16(), "QUAD": d.config.Method == Quad, "DITHER": d.dithers()}
	if d.dithers() {
		flags["INDEPENDENT"] = d.config.Rules.IndependentNoise
	}
	for _, b := range d.banks {
		d.dispatch(rec, "diagonal_step", flags, d.groups(len(b.items)), uint32(len(b.items)),
			c.scalars, b.table.All(), d.table.All(), b.t.All(), d.rates.All(), b.q.All())
	}
}
