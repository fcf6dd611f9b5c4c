package compile

import (
	"fmt"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph"
)

// spanAlign is the granule of every storage and span in bytes: one vec4<f32>, so that a kernel may bind any of them as
// array<vec4<f32>> whatever its true length. Kernels take counts from constants or params, never from arrayLength.
const spanAlign = 16

// storageKind says who owns a storage and for how long.
type storageKind uint8

const (
	transientStorage storageKind = iota // planned: shares buffers with storages that live at other times
	outputStorage                       // a named target without a leaf: its own buffer
	inputStorage                        // an Input, or something derived from one: its own buffer, written by Program.Write
	constantStorage                     // a table computed at compile time: its own buffer, written once
	boundStorage                        // an input or a target in a buffer of the caller's
	paramStorage                        // a slab of a tree of params
	gradStorage                         // a slab of the grads tree
)

// storage is one region of device memory as a lowering sees it: symbolic while the program is lowered and planned,
// backed by a buffer only when the program is made.
type storage struct {
	kind      storageKind
	label     string
	bytes     uint64          // a multiple of spanAlign
	workspace bool            // a transient that belongs to one node alone
	slab      int             // of a param or grad storage
	data      []byte          // of a constant storage
	narrow    *buffers.Layout // of a slab that is not in f32, whose bytes are counted as if it were
	kept      buffers.DType   // of such a slab: BF16 or a packed type
	bf16      bool            // of a value in BF16, see bf16.go
	half      bool            // of a value, or of a copy, in f16, which products by units read, see halves.go

	first, last int // the first and last command that use it; -1 while there is none
	buffer      int // of a transient: the planned buffer it lives in
}

// short tells whether elements take half of what they do in f32.
func (st *storage) short() bool { return st.bf16 || st.half }

// halves is a bit if elements are in f16.
func (st *storage) halves(bit uint64) uint64 {
	if st.half {
		return bit
	}
	return 0
}

// slabKey is a slab of a tree; params and grads may have one layout.
type slabKey struct {
	kind   storageKind
	layout *buffers.Layout
	slab   int
}

// Span is a bindable run of bytes of a storage. Offset is a multiple of the device's storage alignment, Bytes of 16.
type Span struct {
	st     *storage
	Offset uint64
	Bytes  uint64
	asKept bool // counted as the slab of a param is kept, not as f32
	maxima bool // the maxima in f32 of the elements that begin at Offset, counted as f32, of a slab where they are nested
}

// at is the run of bytes [offset, offset+bytes) of the span, rounded up to 16; offset must be a multiple of the device's
// storage alignment (dispatch checks).
func (s Span) at(offset, bytes uint64) Span {
	return Span{st: s.st, Offset: s.Offset + offset, Bytes: roundUp(bytes, spanAlign)}
}

// Tensor is where a value lives: its logical shape and dtype, and one part for each run of rows that has a span of its
// own: one part, or several where the value is larger than a binding.
type Tensor struct {
	Shape []int
	DType buffers.DType
	Parts []Part // rows in order, no gaps; none when the tensor has no elements

	// Accumulate is set on an output that must be added to what its parts hold, instead of overwriting it.
	Accumulate bool
}

// Part holds rows [Row, Row+Rows) of the tensor's 2-D view [Shape[0], rest] (a scalar is one row of one).
type Part struct {
	Row, Rows int
	Span      Span
}

func (t Tensor) elements() int { return graph.Elements(t.Shape) }

// rows and width are the tensor's 2-D view along its first axis, as row splits see it.
func (t Tensor) rows() int {
	if len(t.Shape) == 0 {
		return 1
	}
	return t.Shape[0]
}

func (t Tensor) width() int {
	if len(t.Shape) == 0 {
		return 1
	}
	return graph.Elements(t.Shape[1:])
}

// wide is the type of a copy that any kernel can read. What a binding holds is counted in it.
func wide(d buffers.DType) buffers.DType {
	if d == buffers.BF16 {
		return buffers.F32
	}
	return d
}

func roundUp(n, to uint64) uint64 { return (n + to - 1) / to * to }

// typeBytes is the size of a contiguous tensor in bytes, unrounded.
func typeBytes(shape []int, d buffers.DType) uint64 {
	return (uint64(graph.Elements(shape))*uint64(d.Bits()) + 7) / 8
}

// command is one step of a program over symbolic spans.
type command struct {
	group  string
	unit   int         // index of the one that it is of
	kernel *gpu.Kernel // nil: zero the one span of bind
	grid   gpu.Grid
	params any
	bind   []Span
	flops  float64 // of a product
}

func (c command) String() string {
	if c.kernel == nil {
		return fmt.Sprintf("%s: zero %s", c.group, spanText(c.bind[0]))
	}
	text := fmt.Sprintf("%s: %s [%d %d %d]", c.group, c.kernel.Label, c.grid.X, c.grid.Y, c.grid.Z)
	bindings := c.kernel.Bindings
	if c.params != nil {
		raw, _ := c.kernel.Params(c.params)
		text += fmt.Sprintf(" params=%d", len(raw))
		bindings = bindings[1:]
	}
	for i, s := range c.bind {
		mark := "<"
		if bindings[i].Access == gpu.ReadWrite {
			mark = ">"
		}
		text += " " + mark + spanText(s)
	}
	return text
}

func spanText(s Span) string {
	place := s.st.label
	if s.st.kind == transientStorage {
		place = fmt.Sprintf("%s@%d", place, s.st.buffer)
	}
	return fmt.Sprintf("%s+%d:%d", place, s.Offset, s.Bytes)
}
