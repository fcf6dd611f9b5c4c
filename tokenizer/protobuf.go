package tokenizer

import (
	"encoding/binary"
	"errors"
)

// A message of Protocol Buffers is read field by field, as far as a SentencePiece model needs it.
type message struct{ rest []byte }

// field is one of a message: a number, four bytes or a piece of the message.
type field struct {
	number int
	value  uint64
	bytes  []byte // of text and messages; nil for numbers
}

var errMessage = errors.New("found the end, or bytes that are none, in the middle of a field; wanted a SentencePiece model")

// next is the next field; ok is false at the end.
func (m *message) next() (f field, ok bool, err error) {
	if len(m.rest) == 0 {
		return f, false, nil
	}
	key, err := m.varint()
	if err != nil {
		return f, false, err
	}
	f.number = int(key >> 3)
	switch key & 7 {
	case 0:
		f.value, err = m.varint()
	case 1:
		f.bytes, err = m.take(8)
	case 2:
		var n uint64
		if n, err = m.varint(); err == nil {
			f.bytes, err = m.take(n)
		}
	case 5:
		var b []byte
		if b, err = m.take(4); err == nil {
			f.value = uint64(binary.LittleEndian.Uint32(b))
		}
	default:
		err = errMessage
	}
	if f.number <= 0 || f.number > 1<<29 {
		err = errMessage
	}
	return f, err == nil, err
}

func (m *message) varint() (uint64, error) {
	v, n := binary.Uvarint(m.rest)
	if n <= 0 {
		return 0, errMessage
	}
	m.rest = m.rest[n:]
	return v, nil
}

// take is the next n bytes, never nil.
func (m *message) take(n uint64) ([]byte, error) {
	if n > uint64(len(m.rest)) {
		return nil, errMessage
	}
	b := m.rest[:n:n]
	m.rest = m.rest[n:]
	return b, nil
}
