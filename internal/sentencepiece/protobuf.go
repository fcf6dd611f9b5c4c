package sentencepiece

import (
	"errors"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// field is one of a message of Protocol Buffers: a number, four bytes or a piece of the message.
type field struct {
	number protowire.Number
	value  uint64
	bytes  []byte // of text and messages
}

var errMessage = errors.New("found the end, or bytes that are none, in the middle of a field; wanted a SentencePiece model")

// fields visits the fields of a message in their order.
func fields(raw []byte, visit func(f field) error) error {
	for len(raw) > 0 {
		number, kind, n := protowire.ConsumeTag(raw)
		if n < 0 {
			return errMessage
		}
		f, four := field{number: number}, uint32(0)
		raw = raw[n:]
		switch kind {
		case protowire.VarintType:
			f.value, n = protowire.ConsumeVarint(raw)
		case protowire.Fixed32Type:
			four, n = protowire.ConsumeFixed32(raw)
			f.value = uint64(four)
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(raw)
		default:
			n = protowire.ConsumeFieldValue(number, kind, raw)
		}
		if n < 0 {
			return errMessage
		}
		if err := visit(f); err != nil {
			return err
		}
		raw = raw[n:]
	}
	return nil
}

// message is one that is being written.
type message []byte

// number appends a field.
func (m *message) number(field protowire.Number, v uint64) {
	*m = protowire.AppendVarint(protowire.AppendTag(*m, field, protowire.VarintType), v)
}

// flag appends a field.
func (m *message) flag(field protowire.Number, v bool) { m.number(field, protowire.EncodeBool(v)) }

// float appends a field of four bytes.
func (m *message) float(field protowire.Number, v float32) {
	*m = protowire.AppendFixed32(protowire.AppendTag(*m, field, protowire.Fixed32Type), math.Float32bits(v))
}

// bytes appends a text or a message.
func (m *message) bytes(field protowire.Number, b []byte) {
	*m = protowire.AppendBytes(protowire.AppendTag(*m, field, protowire.BytesType), b)
}
