// Package protobuf reads and writes messages of Protocol Buffers field by field, as far as a SentencePiece model needs it.
package protobuf

import (
	"encoding/binary"
	"errors"
	"math"
)

// Field is one of a message: a number, four bytes or a piece of the message.
type Field struct {
	Number int
	Value  uint64
	Bytes  []byte // of text and messages; nil for numbers
}

var errMessage = errors.New("found the end, or bytes that are none, in the middle of a field; wanted a message of Protocol Buffers")

// Fields visits the fields of a message in their order.
func Fields(raw []byte, visit func(f Field) error) error {
	for len(raw) > 0 {
		f, rest, err := next(raw)
		if err == nil {
			err = visit(f)
		}
		if err != nil {
			return err
		}
		raw = rest
	}
	return nil
}

func next(raw []byte) (f Field, rest []byte, err error) {
	key, raw, err := varint(raw)
	if err != nil {
		return f, nil, err
	}
	f.Number = int(key >> 3)
	switch key & 7 {
	case 0:
		f.Value, raw, err = varint(raw)
	case 1:
		f.Bytes, raw, err = take(raw, 8)
	case 2:
		var n uint64
		if n, raw, err = varint(raw); err == nil {
			f.Bytes, raw, err = take(raw, n)
		}
	case 5:
		var b []byte
		if b, raw, err = take(raw, 4); err == nil {
			f.Value = uint64(binary.LittleEndian.Uint32(b))
		}
	default:
		err = errMessage
	}
	if f.Number <= 0 || f.Number > 1<<29 {
		err = errMessage
	}
	return f, raw, err
}

func varint(raw []byte) (uint64, []byte, error) {
	v, n := binary.Uvarint(raw)
	if n <= 0 {
		return 0, nil, errMessage
	}
	return v, raw[n:], nil
}

// take is the next n bytes, never nil.
func take(raw []byte, n uint64) (taken, rest []byte, err error) {
	if n > uint64(len(raw)) {
		return nil, nil, errMessage
	}
	return raw[:n:n], raw[n:], nil
}

// Message is one that is being written.
type Message []byte

// Number appends a field.
func (m *Message) Number(field int, v uint64) { m.varints(uint64(field)<<3, v) }

// Flag appends a field.
func (m *Message) Flag(field int, v bool) { m.Number(field, map[bool]uint64{true: 1}[v]) }

// Float appends a field of four bytes.
func (m *Message) Float(field int, v float32) {
	m.varints(uint64(field)<<3 | 5)
	*m = binary.LittleEndian.AppendUint32(*m, math.Float32bits(v))
}

// Bytes appends a text or a message.
func (m *Message) Bytes(field int, b []byte) {
	m.varints(uint64(field)<<3|2, uint64(len(b)))
	*m = append(*m, b...)
}

func (m *Message) varints(all ...uint64) {
	for _, v := range all {
		*m = binary.AppendUvarint(*m, v)
	}
}
