package safetensors

import (
	"encoding/binary"
	"io"

	"gputrain/buffers/array"
)

// chunkBytes is how much of a tensor is held undecoded at a time.
const chunkBytes = 1 << 16

// Float32 reads a tensor of dtype F32, F16 or BF16, widened to f32.
func (f *File) Float32(name string) ([]float32, error) {
	rows, _, err := f.rows(name)
	if err != nil {
		return nil, err
	}
	return f.Float32Rows(name, 0, rows)
}

// Float32Rows reads rows [row, row+rows) of a tensor's view [shape[0], rest], as Float32. A scalar has one row.
func (f *File) Float32Rows(name string, row, rows int) ([]float32, error) {
	have, rowBytes, err := f.rows(name)
	if err != nil {
		return nil, err
	}
	if row < 0 || rows < 0 || row > have || rows > have-row {
		return nil, f.errorf(name, "rows [%d, %d), the tensor has %d", row, row+rows, have)
	}
	if err := f.isFloat(name); err != nil {
		return nil, err
	}
	// The allocation is bounded by the file's own size, which Open has compared with the shape.
	each := rowBytes / elementBytes[f.header.entries[name].dtype]
	out := make([]float32, uint64(rows)*each)
	return out, f.Float32At(name, out, row*int(each))
}

// Float32At reads the elements from first on, as many as dst has, as Float32. It allocates nothing that grows with the tensor.
func (f *File) Float32At(name string, dst []float32, first int) error {
	if err := f.isFloat(name); err != nil {
		return err
	}
	return decode(f, name, dst, first, widen[f.header.entries[name].dtype])
}

func (f *File) isFloat(name string) error {
	e, ok := f.header.entries[name]
	switch {
	case !ok:
		return f.errorf(name, "no such tensor")
	case widen[e.dtype] == nil:
		return f.errorf(name, "dtype %s, want F32, BF16 or F16", e.dtype)
	}
	return nil
}

// widen decodes floats, by dtype.
var widen = map[string]func(dst []float32, src []byte){
	"F32":  func(dst []float32, src []byte) { array.Decode(array.F32, dst, src) },
	"BF16": func(dst []float32, src []byte) { array.Decode(array.BF16, dst, src) },
	"F16": func(dst []float32, src []byte) {
		for i := range dst {
			dst[i] = array.DecodeF16(binary.LittleEndian.Uint16(src[2*i:]))
		}
	},
}

// Int32 reads a tensor of dtype I32.
func (f *File) Int32(name string) ([]int32, error) {
	rows, rowBytes, err := f.rows(name)
	if err != nil {
		return nil, err
	}
	const want = "I32"
	if dtype := f.header.entries[name].dtype; dtype != want {
		return nil, f.errorf(name, "dtype %s, want %s", dtype, want)
	}
	out := make([]int32, uint64(rows)*rowBytes/elementBytes[want])
	return out, decode(f, name, out, 0, func(dst []int32, src []byte) {
		for i := range dst {
			dst[i] = int32(binary.LittleEndian.Uint32(src[4*i:]))
		}
	})
}

// rows gives the number of rows of a tensor's view [shape[0], rest] and the bytes of each.
func (f *File) rows(name string) (rows int, rowBytes uint64, err error) {
	e, ok := f.header.entries[name]
	if !ok {
		return 0, 0, f.errorf(name, "no such tensor")
	}
	rows = 1
	if len(e.shape) > 0 {
		rows = e.shape[0]
	}
	if rows == 0 {
		return 0, 0, nil
	}
	return rows, (e.end - e.begin) / uint64(rows), nil
}

// decode reads the elements from first on, chunk by chunk.
func decode[T any](f *File, name string, dst []T, first int, elements func(dst []T, src []byte)) error {
	e := f.header.entries[name]
	size := elementBytes[e.dtype]
	if have := (e.end - e.begin) / size; first < 0 || uint64(first) > have || uint64(len(dst)) > have-uint64(first) {
		return f.errorf(name, "elements [%d, %d), the tensor has %d", first, first+len(dst), have)
	}
	at := f.base + int64(e.begin+uint64(first)*size)
	chunk := make([]byte, min(uint64(len(dst))*size, chunkBytes))
	for len(dst) > 0 {
		n := min(len(dst), int(chunkBytes/size))
		part := chunk[:uint64(n)*size]
		if _, err := f.data.ReadAt(part, at); err != nil {
			return f.errorf(name, "%w", err)
		}
		elements(dst[:n], part)
		dst, at = dst[n:], at+int64(len(part))
	}
	return nil
}

// Tensors are those of the file, sorted by name, to be read until Close: of dtype F32, F16 or BF16, widened to f32.
func (f *File) Tensors() (tensors []array.Tensor) {
	for _, name := range f.Names() {
		dtype, shape, _ := f.Info(name)
		read := func(dst []float32, first int) error { return f.Float32At(name, dst, first) }
		write := func(w io.Writer) error {
			raw, err := f.Bytes(name)
			if err == nil {
				_, err = io.Copy(w, raw)
			}
			return err
		}
		t := array.Tensor{Host: array.Host{Path: name, Shape: shape, Read: read}, DType: dtype, Raw: write}
		if f.closer != nil {
			t.Hold = f.closer.Hold
		}
		tensors = append(tensors, t)
	}
	return tensors
}
