package table

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"slices"
)

// magic is what an index begins with; its number changes with the layout.
const magic = "gputrain columns 2\n"

// Known tells an index from another file by its first bytes.
func Known(text []byte) bool { return bytes.HasPrefix(text, []byte(magic)) }

// prefixBytes are before a block: the length of its header, the header's checksum, and the length of the columns.
const prefixBytes = 12

// mostHeader bounds a header: one of 4,096 lines with a hundred series has 10 kB.
const mostHeader = 16 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// header says what a block holds. It stays in memory, the columns do not.
type header struct {
	Mark
	Step         float64  `json:"step"` // as of its last line
	LastTraining int64    `json:"training"`
	Eval         [2]int64 `json:"eval"`              // where the last line of an evaluation lies, and its length; 0 where there was none yet
	Damaged      []int    `json:"damaged,omitempty"` // lines of the block that cannot be read, from 0
	Columns      []column `json:"columns"`           // the axes, then the series in the order in which they came

	file *os.File
	at   int64 // of the columns in the file
	size int64 // of the columns
}

// column says where the values of a name lie: the places of their lines, two bytes each, unless every line has one, then the values, then the strips of a
// series.
type column struct {
	Name        string `json:"name"`
	N           int    `json:"n"`
	At          int64  `json:"at"`
	Width       int    `json:"width"` // bytes of a value: 8; 4 where float32 has them all; 0: all are Last
	Check       uint32 `json:"check"`
	StripsCheck uint32 `json:"strips,omitempty"` // of those behind the values
	First       bits   `json:"first"`
	Last        bits   `json:"last"`
	Timed       bool   `json:"timed,omitempty"` // each of its lines has a time that the step took
}

// bits is a float64 in JSON, where NaN has no number.
type bits uint64

func (b bits) float() float64 { return math.Float64frombits(uint64(b)) }

func (c column) size(lines int) int64 {
	n := int64(c.N) * int64(c.Width)
	if c.N < lines {
		n += 2 * int64(c.N)
	}
	return n
}

// series finds a series; nil where the block has none of that name.
func (h *header) series(name string) *column {
	own := h.Columns[len(axes):]
	if i := slices.IndexFunc(own, func(c column) bool { return c.Name == name }); i >= 0 {
		return &own[i]
	}
	return nil
}

// end is where the block ends in its file.
func (h *header) end() int64 { return h.at + h.size }

// axis finds an axis of that number in axes.
func (h *header) axis(i int) *column { return &h.Columns[i] }

// valid says whether a header can be that of a block: whatever it says of the columns lies in the file and in memory.
func (h *header) valid() bool {
	if h.Lines < 1 || h.Lines > blockLines || h.Length < 1 || h.Length > h.End || len(h.Columns) < len(axes) {
		return false
	}
	for i, c := range h.Columns {
		if c.N < 1 || c.N > h.Lines || c.At < 0 || c.Width != 0 && c.Width != 4 && c.Width != 8 || c.At > h.size-c.size(h.Lines) {
			return false
		}
		if i < len(axes) && (c.Name != axes[i] || c.N != h.Lines) {
			return false
		}
		if i >= len(axes) && c.At+c.size(h.Lines) > h.size-int64(c.strips()*stripBytes) {
			return false
		}
	}
	for i, d := range h.Damaged {
		if d < 0 || d >= h.Lines || i > 0 && d <= h.Damaged[i-1] {
			return false
		}
	}
	return true
}

// write writes a block at an offset of a file, and returns its header.
func (b *block) write(file *os.File, at int64) (*header, error) {
	var data []byte
	h := b.header
	add := func(name string, s *series, took *series) {
		c := column{Name: name, N: len(s.value), At: int64(len(data)), Width: width(s.value), Timed: took != nil}
		c.First, c.Last = bits(math.Float64bits(s.value[0])), bits(math.Float64bits(s.value[c.N-1]))
		if c.N < h.Lines {
			for _, line := range s.line {
				data = binary.LittleEndian.AppendUint16(data, uint16(line))
			}
		}
		for _, v := range s.value {
			switch c.Width {
			case 4:
				data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(v)))
			case 8:
				data = binary.LittleEndian.AppendUint64(data, math.Float64bits(v))
			}
		}
		c.Check = crc32.Checksum(data[c.At:], castagnoli)
		if c.strips() > 0 && s.line != nil {
			raw := s.strips(took)
			c.StripsCheck, data = crc32.Checksum(raw, castagnoli), append(data, raw...)
		}
		h.Columns = append(h.Columns, c)
	}
	for i, values := range [][]float64{b.steps, b.tokens, b.time} {
		add(axes[i], &series{value: values}, nil)
	}
	for _, name := range b.names {
		s := b.series[name]
		took := b.series[stepMS]
		if !s.timed(took) {
			took = nil
		}
		add(name, s, took)
	}
	text, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	out := binary.LittleEndian.AppendUint32(nil, uint32(len(text)))
	out = binary.LittleEndian.AppendUint32(out, crc32.Checksum(text, castagnoli))
	out = binary.LittleEndian.AppendUint32(out, uint32(len(data)))
	h.file, h.at, h.size = file, at+prefixBytes+int64(len(text)), int64(len(data))
	if _, err := file.WriteAt(append(append(out, text...), data...), at); err != nil {
		return nil, err
	}
	return &h, nil
}

// width is the number of bytes that each of the values needs.
func width(values []float64) int {
	first := math.Float64bits(values[0])
	switch {
	case !slices.ContainsFunc(values, func(v float64) bool { return math.Float64bits(v) != first }):
		return 0
	case slices.ContainsFunc(values, func(v float64) bool { return !math.IsNaN(v) && float64(float32(v)) != v }):
		return 8
	}
	return 4
}

// readHeader reads the header of the block at an offset.
func readHeader(file *os.File, at, end int64) (*header, error) {
	var prefix [prefixBytes]byte
	if _, err := file.ReadAt(prefix[:], at); err != nil {
		return nil, err
	}
	n := int64(binary.LittleEndian.Uint32(prefix[:]))
	h := &header{file: file, at: at + prefixBytes + n, size: int64(binary.LittleEndian.Uint32(prefix[8:]))}
	if n > mostHeader || h.at+h.size > end {
		return nil, io.ErrUnexpectedEOF
	}
	text := make([]byte, n)
	if _, err := file.ReadAt(text, at+prefixBytes); err != nil {
		return nil, err
	}
	if crc32.Checksum(text, castagnoli) != binary.LittleEndian.Uint32(prefix[4:]) {
		return nil, errDamaged
	}
	if err := json.Unmarshal(text, h); err != nil {
		return nil, err
	}
	if !h.valid() {
		return nil, errDamaged
	}
	return h, nil
}

var errDamaged = errors.New("found a block that is damaged")

// read reads a column into to.
func (h *header) read(c *column, to *Column) error {
	to.raw = sized(to.raw, int(c.size(h.Lines)))
	if _, err := h.file.ReadAt(to.raw, h.at+c.At); err != nil {
		return fmt.Errorf("table: %s: %w", c.Name, err)
	}
	if crc32.Checksum(to.raw, castagnoli) != c.Check {
		return fmt.Errorf("table: %s: %w", c.Name, errDamaged)
	}
	to.Line, to.Value = sized(to.Line, c.N), sized(to.Value, c.N)
	raw := to.raw
	for i := range to.Line {
		to.Line[i] = int32(i)
	}
	if c.N < h.Lines {
		before := int32(-1)
		for i := range to.Line {
			line := int32(binary.LittleEndian.Uint16(raw[2*i:]))
			if line <= before || int(line) >= h.Lines {
				return fmt.Errorf("table: %s: %w", c.Name, errDamaged)
			}
			to.Line[i], before = line, line
		}
		raw = raw[2*c.N:]
	}
	for i := range to.Value {
		switch c.Width {
		case 0:
			to.Value[i] = c.Last.float()
		case 4:
			to.Value[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])))
		case 8:
			to.Value[i] = math.Float64frombits(binary.LittleEndian.Uint64(raw[8*i:]))
		}
	}
	return nil
}

// sized is a slice of n elements, in the memory of another where that is enough.
func sized[T any](s []T, n int) []T {
	if cap(s) < n {
		return make([]T, n)
	}
	return s[:n]
}
