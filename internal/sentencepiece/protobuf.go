package sentencepiece

import (
	"encoding/binary"
	"errors"
	"math"
)

// field is one of a message of Protocol Buffers: a number, four bytes or a piece of the message.
type field struct {
	number int
	value  uint64
	bytes  []byte // of text and messages; nil for numbers
}

var errMessage = errors.New("found the end, or bytes that are none, in the middle of a field; wanted a SentencePiece model")

// fields visits the fields of a message in their order.
func fields(raw []byte, visit func(f field) error) error {
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

func next(raw []byte) (f field, rest []byte, err error) {
	key, raw, err := varint(raw)
	if err != nil {
		return f, nil, err
	}
	f.number = int(key >> 3)
	switch key & 7 {
	case 0:
		f.value, raw, err = varint(raw)
	case 1:
		f.bytes, raw, err = take(raw, 8)
	case 2:
		var n uint64
		if n, raw, err = varint(raw); err == nil {
			f.bytes, raw, err = take(raw, n)
		}
	case 5:
		var b []byte
		if b, raw, err = take(raw, 4); err == nil {
			f.value = uint64(binary.LittleEndian.Uint32(b))
		}
	default:
		err = errMessage
	}
	if f.number <= 0 || f.number > 1<<29 {
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

// message is one that is being written.
type message []byte

// number appends a field.
func (m *message) number(field int, v uint64) { m.varints(uint64(field)<<3, v) }

// flag appends a field.
func (m *message) flag(field int, v bool) { m.number(field, map[bool]uint64{true: 1}[v]) }

// float appends a field of four bytes.
func (m *message) float(field int, v float32) {
	m.varints(uint64(field)<<3 | 5)
	*m = binary.LittleEndian.AppendUint32(*m, math.Float32bits(v))
}

// bytes appends a text or a message.
func (m *message) bytes(field int, b []byte) {
	m.varints(uint64(field)<<3|2, uint64(len(b)))
	*m = append(*m, b...)
}

func (m *message) varints(all ...uint64) {
	for _, v := range all {
		*m = binary.AppendUvarint(*m, v)
	}
}
