package buffers

import (
	"context"
	"encoding/binary"
	"fmt"

	"gputrain/buffers/array"
)

// Tensor is one array of something's state as it is saved: its name, what it is, and the way to its bytes, which are little-endian,
// row-major and in DType. Write replaces all of it.
//
// It may be rows of a tensor that lies in several places, which Join puts together: row i is then row Rows[i] of the whole one, whose shape
// is Whole. The other axes of the whole may be longer; what is past this tensor's is zero.
type Tensor struct {
	Name  string // like "mu/h.0.ln_1.weight", "dense/Ql"
	DType DType
	Shape []int
	Rows  []int // nil: this is the whole tensor
	Whole []int // nil where Rows is
	Read  func(ctx context.Context) ([]byte, error)
	Write func(raw []byte) error
}

// Floats reads a tensor as f32; integers are converted.
func (t Tensor) Floats(ctx context.Context) ([]float32, error) {
	raw, err := t.Read(ctx)
	if err != nil {
		return nil, err
	}
	if len(raw) != t.Bytes() {
		return nil, fmt.Errorf("buffers: tensor %q: %d bytes, want %d for %v of %v", t.Name, len(raw), t.Bytes(), t.Shape, t.DType)
	}
	out := make([]float32, elements(t.Shape))
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
		array.Decode(t.DType, out, raw)
	}
	return out, nil
}
