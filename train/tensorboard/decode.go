package tensorboard

import (
	"fmt"
	"math"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// field is one field of a message: a number in bits, or bytes.
type field struct {
	number protowire.Number
	kind   protowire.Type
	bits   uint64
	bytes  []byte
}

// walk calls visit for every field of a message.
func walk(message []byte, visit func(f field) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		f := field{number: number, kind: kind}
		switch kind {
		case protowire.VarintType:
			f.bits, n = protowire.ConsumeVarint(message)
		case protowire.Fixed64Type:
			f.bits, n = protowire.ConsumeFixed64(message)
		case protowire.Fixed32Type:
			var bits uint32
			bits, n = protowire.ConsumeFixed32(message)
			f.bits = uint64(bits)
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(message)
		default: // a group, which no message here has
			n = protowire.ConsumeFieldValue(number, kind, message)
		}
		if n < 0 {
			return fmt.Errorf("field %d: %w", number, protowire.ParseError(n))
		}
		message = message[n:]
		if err := visit(f); err != nil {
			return fmt.Errorf("field %d: %w", number, err)
		}
	}
	return nil
}

// is wants a field of a kind.
func (f field) is(kind protowire.Type) error {
	if f.kind != kind {
		return fmt.Errorf("found wire type %d, wanted %d", f.kind, kind)
	}
	return nil
}

func (f field) double(to *float64) error {
	*to = math.Float64frombits(f.bits)
	return f.is(protowire.Fixed64Type)
}

func (f field) text(to *string) error {
	if !utf8.Valid(f.bytes) {
		return fmt.Errorf("found bytes that are not UTF-8, wanted text")
	}
	*to = string(f.bytes)
	return f.is(protowire.BytesType)
}

// message walks the fields of a message in a field.
func (f field) message(visit func(f field) error) error {
	if err := f.is(protowire.BytesType); err != nil {
		return err
	}
	return walk(f.bytes, visit)
}

// decode is the event of a message. Fields that this package does not know are passed over.
func decode(message []byte) (e Event, err error) {
	err = walk(message, func(f field) error {
		switch f.number {
		case eventWallTime:
			return f.double(&e.WallTime)
		case eventStep:
			e.Step = int64(f.bits)
			return f.is(protowire.VarintType)
		case eventFileVersion:
			return f.text(&e.Version)
		case eventSessionLog:
			return f.message(func(f field) error {
				if f.number != sessionLogStatus {
					return nil
				}
				e.Start = f.bits == statusStart
				return f.is(protowire.VarintType)
			})
		case eventSummary:
			return f.message(func(f field) error {
				if f.number != summaryValue {
					return nil
				}
				v, err := decodeValue(f)
				e.Values = append(e.Values, v)
				return err
			})
		}
		return nil
	})
	return e, err
}

func decodeValue(f field) (v Value, err error) {
	return v, f.message(func(f field) error {
		switch f.number {
		case valueTag:
			return f.text(&v.Tag)
		case valueSimple:
			v.Kind, v.Scalar = Scalar, math.Float32frombits(uint32(f.bits))
			return f.is(protowire.Fixed32Type)
		case valueHistogram:
			v.Kind, v.Histogram = Distribution, new(Histogram)
			return v.Histogram.decode(f)
		case valueTensor:
			return f.message(func(f field) error {
				if f.number != tensorString {
					return nil
				}
				v.Kind = Text
				return f.text(&v.Text)
			})
		}
		return nil
	})
}

func (h *Histogram) decode(f field) error {
	err := f.message(func(f field) error {
		switch f.number {
		case histogramMin:
			return f.double(&h.Min)
		case histogramMax:
			return f.double(&h.Max)
		case histogramNum:
			return f.double(&h.Count)
		case histogramSum:
			return f.double(&h.Sum)
		case histogramSumSquares:
			return f.double(&h.SumOfSquares)
		case histogramLimit:
			return f.doubles(&h.Limits)
		case histogramBucket:
			return f.doubles(&h.Counts)
		}
		return nil
	})
	if err == nil && len(h.Limits) != len(h.Counts) {
		err = fmt.Errorf("found %d limits and %d counts, wanted as many", len(h.Limits), len(h.Counts))
	}
	return err
}

// doubles appends what a repeated field has, packed or one by one.
func (f field) doubles(to *[]float64) error {
	if f.kind == protowire.Fixed64Type {
		*to = append(*to, math.Float64frombits(f.bits))
		return nil
	}
	if len(f.bytes)%8 != 0 {
		return fmt.Errorf("found %d bytes, wanted doubles of 8", len(f.bytes))
	}
	for rest := f.bytes; len(rest) > 0; {
		bits, n := protowire.ConsumeFixed64(rest)
		*to, rest = append(*to, math.Float64frombits(bits)), rest[n:]
	}
	return f.is(protowire.BytesType)
}
