package buffers

import (
	"context"
	"fmt"

	"gputrain/buffers/array"
	"gputrain/gpu"
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
	// ReadAt fills dst with the tensor's bytes from byte at on, whole words. WriteAt replaces rows, the bytes from byte at on, which are whole words too.
	// nil: only all bytes at once are to be had, or replaced.
	ReadAt  func(ctx context.Context, dst []byte, at int) error
	WriteAt func(raw []byte, at int) error
}

// Fill is ReadAt; of a tensor without it, it reads all bytes.
func (t Tensor) Fill(ctx context.Context, dst []byte, at int) error {
	if t.ReadAt != nil {
		return t.ReadAt(ctx, dst, at)
	}
	raw, err := t.Read(ctx)
	if err != nil {
		return err
	}
	if len(raw) != t.Bytes() {
		return t.lengthError(len(raw))
	}
	copy(dst, raw[at:])
	return nil
}

func (t Tensor) lengthError(found int) error {
	return fmt.Errorf("buffers: tensor %q: %d bytes, want %d for %v of %v", t.Name, found, t.Bytes(), t.Shape, t.DType)
}

// Floats reads a tensor as f32; integers are converted.
func (t Tensor) Floats(ctx context.Context) ([]float32, error) {
	raw, err := t.Read(ctx)
	if err != nil {
		return nil, err
	}
	if len(raw) != t.Bytes() {
		return nil, t.lengthError(len(raw))
	}
	return array.Decoded(t.DType, raw), nil
}

// Tensor is a leaf as it is saved, under a name. A packed leaf is saved as the numbers that it stands for, which become
// the same codes and maxima again, and is not written.
func (t *Tree) Tensor(name string, leaf Leaf) Tensor {
	out := Tensor{Name: name, DType: t.dtype, Shape: leaf.Shape}
	if t.dtype.Packed() {
		out.DType = F32
		out.Read = func(ctx context.Context) ([]byte, error) {
			data, err := t.Read(ctx, leaf.Path)
			return gpu.Bytes(data), err
		}
		return out
	}
	out.Read = func(ctx context.Context) ([]byte, error) { return t.ReadRaw(ctx, leaf.Path) }
	out.Write = func(raw []byte) error { return t.WriteRaw(leaf.Path, raw) }
	if t.inWords(leaf) {
		out.ReadAt = func(ctx context.Context, dst []byte, at int) error { return t.ReadRawAt(ctx, leaf.Path, dst, at) }
		out.WriteAt = func(raw []byte, at int) error { return t.WriteRawAt(leaf.Path, raw, at) }
	}
	return out
}

// What a tree is made of and from, as package array has it for those who know no device.
type (
	DType = array.DType
	Spec  = array.Spec
	Host  = array.Host
)

// The storage types.
const (
	F32  = array.F32
	BF16 = array.BF16
	I32  = array.I32
	U32  = array.U32
	U8   = array.U8

	NF4       = array.NF4
	NF4Nested = array.NF4Nested
)
