package kron

import (
	"context"
	"fmt"

	"gputrain/buffers"
	"gputrain/gpu"
)

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
