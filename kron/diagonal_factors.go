package kron

import (
	"fmt"
	"slices"

	"gputrain/buffers"
	"gputrain/buffers/array"
	"gputrain/gpu"
)

// diagonals are the diagonal factors of a path on a device. A factor is a row of q; its elements lie in fours, the last one padded with
// zeros, in one or more runs, each in a bank. What the factors follow, T, lies like q. A refresh is
//
//	with Rules.RelativeDamping: the path's sums of squares of the gradients, then the amplitude of the noise of each block
//	the path's T, and its maximum in each chunk
//	L of each factor, and from it how far it moves
//	the step of q, a dispatch for each bank
//
// so that the number of dispatches does not grow with the number of factors.
type diagonals struct {
	*gpu.Set
	config  Config
	factors []diagonalFactor
	blocks  []diagonalBlock
	banks   []*factorBank
	chunks  uint32

	table, lipschitz, rates *gpu.Buffer // a row or an f32 for each factor
	maxima                  *gpu.Buffer // f32 for each chunk
	amplitude               *gpu.Buffer // f32 for each block
	rms, blockTable         *gpu.Buffer // for each block, with Rules.RelativeDamping
	squares                 *gpu.Buffer // sums of squares, four f32 each, likewise
}

type diagonalFactor struct {
	factorRow
	runs []factorRun
}

// factorRow is a row of the table of factors: Factor in shared/kron_factor.wgsl.
type factorRow struct {
	first, chunks, block, side uint32
	s                          float32
	kind, stack, leaf          uint32
}

// factorRun is a run of elements of a factor in a bank.
type factorRun struct {
	bank, four, first, count int
	item                     int // of the bank, the first
}

// diagonalBlock has noise of one amplitude. Its sums of squares are [squares, squares+sums).
type diagonalBlock struct {
	elements      int
	squares, sums uint32
}

// blockRow is a row of the table of blocks: Block in kron_diagonal_damping.wgsl.
type blockRow struct {
	first, sums uint32
	inverse     float32
	_           uint32
}

// factorBank is a buffer of q, one of T, and the items of both.
type factorBank struct {
	fours       int
	items       []factorItem
	q, t, table *gpu.Buffer
}

// factorItem is a chunk of a factor: Item in shared/kron_factor.wgsl.
type factorItem struct {
	factor, four, first, count, place, chunk, step, stride, sums uint32
}

const (
	// factorChunk is the part of a factor that a workgroup does: 16 fours a lane, as its one barrier costs as much as
	// hundreds of loads on software adapters. A longer factor has larger chunks, so that it has no more than about
	// maxChunks, which one invocation goes through.
	factorChunk = 4096
	maxChunks   = 1024
	groupLanes  = 64
)

// block appends a block of so many elements.
func (d *diagonals) block(elements int) uint32 {
	d.blocks = append(d.blocks, diagonalBlock{elements: elements})
	return uint32(len(d.blocks) - 1)
}

// factor appends a factor of a block; its elements follow.
func (d *diagonals) factor(m Matrix, stack int, block, side uint32, s int) int {
	d.factors = append(d.factors, diagonalFactor{factorRow: factorRow{
		first: d.chunks, block: block, side: side, s: float32(s),
		kind: uint32(baseKey(m.Kind) - baseKey(Dense)), stack: uint32(stack), leaf: uint32(m.Index),
	}})
	return len(d.factors) - 1
}

// put puts elements [first, first+count) of the last factor, of so many elements in all, into a bank. first is a multiple of 4. source
// gives what an item says of where T comes from, for the chunk from that element on.
func (d *diagonals) put(in, elements, first, count int, source func(first int) factorItem) {
	b, factor := d.banks[in], len(d.factors)-1
	f := &d.factors[factor]
	f.runs = append(f.runs, factorRun{bank: in, four: b.fours, first: first, count: count, item: len(b.items)})
	step := max(factorChunk, fours(elements/maxChunks)*4)
	for at := 0; at < count; at += step {
		i := source(first + at)
		i.factor, i.four, i.chunk = uint32(factor), uint32(b.fours+at/4), d.chunks
		i.first, i.count = uint32(first+at), uint32(min(step, count-at))
		b.items = append(b.items, i)
		d.chunks++
		f.chunks++
	}
	b.fours += fours(count)
}

func fours(elements int) int { return (elements + 3) / 4 }

// allocate makes the buffers, once all factors are known: q is InitScale, L and the running RMS are 0.
func (d *diagonals) allocate() error {
	factors := make([]factorRow, len(d.factors))
	for i, f := range d.factors {
		factors[i] = f.factorRow
	}
	amplitude := slices.Repeat([]float32{float32(d.config.NoiseScale)}, len(d.blocks))
	rows := 4 * uint64(len(d.factors))
	d.table = d.Filled("factors", factors)
	d.lipschitz, d.rates = d.Zeros("lipschitz", rows), d.Zeros("rates", rows)
	d.maxima = d.Zeros("maxima", 4*uint64(d.chunks))
	d.amplitude = d.Filled("amplitude", amplitude)
	if d.config.Rules.RelativeDamping {
		blocks := make([]blockRow, len(d.blocks))
		sums := uint32(0)
		for i, b := range d.blocks {
			blocks[i] = blockRow{first: b.squares, sums: b.sums, inverse: float32(1 / float64(b.elements))}
			sums += b.sums
		}
		d.blockTable = d.Filled("blocks", blocks)
		d.rms = d.Zeros("rms", 4*uint64(len(d.blocks)))
		d.squares = d.Zeros("squares", 16*uint64(sums))
	}
	for i, b := range d.banks {
		b.table = d.Filled(fmt.Sprintf("items.%d", i), b.items)
		b.t = d.Zeros(fmt.Sprintf("t.%d", i), 16*uint64(b.fours))
		b.q = d.Filled(fmt.Sprintf("q.%d", i), d.initial(i))
	}
	return d.Err()
}

// initial is the q of a bank before the first update.
func (d *diagonals) initial(in int) []byte {
	size, one := d.elementBytes(), d.initialElement()
	out := make([]byte, d.banks[in].fours*4*size)
	for _, f := range d.factors {
		for _, p := range f.runs {
			for k := range p.count {
				if p.bank == in {
					copy(out[(4*p.four+k)*size:], one)
				}
			}
		}
	}
	return out
}

// initialElement is InitScale as it is stored.
func (d *diagonals) initialElement() []byte {
	if d.config.DType == buffers.BF16 {
		return gpu.Bytes(array.EncodeBF16(float32(d.config.InitScale)))
	}
	return gpu.Bytes(float32(d.config.InitScale))
}

// elementBytes is the size of an element of q.
func (d *diagonals) elementBytes() int { return d.config.DType.Bits() / 8 }
