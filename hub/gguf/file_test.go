package gguf

import (
	"bytes"
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// sample is a file with a key of each kind and three tensors.
func sample(t testing.TB) []byte {
	t.Helper()
	keys := []Key{
		{"general.architecture", "llama"},
		{"a", uint8(1)},
		{"b", int8(-1)},
		{"c", uint16(2)},
		{"d", int16(-2)},
		{"e", uint32(3)},
		{"f", int32(-3)},
		{"g", uint64(1 << 40)},
		{"h", int64(-1 << 40)},
		{"i", float32(0.5)},
		{"j", 0.25},
		{"k", true},
		{"l", []string{"x", "", "é"}},
		{"m", []int32{1, -2}},
		{"n", []float32{1.5}},
		{"o", []bool{true, false}},
	}
	values := []float32{1, 2, 3, 4, 5, 6}
	rows := make([]float32, 3*64)
	for i := range rows {
		rows[i] = float32(i%32) - 16
	}
	plain := make([]byte, 24)
	encodeF32(plain, values)
	packed := make([]byte, 3*68)
	require.NoError(t, Encode(Q8_0, packed, rows))
	write := func(raw []byte) func(io.Writer) error {
		return func(w io.Writer) error { _, err := w.Write(raw); return err }
	}
	var b bytes.Buffer
	require.NoError(t, Write(&b, keys, []Tensor{
		{"plain", F32, []int{2, 3}, write(plain)}, {"packed", Q8_0, []int{3, 64}, write(packed)}, {"one", F32, []int{1}, write(plain[:4])},
	}))
	return b.Bytes()
}

func parse(raw []byte) (*File, error) {
	f := &File{path: "memory", parts: []part{{data: bytes.NewReader(raw)}}, values: map[string]any{}, byName: map[string]Info{}}
	return f, f.parse(0, 1, bytes.NewReader(raw), int64(len(raw)))
}

func TestWrittenIsRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.gguf")
	require.NoError(t, os.WriteFile(path, sample(t), 0o666))
	assert.True(t, Is(path))
	f, err := Open(path)
	require.NoError(t, err)
	defer f.Close()
	assert.Len(t, f.Keys(), 16)
	for name, want := range map[string]any{"b": int8(-1), "g": uint64(1 << 40), "j": 0.25, "k": true, "l": []string{"x", "", "é"}, "m": []int32{1, -2}, "o": []bool{true, false}} {
		found, ok := f.Value(name)
		assert.True(t, ok, name)
		assert.Equal(t, want, found, name)
	}
	info, ok := f.Info("plain")
	require.True(t, ok)
	assert.Equal(t, []int{2, 3}, info.Shape)
	got := make([]float32, 4)
	require.NoError(t, f.Floats("plain", got, 2))
	assert.Equal(t, []float32{3, 4, 5, 6}, got)
	all, part := make([]float32, 192), make([]float32, 70)
	require.NoError(t, f.Floats("packed", all, 0))
	require.NoError(t, f.Floats("packed", part, 61))
	assert.Equal(t, all[61:131], part, "from any element on")
	assert.InDelta(t, -16, all[0], 0.01)
	assert.ErrorContains(t, f.Floats("packed", part, 150), "found 192 elements, wanted 70 from 150 on")
	assert.ErrorContains(t, f.Floats("other", part, 0), "found no such tensor")
}

// TestTruncated: whatever is missing at the end, the file is refused.
func TestTruncated(t *testing.T) {
	whole := sample(t)
	_, err := parse(whole)
	require.NoError(t, err)
	for n := range len(whole) - 28 { // the last tensor has 4 bytes, and padding behind them
		_, err := parse(whole[:n])
		require.Error(t, err, "%d of %d bytes", n, len(whole))
	}
	_, err = parse(whole[:len(whole)-29])
	assert.ErrorContains(t, err, "it is cut off, so download it again")
}

func TestDamaged(t *testing.T) {
	whole := sample(t)
	with := func(at int, value uint64, size int) []byte {
		raw := bytes.Clone(whole)
		copy(raw[at:at+size], binary.LittleEndian.AppendUint64(nil, value))
		return raw
	}
	at := func(text string, beyond int) int { return bytes.Index(whole, []byte(text)) + len(text) + beyond }
	for want, raw := range map[string][]byte{
		`begins with "GGML", wanted "GGUF"`:                       with(0, 0x4c4d4747, 4),
		"version: found 1, wanted 2 or 3":                         with(4, 1, 4),
		"found a big-endian file":                                 with(4, 3<<24, 4),
		"version: found 4, wanted 2 or 3":                         with(4, 4, 4),
		"tensors: found a count of 1099511627776":                 with(8, 1<<40, 8),
		"keys: found a count of 1099511627776":                    with(16, 1<<40, 8),
		"a key: found a count of 9223372036854775808":             with(24, 1<<63, 8),
		"found a value of kind 77":                                with(at("general.architecture", 0), 77, 4),
		`key "a": found it twice`:                                 with(at("general.architecture\x08\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00llama\x01\x00\x00\x00\x00\x00\x00\x00a\x00\x00\x00\x00\x01\x01\x00\x00\x00\x00\x00\x00\x00", 0), 'a', 1),
		"found 9 dimensions, wanted 1 to 4":                       with(at("plain", 0), 9, 4),
		"shape [2 1125899906842620]: found more":                  with(at("plain", 4), 1<<50-4, 8),
		"shape [2 0]: found no elements":                          with(at("plain", 4), 0, 8),
		"type 99: found one that is not known, wanted one of f32": with(at("plain", 20), 99, 4),
		"rows of 3 elements, wanted a multiple of 32":             with(at("plain", 20), 8, 4),
		"offset 5, wanted a multiple of 32":                       with(at("plain", 24), 5, 8),
		"lies in the tensor before, which ends at":                with(at("packed", 24), 0, 8),
		"found a file of":                                         with(at("packed", 24), 1<<20, 8),
		"offset: found 9223372036854775808":                       with(at("plain", 24), 1<<63, 8),
	} {
		_, err := parse(raw)
		assert.ErrorContains(t, err, want)
	}
}

func TestParts(t *testing.T) {
	dir := t.TempDir()
	first := filepath.Join(dir, "m-00001-of-00002.gguf")
	require.NoError(t, os.WriteFile(first, sample(t), 0o666))
	_, err := Open(first)
	assert.ErrorContains(t, err, "found no part 2 of 2")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "m-00002-of-00002.gguf"), sample(t), 0o666))
	_, err = Open(first)
	assert.ErrorContains(t, err, `tensor "plain": found it in two parts`)
}

func TestWriteRefuses(t *testing.T) {
	short := func(w io.Writer) error { _, err := w.Write([]byte{1}); return err }
	for want, tensors := range map[string][]Tensor{
		`tensor "a": found 1 bytes, wanted 4`:               {{"a", F32, []int{1}, short}},
		`tensor "a": found an empty name, or one twice`:     {{"a", F32, []int{1}, short}, {"a", F32, []int{1}, short}},
		`tensor "a": type q8_0: found rows of 8`:            {{"a", Q8_0, []int{8}, short}},
		`tensor "a": found 5 dimensions`:                    {{"a", F32, []int{1, 1, 1, 1, 1}, short}},
		`tensor "a": found 4 bytes more than its shape has`: {{"a", F32, []int{1}, func(w io.Writer) error { _, err := w.Write(make([]byte, 8)); return err }}},
	} {
		assert.ErrorContains(t, Write(io.Discard, nil, tensors), want)
	}
	assert.ErrorContains(t, Write(io.Discard, []Key{{"k", 1}}, nil), "found a value of type int")
}
