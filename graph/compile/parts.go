package compile

import (
	"fmt"
	"slices"

	"gputrain/gpu"
	"gputrain/graph"
)

// A value larger than a binding lies in parts of whole rows of its leading axis, as leaves do. What goes row by row runs once a part. What adds rows
// up goes on from where it stands, so that a sum has the same bits however its rows lie.

// largest is what one part may have.
func (c *Compiler) largest() uint64 { return min(c.limits.BindingBytes, c.limits.BufferBytes) }

// newTensor is memory for a value: in parts where it exceeds a binding, each a storage of its own where nobody else must find the value in one buffer.
func (c *Compiler) newTensor(kind storageKind, label string, v *graph.Value) (Tensor, *storage) {
	size, bf16 := roundUp(typeBytes(v.Shape(), v.DType()), spanAlign), inBF16(v)
	if kind == transientStorage && c.inHalves(v) {
		st := c.newStorage(kind, label, size/2)
		st.half, c.halves = true, true
		t := wholeTensor(st, v.Shape(), v.DType())
		t.Parts[0].Span.Bytes = st.bytes
		return t, st
	}
	if roundUp(typeBytes(v.Shape(), wide(v.DType())), spanAlign) <= c.largest() {
		st := c.newStorage(kind, label, size)
		st.bf16 = bf16
		return wholeTensor(st, v.Shape(), v.DType()), st
	}
	t := Tensor{Shape: v.Shape(), DType: v.DType()}
	rows, rowBytes := c.partRows(v, label), typeBytes(t.Shape[1:], t.DType)
	if rows == 0 {
		st := &storage{kind: kind, label: label, bytes: size}
		return wholeTensor(st, t.Shape, t.DType), st
	}
	var st *storage
	if kind != transientStorage {
		st = c.largeStorage(kind, label, size)
		st.bf16 = bf16
	}
	for row := 0; row < t.rows(); row += rows {
		p := Part{Row: row, Rows: min(rows, t.rows()-row)}
		p.Span = Span{st: st, Offset: uint64(row) * rowBytes, Bytes: roundUp(uint64(p.Rows)*rowBytes, spanAlign)}
		if st == nil {
			p.Span.st, p.Span.Offset = c.newStorage(kind, fmt.Sprintf("%s.rows.%d", label, row), p.Span.Bytes), 0
			p.Span.st.bf16 = bf16
		}
		t.Parts = append(t.Parts, p)
	}
	return t, st
}

// largeStorage is a storage that is bound in ranges.
func (c *Compiler) largeStorage(kind storageKind, label string, size uint64) *storage {
	if size > c.limits.BufferBytes {
		c.tooLarge(label, size, c.limits.BufferBytes, "BufferBytes", "the batch or the context")
	}
	st := &storage{kind: kind, label: label, bytes: size, first: -1, last: -1, buffer: -1}
	c.storages = append(c.storages, st)
	return st
}

func (c *Compiler) tooLarge(subject string, size, limit uint64, name, lower string) {
	err := &gpu.LimitError{Subject: subject, Bytes: size, Limit: limit, Name: name}
	c.failErr(fmt.Errorf("%w; lower %s", error(err), lower))
}

// partRows is how many rows a part of a value has: such that every view of the value has whole rows in each part, and if that can be, such that
// what other values of these rows have of them starts at an aligned offset. 0, with an error, where it is more than a binding.
func (c *Compiler) partRows(v *graph.Value, label string) int {
	aligned := 64 // f32s in 256 bytes
	if c.bf16 {
		aligned = 128
	}
	shape, units := v.Shape(), c.commonRows(v)
	unitBytes := typeBytes(shape, wide(v.DType())) / uint64(units)
	most := int(c.largest() / unitBytes)
	if most == 0 {
		c.tooLarge(fmt.Sprintf("%s %v: one of %d rows", label, shape, units), unitBytes, c.largest(), "BindingBytes", "the context or the width")
		return 0
	}
	lines := shape[0] / units
	if len(shape) > 1 {
		lines = graph.Elements(shape[:len(shape)-1]) / units
	}
	step := aligned / gcd(aligned, lines)
	for step > most {
		step /= 2
	}
	return most / step * step * (shape[0] / units)
}

// commonRows is the number of rows that a value and all that views it as a whole can be divided in.
func (c *Compiler) commonRows(v *graph.Value) int {
	units := max(1, Tensor{Shape: v.Shape()}.rows())
	for _, out := range c.reshaped[v] {
		if out.Type().Elements() == v.Type().Elements() {
			units = gcd(units, Tensor{Shape: out.Shape()}.rows())
		}
	}
	return units
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// operand of a kernel that goes row by row: a tensor whose leading axis the rows run along, or one that every row needs.
type rowOperand struct {
	tensor Tensor
	whole  bool
	name   string
}

// rowwise calls do once for each run of rows that lies in one part of every operand, with the operands' spans of those rows. share is what a number
// that counts along all rows is for this run.
func (c *Compiler) rowwise(operands []rowOperand, do func(share func(n int) int, spans []Span)) {
	units := 0
	for _, o := range operands {
		if !o.whole {
			units = gcd(units, o.tensor.rows())
		}
	}
	edges := []int{0, units}
	for _, o := range operands {
		for _, p := range o.tensor.Parts {
			if at := p.Row * units; !o.whole && at%o.tensor.rows() == 0 {
				edges = append(edges, at/o.tensor.rows())
			}
		}
	}
	slices.Sort(edges)
	edges = slices.Compact(edges)
	for i, first := range edges[:len(edges)-1] {
		last := edges[i+1]
		spans := make([]Span, len(operands))
		for j, o := range operands {
			if o.whole || len(edges) == 2 {
				spans[j] = c.One(o.tensor, o.name)
				continue
			}
			per := o.tensor.rows() / units
			spans[j] = c.rowsOf(o.tensor, run{start: first * per, length: (last - first) * per}, o.name)
		}
		if c.err != nil {
			return
		}
		do(func(n int) int { return n * (last - first) / units }, spans)
	}
}

// rowsOf is the span of some rows of a tensor, all in one part.
func (c *Compiler) rowsOf(t Tensor, r run, name string) Span {
	for _, p := range t.Parts {
		rowBytes := typeBytes(t.Shape[1:], t.DType)
		if p.Span.st.half {
			rowBytes /= 2
		}
		if r.start >= p.Row && r.start+r.length <= p.Row+p.Rows {
			span := p.Span.at(uint64(r.start-p.Row)*rowBytes, uint64(r.length)*rowBytes)
			if span.Offset%c.limits.StorageAlign != 0 {
				c.fail("%s %v: row %d, where a part of another operand begins: at byte %d, wanted a multiple of %d; lower the batch, or take a context that is a multiple of 64",
					name, t.Shape, r.start, span.Offset, c.limits.StorageAlign)
			}
			return span
		}
	}
	c.fail("%s: rows %d to %d of %v lie in several parts of at most %d bytes", name, r.start, r.start+r.length, t.Shape, c.largest())
	return Span{}
}

// rowOperands are values whose leading axis is that of the rows.
func (c *Compiler) rowOperands(name string, values ...*graph.Value) []rowOperand {
	out := make([]rowOperand, len(values))
	for i, v := range values {
		out[i] = rowOperand{tensor: c.place(v), name: fmt.Sprintf("%s %d", name, i)}
	}
	return out
}

// scales are values that every row needs.
func (c *Compiler) scales(values ...*graph.Value) []rowOperand {
	out := c.rowOperands("scale", values...)
	for i := range out {
		out[i].whole = true
	}
	return out
}

// inTurns gives the terms of a sum of some rows of out workspace to go on in, which out receives or is added at the end. It is there in both cases, so
// that a plan need not know which it is.
func (c *Compiler) inTurns(out Tensor, rows run, terms func(to Tensor)) {
	sum := c.likeRows(out, rows)
	terms(sum)
	c.emitRows(nil, out, rows, func(f *fused) *ir { return f.rowLoad(sum) })
}

// likeRows is workspace in the parts of a tensor that have some of those rows.
func (c *Compiler) likeRows(t Tensor, rows run) Tensor {
	like := Tensor{Shape: t.Shape, DType: t.DType}
	for _, p := range t.Parts {
		if p.Row >= rows.start+rows.length || p.Row+p.Rows <= rows.start {
			continue
		}
		bytes := p.Span.Bytes
		if p.Span.st.bf16 {
			bytes *= 2
		}
		st := c.newStorage(transientStorage, c.group+".sum", bytes)
		st.workspace = true
		like.Parts = append(like.Parts, Part{Row: p.Row, Rows: p.Rows, Span: Span{st: st, Bytes: bytes}})
	}
	return like
}
