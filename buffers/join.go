package buffers

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"gputrain/buffers/array"
)

// Join lists the whole tensors of a state that lies in several places, in order of their names. Tensors with one name
// that are rows of one tensor become that tensor: its Read gathers and its Write divides. Errors: a name given twice,
// rows that do not make up the whole or belong to different tensors.
func Join(tensors []Tensor) ([]Tensor, error) {
	byName := map[string][]Tensor{}
	for _, t := range tensors {
		byName[t.Name] = append(byName[t.Name], t)
	}
	var out []Tensor
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		pieces := byName[name]
		if len(pieces) == 1 && pieces[0].Rows == nil {
			out = append(out, pieces[0])
			continue
		}
		if err := complete(pieces); err != nil {
			return nil, fmt.Errorf("buffers: join: tensor %q: %w", name, err)
		}
		out = append(out, joined(pieces))
	}
	return out, nil
}

// complete checks that pieces have each row of one whole once.
func complete(pieces []Tensor) error {
	first := pieces[0]
	var seen []bool
	for i, t := range pieces {
		switch {
		case t.Rows == nil:
			return fmt.Errorf("given more than once, not as rows")
		case t.DType != first.DType || !slices.Equal(t.Whole, first.Whole):
			return fmt.Errorf("rows of %v %v and of %v %v", first.DType, first.Whole, t.DType, t.Whole)
		case len(t.Whole) == 0 || len(t.Shape) != len(t.Whole) || t.Shape[0] != len(t.Rows):
			return fmt.Errorf("shape %v and %d rows of %v", t.Shape, len(t.Rows), t.Whole)
		case i == 0:
			seen = make([]bool, t.Whole[0])
		}
		for axis := 1; axis < len(t.Shape); axis++ {
			if t.Shape[axis] > t.Whole[axis] {
				return fmt.Errorf("shape %v does not fit the rows of %v", t.Shape, t.Whole)
			}
		}
		for _, row := range t.Rows {
			switch {
			case row < 0 || row >= len(seen):
				return fmt.Errorf("row %d of %d", row, len(seen))
			case seen[row]:
				return fmt.Errorf("row %d is given twice", row)
			default:
				seen[row] = true
			}
		}
	}
	if row := slices.Index(seen, false); row >= 0 {
		return fmt.Errorf("row %d of %d is missing", row, len(seen))
	}
	return nil
}

// joined is the tensor that pieces make up.
func joined(pieces []Tensor) Tensor {
	whole := Tensor{Name: pieces[0].Name, DType: pieces[0].DType, Shape: pieces[0].Whole}
	whole.Read = func(ctx context.Context) ([]byte, error) {
		out := make([]byte, whole.Bytes())
		for _, t := range pieces {
			raw, err := t.Read(ctx)
			if err != nil {
				return nil, err
			}
			if len(raw) != t.Bytes() {
				return nil, fmt.Errorf("buffers: join: tensor %q: %d bytes, want %d of %v %v", t.Name, len(raw), t.Bytes(), t.DType, t.Shape)
			}
			t.eachRun(0, len(t.Rows), func(at, in, bytes int) { copy(out[at:at+bytes], raw[in:]) })
		}
		return out, nil
	}
	if !slices.ContainsFunc(pieces, func(t Tensor) bool { return t.ReadAt == nil }) {
		whole.ReadAt = func(ctx context.Context, dst []byte, at int) error {
			clear(dst)
			for _, t := range pieces {
				if err := t.readRows(ctx, dst, at); err != nil {
					return err
				}
			}
			return nil
		}
	}
	if !slices.ContainsFunc(pieces, func(t Tensor) bool { return t.WriteAt == nil }) {
		whole.WriteAt = func(raw []byte, at int) error {
			for _, t := range pieces {
				if err := t.writeRows(raw, at); err != nil {
					return err
				}
			}
			return nil
		}
	}
	whole.Write = func(raw []byte) error {
		if len(raw) != whole.Bytes() {
			return fmt.Errorf("buffers: join: tensor %q: %d bytes, want %d of %v %v", whole.Name, len(raw), whole.Bytes(), whole.DType, whole.Shape)
		}
		for _, t := range pieces {
			part := make([]byte, t.Bytes())
			t.eachRun(0, len(t.Rows), func(at, in, bytes int) { copy(part[in:in+bytes], raw[at:]) })
			if err := t.Write(part); err != nil {
				return err
			}
		}
		return nil
	}
	return whole
}

// Bytes is the size of the tensor.
func (t Tensor) Bytes() int { return array.Elements(t.Shape) * t.DType.Bits() / 8 }

// readRows fills dst, the bytes of the whole from byte at on, with what the tensor's rows have of them.
func (t Tensor) readRows(ctx context.Context, dst []byte, at int) error {
	return t.rowsIn(at, len(dst), func(from, to, here int) error {
		raw := make([]byte, (to-from)*here)
		if err := t.ReadAt(ctx, raw, from*here); err != nil {
			return err
		}
		t.eachRun(from, to, func(begin, in, bytes int) {
			if first, last := max(begin, at), min(begin+bytes, at+len(dst)); first < last {
				copy(dst[first-at:last-at], raw[in-from*here+first-begin:])
			}
		})
		return nil
	})
}

// writeRows writes those of the tensor's rows that raw has, which is rows of the whole from byte at on.
func (t Tensor) writeRows(raw []byte, at int) error {
	return t.rowsIn(at, len(raw), func(from, to, here int) error {
		part := make([]byte, (to-from)*here)
		t.eachRun(from, to, func(begin, in, bytes int) { copy(part[in-from*here:][:bytes], raw[begin-at:]) })
		return t.WriteAt(part, from*here)
	})
}

// rowsIn calls f with the rows [from, to) of the tensor that have some of bytes [at, at+n) of the whole, as long as they lie one after the other, and with the
// bytes of a row here.
func (t Tensor) rowsIn(at, n int, f func(from, to, here int) error) error {
	size := t.DType.Bits() / 8
	there, here := size*array.Elements(t.Whole[1:]), size*array.Elements(t.Shape[1:])
	for from := 0; from < len(t.Rows); from++ {
		to := from
		for to < len(t.Rows) && t.Rows[to]*there < at+n && (t.Rows[to]+1)*there > at {
			to++
		}
		if from < to {
			if err := f(from, to, here); err != nil {
				return err
			}
			from = to
		}
	}
	return nil
}

// eachRun calls f with each run of bytes of the tensor's rows [from, to): where it begins in the whole and in the tensor, and its length.
func (t Tensor) eachRun(from, to int, f func(at, in, bytes int)) {
	size := t.DType.Bits() / 8
	there, here := array.Elements(t.Whole[1:]), array.Elements(t.Shape[1:])
	for i := from; i < to; i++ {
		row := t.Rows[i]
		runs(t.Whole[1:], t.Shape[1:], func(at, in, count int) {
			f((row*there+at)*size, (i*here+in)*size, count*size)
		})
	}
}

// runs calls f with the runs of an array of shape inner that lies at the origin of one of shape outer, in elements.
func runs(outer, inner []int, f func(at, in, count int)) {
	switch len(inner) {
	case 0:
		f(0, 0, 1)
	case 1:
		f(0, 0, inner[0])
	default:
		there, here := array.Elements(outer[1:]), array.Elements(inner[1:])
		for i := range inner[0] {
			runs(outer[1:], inner[1:], func(at, in, count int) { f(i*there+at, i*here+in, count) })
		}
	}
}
