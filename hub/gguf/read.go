package gguf

import (
	"fmt"
	"io"
)

// Bytes are the bytes of a tensor as they are stored.
func (f *File) Bytes(name string) (*io.SectionReader, error) {
	t, ok := f.byName[name]
	if !ok {
		return nil, f.errorf(name, "found no such tensor")
	}
	p := f.parts[t.part]
	return io.NewSectionReader(p.data, p.base+t.offset, t.bytes), nil
}

// Floats widens elements of a tensor from the element first on: as many as dst has.
func (f *File) Floats(name string, dst []float32, first int) error {
	t, ok := f.byName[name]
	if !ok {
		return f.errorf(name, "found no such tensor")
	}
	if err := t.Type.Refuse(); err != nil {
		return f.errorf(name, "%w", err)
	}
	n := t.Elements()
	if first < 0 || first > n || len(dst) > n-first {
		return f.errorf(name, "found %d elements, wanted %d from %d on", n, len(dst), first)
	}
	src, err := f.Bytes(name)
	if err != nil {
		return err
	}
	block, size := t.Type.Block()
	const most = 1 << 16 // elements at once
	raw, whole := make([]byte, 0), make([]float32, 0)
	for len(dst) > 0 {
		skip := first % block
		n := min(len(dst), most-skip)
		elements := (skip + n + block - 1) / block * block
		if need := elements / block * size; cap(raw) < need {
			raw = make([]byte, need)
		}
		raw = raw[:elements/block*size]
		if _, err := src.ReadAt(raw, int64(first/block)*int64(size)); err != nil {
			return f.errorf(name, "read: %w", err)
		}
		out := dst[:n]
		if n != elements {
			if cap(whole) < elements {
				whole = make([]float32, elements)
			}
			out = whole[:elements]
		}
		types[t.Type].decode(out, raw)
		if n != elements {
			copy(dst[:n], out[skip:])
		}
		dst, first = dst[n:], first+n
	}
	return nil
}

// Elements is the number of a tensor's elements.
func (t Info) Elements() int {
	n := 1
	for _, d := range t.Shape {
		n *= d
	}
	return n
}

// Length is the number of bytes of a tensor; 0 of a type that is not known.
func (t Info) Length() int64 { return t.bytes }

func (f *File) errorf(name, format string, args ...any) error {
	return fmt.Errorf("gguf: %q: tensor %.100q: %w", f.path, name, fmt.Errorf(format, args...))
}
