package safetensors

import (
	"encoding/binary"
	"math"
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
	if e, ok := f.header.entries[name]; ok {
		switch e.dtype {
		case "F32":
			return decode(f, name, row, rows, func(b []byte) float32 {
				return math.Float32frombits(binary.LittleEndian.Uint32(b))
			})
		case "BF16":
			return decode(f, name, row, rows, func(b []byte) float32 {
				return math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16)
			})
		case "F16":
			return decode(f, name, row, rows, func(b []byte) float32 {
				return float16(binary.LittleEndian.Uint16(b))
			})
		}
		return nil, f.errorf(name, "dtype %s, want F32, BF16 or F16", e.dtype)
	}
	return nil, f.errorf(name, "no such tensor")
}

// Int32 reads a tensor of dtype I32.
func (f *File) Int32(name string) ([]int32, error) {
	return integersOf(f, name, "I32", func(b []byte) int32 { return int32(binary.LittleEndian.Uint32(b)) })
}

// Uint32 reads a tensor of dtype U32.
func (f *File) Uint32(name string) ([]uint32, error) {
	return integersOf(f, name, "U32", binary.LittleEndian.Uint32)
}

func integersOf[T any](f *File, name, want string, element func([]byte) T) ([]T, error) {
	rows, _, err := f.rows(name)
	if err != nil {
		return nil, err
	}
	if dtype := f.header.entries[name].dtype; dtype != want {
		return nil, f.errorf(name, "dtype %s, want %s", dtype, want)
	}
	return decode(f, name, 0, rows, element)
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

// decode reads rows chunk by chunk. The allocation is bounded by the file's own size, which Open has compared with the shape.
func decode[T any](f *File, name string, row, rows int, element func([]byte) T) ([]T, error) {
	have, rowBytes, err := f.rows(name)
	if err != nil {
		return nil, err
	}
	if row < 0 || rows < 0 || row > have || rows > have-row {
		return nil, f.errorf(name, "rows [%d, %d), the tensor has %d", row, row+rows, have)
	}
	e := f.header.entries[name]
	size := elementBytes[e.dtype]
	left := uint64(rows) * rowBytes
	at := f.base + int64(e.begin+uint64(row)*rowBytes)
	out := make([]T, 0, left/size)
	chunk := make([]byte, min(left, chunkBytes))
	for left > 0 {
		part := chunk[:min(left, chunkBytes)]
		if _, err := f.data.ReadAt(part, at); err != nil {
			return nil, f.errorf(name, "%w", err)
		}
		for i := uint64(0); i < uint64(len(part)); i += size {
			out = append(out, element(part[i:i+size]))
		}
		at += int64(len(part))
		left -= uint64(len(part))
	}
	return out, nil
}
