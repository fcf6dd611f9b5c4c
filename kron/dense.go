package kron

import (
	"fmt"

	"gputrain/buffers"
	"gputrain/buffers/array"
	"gputrain/gpu"
)

// dense is the path of leaves with two dense factors a block.
//
// Bytes on the device for a parameter in a block that fills its class, m by n, with r = (m/n + n/m): r is 2 for a square.
//
//	state    factors Q             4r in f32, 2r in bf16
//	         their squares QᵀQ     4r, derived
//	scratch  G, G + N and P, P Qr  12
//	         T, W Q                8r, with Skew R R: 12r
//
// A square block takes 16 bytes (bf16: 12) a parameter of state, and 28 (Skew 36) of scratch. Only 2^22 elements of
// factors at a time need scratch: 56 MiB (Skew 72) serve any model, one chunk after the other. Blocks that do not fill
// their class take up to 25 % more a side. Of the tables, the tables of tiles count: 48 bytes for 4,096 elements, or
// for a block that has fewer.
type dense struct {
	*gpu.Set
	plan   *Plan
	part   part
	dtype  buffers.DType
	chunks []*denseChunk
	at     []place // of each of part.dense

	// Scratch, as large as the largest chunk wants.
	gradient, work, half *gpu.Buffer // stacks of blocks: G; G + N, then P and the output; what lies between two products
	gram, moved, turned  *gpu.Buffer // stacks of sides: T, with Skew then R; W Q; with Skew R R
	squares              *gpu.Buffer // stacks of sides: QᵀQ of the chunk at work, of factors in bf16
	coefficients         *gpu.Buffer // by side: two f32
	keep                 *gpu.Buffer // by side: not zero where the state stays
	turns                *gpu.Buffer // by side, with Skew: four f32
	deviation            *gpu.Buffer // by block, with RelativeDamping: of the noise
}

// place is where a block is.
type place struct{ chunk, spot int }

// denseChunk is a chunk with its state.
type denseChunk struct {
	chunk
	carrier    *transport
	spotTable  *gpu.Buffer
	sideTable  *gpu.Buffer
	q, squares *gpu.Buffer // stacks of sides; squares of factors in bf16 are those of all chunks
	lipschitz  *gpu.Buffer // by side
	rms        *gpu.Buffer // by block, with RelativeDamping
}

// newDense is nil where the part has no dense blocks.
func newDense(dev *gpu.Device, plan *Plan, layout *buffers.Layout, of part) (path, error) {
	if len(of.dense) == 0 {
		return nil, nil
	}
	d := &dense{Set: dev.NewSet("gputrain.kron"), plan: plan, part: of, dtype: plan.Config.DType}
	if err := d.open(layout); err != nil {
		d.Release()
		return nil, fmt.Errorf("dense: %w", err)
	}
	return d, nil
}

func (d *dense) open(layout *buffers.Layout) error {
	blocks := make([]Block, len(d.part.dense))
	order := make([]int, d.plan.drawn) // of the blocks in the tensors, by global index
	for i, b := range d.part.dense {
		blocks[i] = d.plan.Blocks[b]
		order[blocks[i].Stack] = i
	}
	blockSize := d.plan.Config.BlockSize
	chunks, err := newChunks(byClass(blocks, blockSize), blockSize, d.Device().Limits())
	if err != nil {
		return err
	}
	d.at = make([]place, len(blocks))
	for i, c := range chunks {
		for k, s := range c.spots {
			d.at[order[s.block.Stack]] = place{chunk: i, spot: k}
		}
		ch := &denseChunk{chunk: c}
		d.chunks = append(d.chunks, ch)
		if err := d.openChunk(ch, layout); err != nil {
			return err
		}
	}
	d.openScratch()
	return d.Err()
}

// openChunk makes the state before the first update: factors InitScale times the identity, bounds of zero.
func (d *dense) openChunk(ch *denseChunk, layout *buffers.Layout) error {
	var err error
	if ch.carrier, err = newTransport(d.Set, layout, d.plan, ch.spots); err != nil {
		return err
	}
	ch.spotTable, ch.sideTable = d.Filled("spots", ch.chunk.spotTable()), d.Filled("sides", ch.chunk.sideTable())
	start := float32(d.plan.Config.nearest(d.plan.Config.InitScale))
	ch.q = d.diagonal("q", ch, d.dtype, start)
	if !d.squaresAnew() {
		ch.squares = d.diagonal("squares", ch, buffers.F32, start*start)
	}
	ch.lipschitz = d.Zeros("lipschitz", uint64(4*ch.sides))
	if d.plan.Config.Rules.RelativeDamping {
		ch.rms = d.Zeros("rms", uint64(4*len(ch.spots)))
	}
	return d.Err()
}

// squaresAnew tells whether squares are scratch.
func (d *dense) squaresAnew() bool { return d.dtype == buffers.BF16 }

// diagonal is the sides of a chunk, x times the identity.
func (d *dense) diagonal(name string, ch *denseChunk, dtype buffers.DType, x float32) *gpu.Buffer {
	bytes := ch.sideElements * dtype.Bits() / 8
	if d.Device().Dry() { // which drops what is written
		return d.Zeros(name, uint64(bytes))
	}
	raw := make([]byte, bytes)
	ch.eachSide(func(_, _ int, r run, valid int) {
		for i := range valid {
			array.Encode(dtype, raw[dtype.Bytes(uint64(r.at+i*(r.size+1))):], []float32{x})
		}
	})
	return d.Filled(name, raw)
}

func (d *dense) openScratch() {
	blocks, sides, side, spots := 0, 0, 0, 0
	for _, ch := range d.chunks {
		blocks, sides = max(blocks, ch.blockElements), max(sides, ch.sideElements)
		side, spots = max(side, ch.sides), max(spots, len(ch.spots))
	}
	words := func(name string, n int) *gpu.Buffer { return d.Zeros(name, uint64(4*n)) }
	d.gradient, d.work, d.half = words("gradient", blocks), words("work", blocks), words("half", blocks)
	d.gram, d.moved = words("gram", sides), words("moved", sides)
	if d.squaresAnew() {
		d.squares = words("squares", sides)
		for _, ch := range d.chunks {
			ch.squares = d.squares
		}
	}
	if d.plan.Config.Method == Skew {
		d.turned, d.turns = words("turned", sides), words("turns", 4*side)
	}
	d.coefficients, d.keep = words("coefficients", 2*side), words("keep", side)
	if d.plan.Config.Rules.RelativeDamping {
		d.deviation = words("deviation", spots)
	}
}
