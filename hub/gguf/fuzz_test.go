package gguf

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/tests/frugal"
)

// fixed and perByte bound what opening a file may allocate: a buffer, and for each byte of the file what a key of one byte's value takes in a list and in maps that
// grow. So a count in the file that its bytes do not bear out is never believed.
const fixed, perByte = 256 << 10, 64

// open reads a file, and a tensor of it that a file of this length may have.
func open(t *testing.T, raw []byte) (file *File, err error) {
	frugal.Within(t, fixed, perByte, len(raw), func() { file, err = parse(raw) })
	if err != nil {
		return nil, err
	}
	for _, info := range file.Tensors() {
		assert.LessOrEqual(t, info.Length(), int64(len(raw)), "a tensor is in the file")
		r, err := file.Bytes(info.Name)
		require.NoError(t, err)
		_, err = r.ReadAt(make([]byte, 1), info.Length()-1)
		require.NoError(t, err, "the last byte of %q is in the file", info.Name)
	}
	return file, nil
}

// head is what a file begins with.
func head(tensors, keys uint64) []byte {
	raw := binary.LittleEndian.AppendUint32([]byte(magic), version)
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(raw, tensors), keys)
}

func FuzzHeader(f *testing.F) {
	f.Add(sample(f))
	f.Add(sample(f)[:100])
	f.Add(head(1<<40, 1))
	f.Fuzz(func(t *testing.T, raw []byte) { _, _ = open(t, raw) })
}

// FuzzKeys: whatever the keys of a file are, they are read or refused.
func FuzzKeys(f *testing.F) {
	whole := sample(f)
	f.Add(uint64(16), whole[24:bytes.Index(whole, []byte("plain"))-8])
	f.Add(uint64(1), append(binary.LittleEndian.AppendUint64(nil, 1), "a\x09\x00\x00\x00\x04\x00\x00\x00\xff\xff\xff\x00\x00\x00\x00\x00"...))
	f.Add(uint64(1), binary.LittleEndian.AppendUint64(nil, 1<<24)) // the name of a key
	f.Fuzz(func(t *testing.T, n uint64, raw []byte) {
		file, err := open(t, append(head(0, n), raw...))
		if err == nil {
			assert.Len(t, file.Keys(), int(n))
		}
	})
}

// FuzzTensors: whatever a file says of its tensors, they lie in the file, or are refused.
func FuzzTensors(f *testing.F) {
	whole := sample(f)
	f.Add(uint64(3), whole[bytes.Index(whole, []byte("plain"))-8:])
	f.Add(uint64(3), whole[bytes.Index(whole, []byte("plain"))-8:len(whole)-100])
	f.Fuzz(func(t *testing.T, n uint64, raw []byte) {
		file, err := open(t, append(head(n, 0), raw...))
		if err == nil {
			assert.Len(t, file.Tensors(), int(n))
		}
	})
}

// FuzzBlocks: whatever blocks hold, they are widened; in parts to the same as whole. Numbers that are finite are stored again.
func FuzzBlocks(f *testing.F) {
	blocks := make([]byte, 300)
	for i := range blocks {
		blocks[i] = byte(i * 37)
	}
	for kind := range types {
		f.Add(uint32(kind), uint16(5), blocks)
	}
	f.Fuzz(func(t *testing.T, number uint32, first uint16, raw []byte) {
		kind := Type(number % 64)
		elements, size := kind.Block()
		if !kind.Readable() {
			assert.Error(t, kind.Refuse())
			return
		}
		n := len(raw) / size
		if n == 0 {
			return
		}
		raw = raw[:n*size]
		whole := make([]float32, n*elements)
		tail := make([]float32, max(0, len(whole)-int(first)))
		file := &File{parts: []part{{data: bytes.NewReader(raw)}}, byName: map[string]Info{"x": {Name: "x", Type: kind, Shape: []int{len(whole)}, bytes: int64(len(raw))}}}
		frugal.Within(t, fixed, perByte, 4*len(whole), func() {
			require.NoError(t, file.Floats("x", whole, 0))
			if len(tail) > 0 {
				require.NoError(t, file.Floats("x", tail, int(first)))
			}
		})
		for i := range tail {
			require.Equal(t, math.Float32bits(whole[int(first)+i]), math.Float32bits(tail[i]), "element %d", int(first)+i)
		}
		if !kind.Writable() || slices.ContainsFunc(whole, func(v float32) bool { return math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) }) {
			return
		}
		again := make([]byte, len(raw))
		require.NoError(t, Encode(kind, again, whole))
		if kind == F32 || kind == F16 || kind == BF16 {
			require.Equal(t, raw, again)
		}
	})
}
