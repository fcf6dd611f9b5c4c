package kron

import (
	"context"
	"fmt"

	"gputrain/buffers"
	"gputrain/buffers/array"
	"gputrain/gpu"
)

// factorTensors are Q and L of factors [first, first+count), one side of the blocks of a leaf, each with this number of
// elements.
func (d *diagonals) factorTensors(path, side string, first, count, elements int) []buffers.Tensor {
	q := placedTensor(d.Device(), "leaf/"+path+"/Q"+side, d.config.DType, []int{count, elements}, func(f spanFunc) error { return d.eachSpan(first, count, f) })
	return []buffers.Tensor{q, vectorTensor(d.Device(), "leaf/"+path+"/L"+side, d.lipschitz, first, count)}
}

// placedRun is a run in bytes: where it begins in the tensor and in a span of its bank.
type placedRun struct {
	at, in, bytes int
}

// spanFunc handles a span of a buffer and the runs of a tensor in it.
type spanFunc func(span gpu.Range, runs []placedRun) error

// placedTensor is a tensor that lies in the spans that each calls a function with. What is between its runs is written as zeros.
func placedTensor(dev *gpu.Device, name string, dtype buffers.DType, shape []int, each func(spanFunc) error) buffers.Tensor {
	size := array.Elements(shape) * dtype.Bits() / 8
	return buffers.Tensor{
		Name: name, DType: dtype, Shape: shape,
		Read: func(ctx context.Context) ([]byte, error) {
			out := make([]byte, size)
			return out, wrapTensor(name, each(func(span gpu.Range, runs []placedRun) error {
				raw := make([]byte, span.Bytes)
				err := dev.Read(ctx, raw, span)
				for _, r := range runs {
					copy(out[r.at:r.at+r.bytes], raw[r.in:])
				}
				return err
			}))
		},
		Write: func(raw []byte) error {
			if len(raw) != size {
				return fmt.Errorf("kron: tensor %q: %d bytes, want %d of %s %v", name, len(raw), size, dtype, shape)
			}
			return wrapTensor(name, each(func(span gpu.Range, runs []placedRun) error {
				image := make([]byte, span.Bytes)
				for _, r := range runs {
					copy(image[r.in:], raw[r.at:r.at+r.bytes])
				}
				return dev.Write(span, image)
			}))
		},
	}
}

// eachSpan calls f with what the runs of factors take of a bank, as long as they lie one after the other, and with these runs.
func (d *diagonals) eachSpan(first, count int, f spanFunc) error {
	four := uint64(4 * d.elementBytes())
	for in, b := range d.banks {
		var runs []placedRun
		begin, end := 0, 0 // fours
		flush := func() error {
			if len(runs) == 0 {
				return nil
			}
			err := f(b.q.Range(four*uint64(begin), four*uint64(end-begin)), runs)
			runs = nil
			return err
		}
		at := 0
		for _, factor := range d.factors[first : first+count] {
			for _, r := range factor.runs {
				if r.bank == in {
					if r.four != end {
						if err := flush(); err != nil {
							return err
						}
					}
					if len(runs) == 0 {
						begin = r.four
					}
					end = r.four + fours(r.count)
					runs = append(runs, placedRun{at: at, in: int(four) * (r.four - begin), bytes: r.count * d.elementBytes()})
				}
				at += r.count * d.elementBytes()
			}
		}
		if err := flush(); err != nil {
			return err
		}
	}
	return nil
}

// rmsTensor is the running RMS of blocks [first, first+count).
func (d *diagonals) rmsTensor(path string, first, count int) buffers.Tensor {
	return vectorTensor(d.Device(), "leaf/"+path+"/rms", d.rms, first, count)
}

// vectorTensor is elements [first, first+count) of a buffer of f32.
func vectorTensor(dev *gpu.Device, name string, b *gpu.Buffer, first, count int) buffers.Tensor {
	return placedTensor(dev, name, buffers.F32, []int{count}, func(f spanFunc) error {
		return f(b.Range(4*uint64(first), 4*uint64(count)), []placedRun{{bytes: 4 * count}})
	})
}

func wrapTensor(name string, err error) error {
	if err != nil {
		return fmt.Errorf("kron: tensor %q: %w", name, err)
	}
	return nil
}

// tensors are D and L of the dense sides of a leaf: D padded with zeros to the largest of them.
func (o *oneDiagonal) tensors(d *diagonals, path, side string, sides []*oneSide) []buffers.Tensor {
	most, size := 0, d.elementBytes()
	for _, s := range sides {
		_, dense := s.sizes()
		most = max(most, dense)
	}
	each := func(f spanFunc) error {
		for i, s := range sides {
			_, dense := s.sizes()
			var rows []placedRun
			for r := range dense {
				rows = append(rows, placedRun{at: (i*most + r) * most * size, in: r * s.batch.width * size, bytes: dense * size})
			}
			bytes := uint64(s.batch.width * s.batch.width * size)
			if err := f(s.batch.q.Range(uint64(s.index)*bytes, bytes), rows); err != nil {
				return err
			}
		}
		return nil
	}
	q := placedTensor(d.Device(), "leaf/"+path+"/Q"+side, d.config.DType, []int{len(sides), most, most}, each)
	return []buffers.Tensor{q, vectorTensor(d.Device(), "leaf/"+path+"/L"+side, o.lipschitz, sides[0].place, len(sides))}
}
