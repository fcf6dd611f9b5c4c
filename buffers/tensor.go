package buffers

import "context"

// Tensor is one array of something's state as it is saved: its name, what it is, and the way to its bytes, which are little-endian,
// row-major and in DType. Write replaces all of it.
type Tensor struct {
	Name  string // like "mu/h.0.ln_1.weight", "dense/Ql"
	DType DType
	Shape []int
	Read  func(ctx context.Context) ([]byte, error)
	Write func(raw []byte) error
}
