package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// skimmer goes through a struct of Thrift's compact protocol, in which files describe themselves, and takes no memory for what it claims to have.
// https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
type skimmer struct {
	raw   []byte
	at    int
	path  [2]int16 // of the field in the outermost struct and in one of its own
	depth int
	each  func(path [2]int16, value int64) // whole numbers; nil: nobody asks
}

// mostDepth is how deep structs may stand in one another: those of Parquet stand seven deep.
const mostDepth = 32

// Types of fields.
const (
	thriftTrue = iota + 1
	thriftFalse
	thriftByte
	thriftI16
	thriftI32
	thriftI64
	thriftDouble
	thriftBinary
	thriftList
	thriftSet
	thriftMap
	thriftStruct
)

// skim returns how many bytes a struct has.
func skim(raw []byte, each func(path [2]int16, value int64)) (int, error) {
	s := skimmer{raw: raw, each: each}
	err := s.fields()
	return s.at, err
}

func (s *skimmer) fields() error {
	if s.depth++; s.depth > mostDepth {
		return fmt.Errorf("structs stand more than %d deep in one another", mostDepth)
	}
	defer func() { s.depth-- }()
	for id := int16(0); ; {
		head, err := s.byte()
		if err != nil {
			return err
		}
		kind := head & 15
		if head == 0 {
			return nil
		}
		if step := int16(head >> 4); step > 0 {
			id += step
		} else {
			n, err := s.signed()
			if err != nil {
				return err
			}
			id = int16(n)
		}
		switch s.depth {
		case 1:
			s.path = [2]int16{id, 0}
		case 2:
			s.path[1] = id
		}
		if err := s.value(kind, false); err != nil {
			return err
		}
	}
}

// value goes over one; a truth of a list has a byte.
func (s *skimmer) value(kind byte, listed bool) error {
	switch kind {
	case thriftTrue, thriftFalse:
		if listed {
			return s.skip(1)
		}
		return nil
	case thriftByte:
		return s.skip(1)
	case thriftI16, thriftI32, thriftI64:
		n, err := s.signed()
		if err == nil && s.each != nil && s.depth <= 2 && !listed {
			s.each(s.path, n)
		}
		return err
	case thriftDouble:
		return s.skip(8)
	case thriftBinary:
		n, err := s.unsigned()
		if err != nil {
			return err
		}
		return s.skip(n)
	case thriftList, thriftSet:
		return s.list()
	case thriftMap:
		return s.pairs()
	case thriftStruct:
		return s.fields()
	}
	return fmt.Errorf("byte %d: a field of type %d, wanted 1 to 12", s.at, kind)
}

func (s *skimmer) list() error {
	head, err := s.byte()
	if err != nil {
		return err
	}
	n := uint64(head >> 4)
	if n == 15 {
		if n, err = s.unsigned(); err != nil {
			return err
		}
	}
	if n > uint64(len(s.raw)-s.at) {
		return io.ErrUnexpectedEOF
	}
	if s.depth++; s.depth > mostDepth {
		return fmt.Errorf("lists stand more than %d deep in one another", mostDepth)
	}
	defer func() { s.depth-- }()
	for range n {
		if err := s.value(head&15, true); err != nil {
			return err
		}
	}
	return nil
}

func (s *skimmer) pairs() error {
	n, err := s.unsigned()
	if err != nil || n == 0 {
		return err
	}
	kinds, err := s.byte()
	if err != nil {
		return err
	}
	if n > uint64(len(s.raw)-s.at) {
		return io.ErrUnexpectedEOF
	}
	if s.depth++; s.depth > mostDepth {
		return fmt.Errorf("maps stand more than %d deep in one another", mostDepth)
	}
	defer func() { s.depth-- }()
	for range n {
		if err := s.value(kinds>>4, true); err != nil {
			return err
		}
		if err := s.value(kinds&15, true); err != nil {
			return err
		}
	}
	return nil
}

func (s *skimmer) byte() (byte, error) {
	if s.at >= len(s.raw) {
		return 0, io.ErrUnexpectedEOF
	}
	s.at++
	return s.raw[s.at-1], nil
}

func (s *skimmer) skip(n uint64) error {
	if n > uint64(len(s.raw)-s.at) {
		return io.ErrUnexpectedEOF
	}
	s.at += int(n)
	return nil
}

func (s *skimmer) unsigned() (uint64, error) {
	v, n := binary.Uvarint(s.raw[s.at:])
	switch {
	case n == 0:
		return 0, io.ErrUnexpectedEOF
	case n < 0:
		return 0, errors.New("a number of more than 64 bits")
	}
	s.at += n
	return v, nil
}

// signed is a number whose lowest bit is its sign.
func (s *skimmer) signed() (int64, error) {
	v, err := s.unsigned()
	return int64(v>>1) ^ -int64(v&1), err
}
