package kron

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gputrain/buffers"
	"gputrain/buffers/array"
	"gputrain/gpu"
)

// tensors has the dense stack in order of the global index, padded with zeros to the largest valid sizes; where it has not all dense
// blocks of the model, as rows of the stack that has.
func (d *dense) tensors() []buffers.Tensor {
	var out []buffers.Tensor
	whole := d.plan.tensors(d.plan.all())
	rows := d.rows()
	for i, spec := range d.plan.tensors(d.part) {
		if spec.own >= 0 {
			continue
		}
		t := buffers.Tensor{Name: spec.prefix + spec.slot, DType: buffers.F32, Shape: spec.shape}
		if rows != nil {
			t.Rows, t.Whole = rows, whole[i].shape // the dense stack comes first in both
		}
		var move mover
		switch spec.slot {
		case "Ql", "Qr":
			t.DType, move = d.dtype, d.factorMover(spec.shape, spec.slot == "Qr")
		case "Ll", "Lr":
			move = d.boundMover(spec.slot == "Lr")
		case "rms":
			move = d.rmsMover()
		default:
			t.DType = buffers.I32
			out = append(out, d.validTensor(t))
			continue
		}
		size := array.Elements(spec.shape) * t.DType.Bits() / 8
		t.Read = func(ctx context.Context) ([]byte, error) {
			raw := make([]byte, size)
			return raw, d.readTensor(ctx, raw, move)
		}
		each := size / spec.shape[0] // a block
		t.ReadAt = func(ctx context.Context, dst []byte, first int) error {
			return d.readBlocks(ctx, dst, first, each, move)
		}
		if slot := spec.slot; slot == "Ql" || slot == "Qr" {
			t.WriteAt = func(raw []byte, first int) error { return d.writeFactors(raw, first, each, slot == "Qr", move) }
		}
		t.Write = func(raw []byte) error {
			if len(raw) != size {
				return fmt.Errorf("kron: write %s: %d bytes, want %d of %v", t.Name, len(raw), size, spec.shape)
			}
			if err := d.writeTensor(raw, move); err != nil {
				return fmt.Errorf("kron: write %s: %w", t.Name, err)
			}
			return nil
		}
		out = append(out, t)
	}
	return out
}

// rows are the places of the blocks in the stack of the model; nil where the part is that stack.
func (d *dense) rows() []int {
	if len(d.part.dense) == d.plan.dense {
		return nil
	}
	var rows []int
	stack := d.plan.all().dense
	for _, b := range d.part.dense {
		row, _ := slices.BinarySearch(stack, b)
		rows = append(rows, row)
	}
	return rows
}

// A mover tells how a tensor lies in chunks: the buffer of a chunk, what of it is the tensor's for a group, and for a block the runs of
// bytes that go from the tensor to the buffer.
type mover struct {
	buffer func(ch *denseChunk) *gpu.Buffer
	span   func(g group) (begin, length int) // in bytes
	rows   func(block int, at place, f func(tensor, buffer, bytes int))
}

// side finds a side of a block.
func (d *dense) side(at place, right bool) (r run, valid int) {
	ch := d.chunks[at.chunk]
	for _, g := range ch.groups {
		if i := at.spot - g.first; i >= 0 && i < g.count {
			if r, valid = g.side(right), ch.spots[at.spot].block.Rows; right {
				valid = ch.spots[at.spot].block.Cols
			}
			return run{size: r.size, number: r.number + i, at: r.at + i*r.size*r.size}, valid
		}
	}
	panic("kron: a block outside of every group")
}

func (d *dense) factorMover(shape []int, right bool) mover {
	bytes := d.dtype.Bits() / 8
	return mover{
		buffer: func(ch *denseChunk) *gpu.Buffer { return ch.q },
		span: func(g group) (begin, length int) {
			r := g.side(right)
			return r.at * bytes, g.count * r.size * r.size * bytes
		},
		rows: func(block int, at place, f func(tensor, buffer, bytes int)) {
			r, valid := d.side(at, right)
			for row := range valid {
				f((block*shape[1]+row)*shape[2]*bytes, (r.at+row*r.size)*bytes, valid*bytes)
			}
		},
	}
}

func (d *dense) boundMover(right bool) mover {
	return mover{
		buffer: func(ch *denseChunk) *gpu.Buffer { return ch.lipschitz },
		span:   func(g group) (begin, length int) { return 4 * g.side(right).number, 4 * g.count },
		rows: func(block int, at place, f func(tensor, buffer, bytes int)) {
			r, _ := d.side(at, right)
			f(4*block, 4*r.number, 4)
		},
	}
}

func (d *dense) rmsMover() mover {
	return mover{
		buffer: func(ch *denseChunk) *gpu.Buffer { return ch.rms },
		span:   func(g group) (begin, length int) { return 4 * g.first, 4 * g.count },
		rows: func(block int, at place, f func(tensor, buffer, bytes int)) {
			f(4*block, 4*at.spot, 4)
		},
	}
}

func (d *dense) readTensor(ctx context.Context, raw []byte, m mover) error {
	for i, ch := range d.chunks {
		b := m.buffer(ch)
		image := make([]byte, b.Bytes())
		if err := d.Device().Read(ctx, image, b.All()); err != nil {
			return fmt.Errorf("kron: read: %w", err)
		}
		for block, at := range d.at {
			if at.chunk == i {
				m.rows(block, at, func(tensor, buffer, bytes int) {
					copy(raw[tensor:tensor+bytes], image[buffer:])
				})
			}
		}
	}
	return nil
}

// readBlocks fills dst with the bytes of a tensor from byte first on, of which a block has each. It reads what the blocks there have, one after the other.
func (d *dense) readBlocks(ctx context.Context, dst []byte, first, each int, m mover) error {
	clear(dst)
	end := first + len(dst)
	for block := first / each; block*each < end; block++ {
		at := d.at[block]
		var runs []placedRun
		from, to := math.MaxInt, 0
		m.rows(block, at, func(tensor, buffer, bytes int) {
			if lo, hi := max(tensor, first), min(tensor+bytes, end); lo < hi {
				buffer += lo - tensor
				runs = append(runs, placedRun{at: lo - first, in: buffer, bytes: hi - lo})
				from, to = min(from, buffer/4*4), max(to, (buffer+hi-lo+3)/4*4)
			}
		})
		if len(runs) == 0 {
			continue
		}
		image := make([]byte, to-from)
		if err := d.Device().Read(ctx, image, m.buffer(d.chunks[at.chunk]).Range(uint64(from), uint64(to-from))); err != nil {
			return fmt.Errorf("kron: read: %w", err)
		}
		for _, r := range runs {
			copy(dst[r.at:r.at+r.bytes], image[r.in-from:])
		}
	}
	return nil
}

// writeFactors writes the factors of the blocks whose bytes, each of them, raw has from byte first of the tensor on.
func (d *dense) writeFactors(raw []byte, first, each int, right bool, m mover) error {
	if first%each != 0 || len(raw)%each != 0 {
		return fmt.Errorf("kron: write: found bytes [%d, %d), wanted whole blocks of %d", first, first+len(raw), each)
	}
	for block := first / each; block < (first+len(raw))/each; block++ {
		at := d.at[block]
		r, _ := d.side(at, right)
		from, bytes := r.at*d.dtype.Bits()/8, r.size*r.size*d.dtype.Bits()/8
		image := make([]byte, bytes)
		m.rows(block, at, func(tensor, buffer, bytes int) { copy(image[buffer-from:][:bytes], raw[tensor-first:]) })
		if err := d.Device().Write(m.buffer(d.chunks[at.chunk]).Range(uint64(from), uint64(bytes)), image); err != nil {
			return fmt.Errorf("kron: write: %w", err)
		}
	}
	return nil
}

func (d *dense) writeTensor(raw []byte, m mover) error {
	for i, ch := range d.chunks {
		b := m.buffer(ch)
		image := make([]byte, b.Bytes())
		for block, at := range d.at {
			if at.chunk == i {
				m.rows(block, at, func(tensor, buffer, bytes int) {
					copy(image[buffer:buffer+bytes], raw[tensor:])
				})
			}
		}
		for _, g := range ch.groups {
			begin, length := m.span(g)
			if err := d.Device().Write(b.Range(uint64(begin), uint64(length)), image[begin:begin+length]); err != nil {
				return err
			}
		}
	}
	return nil
}

// validTensor has the valid sizes of the blocks; written sizes must be equal to them.
func (d *dense) validTensor(t buffers.Tensor) buffers.Tensor {
	var sizes []uint32
	for _, b := range d.part.dense {
		n := d.plan.Blocks[b].Rows
		if t.Name == "dense/valid_cols" {
			n = d.plan.Blocks[b].Cols
		}
		sizes = append(sizes, uint32(n))
	}
	want := gpu.Bytes(sizes)
	t.Read = func(context.Context) ([]byte, error) { return slices.Clone(want), nil }
	t.Write = func(raw []byte) error {
		if !slices.Equal(raw, want) {
			return fmt.Errorf("kron: write %s: found other sizes of blocks than the model's", t.Name)
		}
		return nil
	}
	return t
}
