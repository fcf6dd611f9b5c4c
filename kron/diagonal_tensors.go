package kron

import (
	"context"
	"fmt"

	"gputrain/buffers"
	"gputrain/gpu"
)

// factorTensors are Q and L of factors [first, first+count), one side of the blocks of a leaf, each with this number of
// elements.
func (d *diagonals) factorTensors(path, side string, first, count, elements int) []buffers.Tensor {
	name := "leaf/" + path + "/Q" + side
	size := count * elements * d.elementBytes()
	return []buffers.Tensor{{
		Name: name, DType: d.config.DType, Shape: []int{count, elements},
		Read: func(ctx context.Context) ([]byte, error) {
			out := make([]byte, size)
			err := d.eachSpan(first, count, func(b *factorBank, span gpu.Range, runs []placedRun) error {
				raw := make([]byte, span.Bytes)
				if err := d.Device().Read(ctx, raw, span); err != nil {
					return err
				}
				for _, p := range runs {
					copy(out[p.at:p.at+p.bytes], raw[p.in:])
				}
				return nil
			})
			return out, wrapTensor(name, err)
		},
		Write: func(raw []byte) error {
			if len(raw) != size {
				return fmt.Errorf("kron: tensor %q: %d bytes, want %d of %s %v", name, len(raw), size, d.config.DType, []int{count, elements})
			}
			return wrapTensor(name, d.eachSpan(first, count, func(b *factorBank, span gpu.Range, runs []placedRun) error {
				image := make([]byte, span.Bytes)
				for _, p := range runs {
					copy(image[p.in:], raw[p.at:p.at+p.bytes])
				}
				return d.Device().Write(span, image)
			}))
		},
	}, vectorTensor(d.Device(), "leaf/"+path+"/L"+side, d.lipschitz, first, count)}
}

// placedRun is a run in bytes: where it begins in the tensor and in a span of its bank.
type placedRun struct {
	at, in, bytes int
}

// eachSpan calls f with what the runs of factors take of a bank, as long as they lie one after the other, and with these runs.
func (d *diagonals) eachSpan(first, count int, f func(b *factorBank, span gpu.Range, runs []placedRun) error) error {
	four := uint64(4 * d.elementBytes())
	for in, b := range d.banks {
		var runs []placedRun
		begin, end := 0, 0 // fours
		flush := func() error {
			if len(runs) == 0 {
				return nil
			}
			err := f(b, b.q.Range(four*uint64(begin), four*uint64(end-begin)), runs)
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
	span := b.Range(4*uint64(first), 4*uint64(count))
	return buffers.Tensor{
		Name: name, DType: buffers.F32, Shape: []int{count},
		Read: func(ctx context.Context) ([]byte, error) {
			raw := make([]byte, span.Bytes)
			return raw, wrapTensor(name, dev.Read(ctx, raw, span))
		},
		Write: func(raw []byte) error {
			if uint64(len(raw)) != span.Bytes {
				return fmt.Errorf("kron: tensor %q: %d bytes, want %d of f32 %v", name, len(raw), span.Bytes, []int{count})
			}
			return wrapTensor(name, dev.Write(span, raw))
		},
	}
}

func wrapTensor(name string, err error) error {
	if err != nil {
		return fmt.Errorf("kron: tensor %q: %w", name, err)
	}
	return nil
}

// tensors are D and L of the dense sides of a leaf: D padded with zeros to the largest of them.
func (o *oneDiagonal) tensors(d *diagonals, path, side string, sides []*oneSide) []buffers.Tensor {
	name, most, size := "leaf/"+path+"/Q"+side, 0, d.elementBytes()
	for _, s := range sides {
		_, dense := s.sizes()
		most = max(most, dense)
	}
	// each calls f with the place of a factor and its rows, in bytes: where they begin in the tensor and in the place.
	each := func(f func(at gpu.Range, rows []placedRun) error) error {
		for i, s := range sides {
			_, dense := s.sizes()
			var rows []placedRun
			for r := range dense {
				rows = append(rows, placedRun{at: (i*most + r) * most * size, in: r * s.batch.width * size, bytes: dense * size})
			}
			bytes := uint64(s.batch.width * s.batch.width * size)
			if err := f(s.batch.q.Range(uint64(s.index)*bytes, bytes), rows); err != nil {
				return wrapTensor(name, err)
			}
		}
		return nil
	}
	shape := []int{len(sides), most, most}
	return []buffers.Tensor{{
		Name: name, DType: d.config.DType, Shape: shape,
		Read: func(ctx context.Context) ([]byte, error) {
			out := make([]byte, product(shape)*size)
			return out, each(func(at gpu.Range, rows []placedRun) error {
				raw := make([]byte, at.Bytes)
				if err := d.Device().Read(ctx, raw, at); err != nil {
					return err
				}
				for _, r := range rows {
					copy(out[r.at:r.at+r.bytes], raw[r.in:])
				}
				return nil
			})
		},
		Write: func(raw []byte) error {
			if len(raw) != product(shape)*size {
				return fmt.Errorf("kron: tensor %q: %d bytes, want %d of %s %v", name, len(raw), product(shape)*size, d.config.DType, shape)
			}
			return each(func(at gpu.Range, rows []placedRun) error {
				image := make([]byte, at.Bytes)
				for _, r := range rows {
					copy(image[r.in:], raw[r.at:r.at+r.bytes])
				}
				return d.Device().Write(at, image)
			})
		},
	}, vectorTensor(d.Device(), "leaf/"+path+"/L"+side, o.lipschitz, sides[0].place, len(sides))}
}
