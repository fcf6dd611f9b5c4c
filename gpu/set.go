package gpu

import (
	"encoding/binary"
	"fmt"
)

// Set makes buffers that live and go together. It keeps the first error, with which everything after it makes nothing: Err is asked once,
// when all are made.
type Set struct {
	device  *Device
	label   string
	buffers []*Buffer
	err     error
}

// NewSet is a set of no buffers; theirs are labelled with its label and their names.
func (d *Device) NewSet(label string) *Set { return &Set{device: d, label: label} }

// Device is where the buffers are.
func (s *Set) Device() *Device { return s.device }

// Zeros is a storage buffer of so many bytes, which fit one binding.
func (s *Set) Zeros(name string, bytes uint64) *Buffer {
	if limit := s.device.limits.BindingBytes; bytes > limit && s.err == nil {
		s.err = &LimitError{Subject: fmt.Sprintf("%q", s.label+"."+name), Bytes: bytes, Limit: limit, Name: "BindingBytes"}
	}
	return s.add(s.device.NewBuffer, name, bytes)
}

// Uniform is a uniform buffer.
func (s *Set) Uniform(name string, bytes uint64) *Buffer {
	return s.add(s.device.NewUniform, name, bytes)
}

func (s *Set) add(make func(label string, bytes uint64) (*Buffer, error), name string, bytes uint64) *Buffer {
	if s.err != nil {
		return nil
	}
	b, err := make(s.label+"."+name, bytes)
	if err != nil {
		s.err = err
		return nil
	}
	s.buffers = append(s.buffers, b)
	return b
}

// Filled is a storage buffer with a table in it, see Bytes.
func (s *Set) Filled(name string, table any) *Buffer {
	size := uint64(binary.Size(table))
	b := s.Zeros(name, size)
	if s.err == nil && size > 0 && !s.device.Dry() { // which drops what is written
		s.err = s.device.Write(b.Range(0, size), Bytes(table))
	}
	return b
}

// Err is the first error.
func (s *Set) Err() error { return s.err }

// Bytes is what the buffers take.
func (s *Set) Bytes() uint64 {
	n := uint64(0)
	for _, b := range s.buffers {
		n += b.Bytes()
	}
	return n
}

// Release gives them back. A nil set has none.
func (s *Set) Release() {
	if s == nil {
		return
	}
	for _, b := range s.buffers {
		b.Release()
	}
	s.buffers = nil
}
