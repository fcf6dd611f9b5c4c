package gguf

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
)

// Tensor is a tensor that is to be written.
type Tensor struct {
	Name  string
	Type  Type
	Shape []int // as PyTorch has it; the last dimension must be whole blocks
	// Write writes the bytes of the tensor, all of them and no more.
	Write func(w io.Writer) error
}

// Bytes is the length of the tensor.
func (t Tensor) Bytes() (int64, error) { return t.Type.bytesOf(t.Shape) }

// Write writes a file of version 3 with an alignment of 32. All that can be checked is checked before the first byte.
func Write(w io.Writer, keys []Key, tensors []Tensor) error {
	head, err := makeHeader(keys, tensors)
	if err != nil {
		return fmt.Errorf("gguf: write: %w", err)
	}
	if _, err := w.Write(head); err != nil {
		return fmt.Errorf("gguf: write: header: %w", err)
	}
	for _, t := range tensors {
		want, _ := t.Bytes() // makeHeader has checked it
		exact := &exactWriter{w: w, left: want}
		err := t.Write(exact)
		if err == nil && exact.left > 0 {
			err = fmt.Errorf("found %d bytes, wanted %d", want-exact.left, want)
		}
		if err == nil {
			_, err = w.Write(make([]byte, aligned(want, defaultAlignment)-want))
		}
		if err != nil {
			return fmt.Errorf("gguf: write: tensor %q: %w", t.Name, err)
		}
	}
	return nil
}

func makeHeader(keys []Key, tensors []Tensor) ([]byte, error) {
	var b bytes.Buffer
	b.WriteString(magic)
	put := func(v any) { _ = binary.Write(&b, binary.LittleEndian, v) } // a buffer never fails
	text := func(s string) { put(uint64(len(s))); b.WriteString(s) }
	put(uint32(version))
	put(uint64(len(tensors)))
	put(uint64(len(keys)))
	names := map[string]bool{}
	for _, k := range keys {
		if k.Name == "" || names[k.Name] {
			return nil, fmt.Errorf("key %q: found an empty name, or one twice", k.Name)
		}
		names[k.Name] = true
		text(k.Name)
		if err := putValue(put, text, k.Value); err != nil {
			return nil, fmt.Errorf("key %q: %w", k.Name, err)
		}
	}
	clear(names)
	offset := int64(0)
	for _, t := range tensors {
		n, err := t.Bytes()
		switch {
		case err != nil:
			return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
		case t.Name == "" || names[t.Name]:
			return nil, fmt.Errorf("tensor %q: found an empty name, or one twice", t.Name)
		case len(t.Shape) == 0 || len(t.Shape) > mostDims:
			return nil, fmt.Errorf("tensor %q: found %d dimensions, wanted 1 to %d", t.Name, len(t.Shape), mostDims)
		}
		names[t.Name] = true
		text(t.Name)
		put(uint32(len(t.Shape)))
		for _, d := range slices.Backward(t.Shape) {
			put(uint64(d))
		}
		put(uint32(t.Type))
		put(uint64(offset))
		offset = aligned(offset+n, defaultAlignment)
	}
	b.Write(make([]byte, aligned(int64(b.Len()), defaultAlignment)-int64(b.Len())))
	return b.Bytes(), nil
}

// putValue writes the kind of a value, which has the name of its type, and the value.
func putValue(put func(any), text func(string), value any) error {
	name, many := strings.CutPrefix(fmt.Sprintf("%T", value), "[]")
	kind := 0
	for kind < len(kinds) && kinds[kind].name != name {
		kind++
	}
	if kind == len(kinds) {
		return fmt.Errorf("found a value of type %T, wanted a flag, a text, a number, or a slice of these", value)
	}
	if f, ok := value.(float32); ok && f-f != 0 {
		return fmt.Errorf("found %g, wanted a finite number", f)
	}
	if many {
		put(uint32(arrayKind))
	}
	put(uint32(kind))
	if many {
		put(uint64(reflect.ValueOf(value).Len()))
	}
	switch v := value.(type) {
	case string:
		text(v)
	case []string:
		for _, s := range v {
			text(s)
		}
	default:
		put(value)
	}
	return nil
}

// exactWriter refuses what goes beyond a tensor's length, before it reaches the file.
type exactWriter struct {
	w    io.Writer
	left int64
}

func (e *exactWriter) Write(p []byte) (int, error) {
	if int64(len(p)) > e.left {
		return 0, fmt.Errorf("found %d bytes more than its shape has", int64(len(p))-e.left)
	}
	n, err := e.w.Write(p)
	e.left -= int64(n)
	return n, err
}
