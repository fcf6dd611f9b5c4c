package gguf

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
)

const (
	magic            = "GGUF"
	version          = 3
	defaultAlignment = 32
	alignmentKey     = "general.alignment"
)

// older is what files begin with that llama.cpp wrote before GGUF.
var older = []string{"lmgg", "fmgg", "tjgg", "algg"}

// damaged is why a number cannot be true.
const damaged = "cut off or damaged, so download it again"

// A Key is a fact about a file. Value is a bool, a string, an int or uint of 8 to 64 bits, a float32 or float64, or a slice of one of these.
type Key struct {
	Name  string
	Value any
}

// Info says what a tensor is.
type Info struct {
	Name  string
	Type  Type
	Shape []int // as PyTorch has it: the last dimension lies together

	offset, bytes int64
	part          int // of a split file
}

// header is what a file says before its tensors' bytes.
type header struct {
	keys    []Key
	tensors []Info
	base    int64 // where the tensors' bytes begin
}

// cursor reads a header and knows how much of the file is left.
type cursor struct {
	r    *bufio.Reader
	left int64
	read int64
	err  error // the first
}

func (c *cursor) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
	}
}

// bytes reads n bytes, which the file must have.
func (c *cursor) bytes(n uint64) []byte {
	if c.err == nil && n > uint64(c.left) {
		c.fail("found the end of the file, wanted %d bytes more: it is cut off, so download it again", n-uint64(c.left))
	}
	if c.err != nil {
		return make([]byte, 8)
	}
	raw := make([]byte, max(n, 8))
	if _, err := io.ReadFull(c.r, raw[:n]); err != nil {
		c.fail("%w", err)
	}
	c.left, c.read = c.left-int64(n), c.read+int64(n)
	return raw[:max(n, 8)]
}

func (c *cursor) uint32() uint32 { return binary.LittleEndian.Uint32(c.bytes(4)) }

func (c *cursor) uint64() uint64 { return binary.LittleEndian.Uint64(c.bytes(8)) }

// count is the number of things that take at least size bytes each.
func (c *cursor) count(what string, size int64) int {
	n := c.uint64()
	if c.err == nil && n > uint64(c.left/size) {
		c.fail("%s: found a count of %d, wanted at most %d in the %d bytes that follow: the file is %s", what, n, c.left/size, c.left, damaged)
	}
	if c.err != nil {
		return 0
	}
	return int(n)
}

func (c *cursor) text(what string) string {
	n := c.count(what, 1)
	return string(c.bytes(uint64(n))[:n])
}

// kinds reads a value of each of the format's kinds, which are numbered in this order; the array, 9, is apart.
var kinds = []struct {
	name string
	size int64 // at least
	one  func(c *cursor) any
	many func(c *cursor, n int) any
}{
	kind("uint8", 1, func(c *cursor) uint8 { return c.bytes(1)[0] }),
	kind("int8", 1, func(c *cursor) int8 { return int8(c.bytes(1)[0]) }),
	kind("uint16", 2, func(c *cursor) uint16 { return binary.LittleEndian.Uint16(c.bytes(2)) }),
	kind("int16", 2, func(c *cursor) int16 { return int16(binary.LittleEndian.Uint16(c.bytes(2))) }),
	kind("uint32", 4, (*cursor).uint32),
	kind("int32", 4, func(c *cursor) int32 { return int32(c.uint32()) }),
	kind("float32", 4, func(c *cursor) float32 { return math.Float32frombits(c.uint32()) }),
	kind("bool", 1, func(c *cursor) bool { return c.bytes(1)[0] != 0 }),
	kind("string", 8, func(c *cursor) string { return c.text("a text") }),
	{name: "array"},
	kind("uint64", 8, (*cursor).uint64),
	kind("int64", 8, func(c *cursor) int64 { return int64(c.uint64()) }),
	kind("float64", 8, func(c *cursor) float64 { return math.Float64frombits(c.uint64()) }),
}

const arrayKind = 9

func kind[T any](name string, size int64, read func(*cursor) T) (row struct {
	name string
	size int64
	one  func(c *cursor) any
	many func(c *cursor, n int) any
},
) {
	row.name, row.size = name, size
	row.one = func(c *cursor) any { return read(c) }
	row.many = func(c *cursor, n int) any {
		values := make([]T, 0, min(n, 1<<16))
		for ; n > 0 && c.err == nil; n-- {
			values = append(values, read(c))
		}
		return values
	}
	return row
}

func (c *cursor) value() any {
	k := c.uint32()
	many := k == arrayKind
	if many {
		k = c.uint32()
	}
	if c.err == nil && (int(k) >= len(kinds) || k == arrayKind) {
		c.fail("found a value of kind %d, wanted one of 0 to %d, and arrays of numbers, flags or texts", k, len(kinds)-1)
	}
	switch {
	case c.err != nil:
		return nil
	case many:
		return kinds[k].many(c, c.count("an array", kinds[k].size))
	}
	return kinds[k].one(c)
}

// readHeader reads and checks all of a file that comes before the tensors' bytes. Tensors must lie within size bytes.
func readHeader(r io.Reader, size int64) (*header, error) {
	c := &cursor{r: bufio.NewReaderSize(r, 1<<16), left: size}
	if err := c.version(); err != nil {
		return nil, err
	}
	h := &header{}
	tensors := c.count("tensors", 4*8)
	keys := c.count("keys", 8+4+1)
	names := map[string]bool{}
	for i := 0; i < keys && c.err == nil; i++ {
		k := Key{Name: c.text("a key")}
		if k.Value = c.value(); c.err != nil {
			return nil, fmt.Errorf("key %d, %.100q: %w", i, k.Name, c.err)
		}
		if names[k.Name] {
			return nil, fmt.Errorf("key %.100q: found it twice, wanted it once", k.Name)
		}
		names[k.Name] = true
		h.keys = append(h.keys, k)
	}
	clear(names)
	for i := 0; i < tensors && c.err == nil; i++ {
		t, err := c.info()
		if err != nil {
			return nil, fmt.Errorf("tensor %d, %.100q: %w", i, t.Name, err)
		}
		if names[t.Name] {
			return nil, fmt.Errorf("tensor %.100q: found it twice, wanted it once", t.Name)
		}
		names[t.Name] = true
		h.tensors = append(h.tensors, t)
	}
	if c.err != nil {
		return nil, c.err
	}
	return h, h.place(c.read, size)
}

// version reads the magic and the version.
func (c *cursor) version() error {
	found := string(c.bytes(4)[:4])
	v := c.uint32()
	switch {
	case c.err != nil:
		return c.err
	case slices.Contains(older, found):
		return fmt.Errorf("found a file of GGML's, which begins with %q, wanted %q: convert the model again with a llama.cpp of 2024 or newer", found, magic)
	case found != magic:
		return fmt.Errorf("found a file that begins with %q, wanted %q", found, magic)
	case v == 1:
		return errors.New("version: found 1, wanted 2 or 3: convert the model again with a llama.cpp of 2024 or newer")
	case v>>16 != 0 && v&0xffff == 0:
		return errors.New("byte order: found a big-endian file, wanted a little-endian one: convert the model again without --bigendian")
	case v != 2 && v != version:
		return fmt.Errorf("version: found %d, wanted 2 or 3: it is damaged, or of a newer program", v)
	}
	return nil
}

// mostDims is how many dimensions ggml has.
const mostDims = 4

func (c *cursor) info() (Info, error) {
	t := Info{Name: c.text("a tensor's name")}
	dims := c.uint32()
	if c.err == nil && (dims == 0 || dims > mostDims) {
		c.fail("found %d dimensions, wanted 1 to %d", dims, mostDims)
	}
	for i := uint32(0); i < dims && c.err == nil; i++ {
		d := c.uint64()
		if d > mostBytes {
			c.fail("found a dimension of %d: the file is %s", d, damaged)
		}
		t.Shape = append(t.Shape, int(d))
	}
	slices.Reverse(t.Shape)
	t.Type = Type(c.uint32())
	offset := c.uint64()
	if c.err != nil {
		return t, c.err
	}
	var err error
	if t.bytes, err = t.Type.bytesOf(t.Shape); err != nil {
		return t, err
	}
	if offset > math.MaxInt64/2 {
		return t, fmt.Errorf("offset: found %d: the file is %s", offset, damaged)
	}
	t.offset = int64(offset)
	return t, nil
}

// place turns offsets into places in the file, and checks that tensors lie in it, aligned and apart.
func (h *header) place(end, size int64) error {
	alignment := int64(defaultAlignment)
	for _, k := range h.keys {
		if k.Name != alignmentKey {
			continue
		}
		v, ok := k.Value.(uint32)
		if !ok || v == 0 || v&(v-1) != 0 {
			return fmt.Errorf("key %s: found %v, wanted a uint32 that is a power of two", alignmentKey, k.Value)
		}
		alignment = int64(v)
	}
	h.base = aligned(end, alignment)
	order := make([]*Info, len(h.tensors))
	for i := range h.tensors {
		order[i] = &h.tensors[i]
	}
	slices.SortStableFunc(order, func(a, b *Info) int { return int(min(1, max(-1, a.offset-b.offset))) })
	before := int64(0)
	for _, t := range order {
		switch {
		case t.offset%alignment != 0:
			return fmt.Errorf("tensor %.100q: offset %d, wanted a multiple of %d: the file is %s", t.Name, t.offset, alignment, damaged)
		case t.offset < before:
			return fmt.Errorf("tensor %.100q: offset %d lies in the tensor before, which ends at %d: the file is %s", t.Name, t.offset, before, damaged)
		case h.base+t.offset+t.bytes > size:
			return fmt.Errorf("tensor %.100q: found a file of %d bytes, wanted %d: it is cut off, so download it again", t.Name, size, h.base+t.offset+t.bytes)
		}
		before = t.offset + t.bytes
	}
	return nil
}

func aligned(at, alignment int64) int64 { return (at + alignment - 1) / alignment * alignment }
