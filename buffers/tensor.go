package buffers

import (
	"context"
	"encoding/binary"
	"fmt"
)

// Tensor is one array of something's state as it is saved: its name, what it is, and the way to its bytes, which are little-endian,
// row-major and in DType. Write replaces all of it.
type Tensor struct {
	Name  string // like "mu/h.0.ln_1.weight", "dense/Ql"
	DType DType
	Shape []int
	Read  func(ctx context.Context) ([]byte, error)
	Write func(raw []byte) error
}

// Floats reads a tensor as f32; integers are converted.
func (t Tensor) Floats(ctx context.Context) ([]float32, error) {
	raw, err := t.Read(ctx)
	if err != nil {
		return nil, err
	}
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	if want := n * t.DType.Bits() / 8; len(raw) != want {
		return nil, fmt.Errorf("buffers: tensor %q: %d bytes, want %d for %v of %v", t.Name, len(raw), want, t.Shape, t.DType)
	}
	out := make([]float32, n)
	switch t.DType {
	case I32:
		for i := range out {
			out[i] = float32(int32(binary.LittleEndian.Uint32(raw[4*i:])))
		}
	case U32:
		for i := range out {
			out[i] = float32(binary.LittleEndian.Uint32(raw[4*i:]))
		}
	default:
		decode(t.DType, out, raw)
	}
	return out, nil
}
