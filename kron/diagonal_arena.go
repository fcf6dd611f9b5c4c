package kron

import (
	"fmt"

	"gputrain/gpu"
)

// arena makes the buffers of a path and keeps the first error, with which everything after it does nothing.
type arena struct {
	dev     *gpu.Device
	label   string // of the path
	buffers []*gpu.Buffer
	err     error
}

// zeros is a buffer of so many bytes.
func (a *arena) zeros(name string, bytes uint64) *gpu.Buffer {
	if a.err != nil {
		return nil
	}
	label := "gputrain.kron." + a.label + "." + name
	if limit := a.dev.Limits().BindingBytes; bytes > limit {
		a.err = &gpu.LimitError{Subject: fmt.Sprintf("%q", label), Bytes: bytes, Limit: limit, Name: "BindingBytes"}
		return nil
	}
	b, err := a.dev.NewBuffer(label, bytes)
	if err != nil {
		a.err = err
		return nil
	}
	a.buffers = append(a.buffers, b)
	return b
}

// filled is a buffer with contents.
func (a *arena) filled(name string, table any) *gpu.Buffer {
	contents := gpu.Bytes(table)
	b := a.zeros(name, uint64(len(contents)))
	if a.err == nil && len(contents) > 0 {
		a.err = a.dev.Write(b.Range(0, uint64(len(contents))), contents)
	}
	return b
}

func (a *arena) bytes() uint64 {
	n := uint64(0)
	for _, b := range a.buffers {
		n += b.Bytes()
	}
	return n
}

func (a *arena) release() {
	for _, b := range a.buffers {
		b.Release()
	}
	a.buffers = nil
}
