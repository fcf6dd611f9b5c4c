package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers/array"
)

// file puts a header (padded or not, as given) before data.
func file(header string, data []byte) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), data...)
}

func TestRoundTrip(t *testing.T) {
	tensors := []Tensor{
		Float32s("w", []int{2, 3}, []float32{1, -2, 3.5, float32(math.Inf(1)), 0, -0.125}),
		Int32s("ids", []int{3}, []int32{-1, 0, math.MaxInt32}),
		Float32s("scalar", nil, []float32{42}),
		Float32s("empty", []int{0, 7}, nil),
		{Name: `odd "name"/ü<`, DType: "BF16", Shape: []int{3}, Data: func(w io.Writer) error {
			_, err := w.Write([]byte{0x80, 0x3f, 0x00, 0xc0, 0xc0, 0x7f})
			return err
		}},
	}
	metadata := map[string]string{"format": "pt", "b": "<2>", "a": "1"}
	var out bytes.Buffer
	require.NoError(t, Write(&out, tensors, metadata))
	path := filepath.Join(t.TempDir(), "x.safetensors")
	require.NoError(t, os.WriteFile(path, out.Bytes(), 0o600))
	f, err := Open(path)
	require.NoError(t, err)
	defer f.Close()
	assert.Equal(t, []string{"empty", "ids", `odd "name"/ü<`, "scalar", "w"}, f.Names())
	assert.Equal(t, metadata, f.Metadata())
	w, err := f.Float32("w")
	require.NoError(t, err)
	assert.Equal(t, []float32{1, -2, 3.5, float32(math.Inf(1)), 0, -0.125}, w)
	dtype, shape, ok := f.Info("w")
	assert.True(t, ok)
	assert.Equal(t, "F32", dtype)
	assert.Equal(t, []int{2, 3}, shape)
	row, err := f.Float32Rows("w", 1, 1)
	require.NoError(t, err)
	assert.Equal(t, w[3:], row)
	ids, err := f.Int32("ids")
	require.NoError(t, err)
	assert.Equal(t, []int32{-1, 0, math.MaxInt32}, ids)
	s, err := f.Float32("scalar")
	require.NoError(t, err)
	assert.Equal(t, []float32{42}, s)
	e, err := f.Float32("empty")
	require.NoError(t, err)
	assert.Empty(t, e)
	h, err := f.Float32(`odd "name"/ü<`)
	require.NoError(t, err)
	assert.Equal(t, []float32{1, -2}, h[:2])
	assert.True(t, math.IsNaN(float64(h[2])))

	// The same input, in another order, gives the same bytes.
	var again bytes.Buffer
	require.NoError(t, Write(&again, []Tensor{tensors[4], tensors[2], tensors[0], tensors[3], tensors[1]}, metadata))
	assert.Equal(t, out.Bytes(), again.Bytes())
	assert.Zero(t, binary.LittleEndian.Uint64(out.Bytes())%8, "the header is padded to 8")
	_, _, ok = f.Info("absent")
	assert.False(t, ok)
}

// TestGoldenBytes pins the form on disk.
func TestGoldenBytes(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, Write(&out, []Tensor{Int32s("b", []int{1}, []int32{2}), Float32s("a", nil, []float32{1})}, map[string]string{"k": "v"}))
	want := `{"__metadata__":{"k":"v"},"a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"b":{"dtype":"I32","shape":[1],"data_offsets":[4,8]}}`
	for len(want)%8 != 0 {
		want += " "
	}
	assert.Equal(t, file(want, []byte{0, 0, 0x80, 0x3f, 2, 0, 0, 0}), out.Bytes())
}

func TestReadErrors(t *testing.T) {
	f, err := Parse(file(`{"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]},"i":{"dtype":"I64","shape":[1],"data_offsets":[16,24]}}`, make([]byte, 24)))
	require.NoError(t, err)
	_, err = f.Float32("nope")
	assert.EqualError(t, err, `safetensors: read "memory": tensor "nope": no such tensor`)
	_, err = f.Float32("i")
	assert.EqualError(t, err, `safetensors: read "memory": tensor "i": dtype I64, want F32, BF16 or F16`)
	_, err = f.Int32("a")
	assert.EqualError(t, err, `safetensors: read "memory": tensor "a": dtype F32, want I32`)
	_, err = f.Bytes("nope")
	assert.ErrorContains(t, err, "no such tensor")
	for _, rows := range [][2]int{{-1, 1}, {0, 3}, {2, 1}, {1, math.MaxInt}, {0, -1}} {
		_, err = f.Float32Rows("a", rows[0], rows[1])
		assert.ErrorContains(t, err, "the tensor has 2", rows)
	}
	raw, err := f.Bytes("i")
	require.NoError(t, err)
	assert.EqualValues(t, 8, raw.Size())
}

// Each hostile file is refused, with words that say why.
func TestHostile(t *testing.T) {
	one := func(entry string) []byte { return file(`{"a":`+entry+`}`, make([]byte, 8)) }
	huge := make([]byte, 8)
	binary.LittleEndian.PutUint64(huge, math.MaxUint64)
	long := append(binary.LittleEndian.AppendUint64(nil, 99_999_999), `{}`...)
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"empty file":          {nil, "0 bytes, want at least 8"},
		"short file":          {[]byte("1234567"), "7 bytes, want at least 8"},
		"no header":           {make([]byte, 8), "does not begin with {"},
		"huge header":         {huge, "header of 18446744073709551615 bytes, want at most 100000000"},
		"header beyond file":  {long, "header of 99999999 bytes, the file has 2"},
		"not JSON":            {file(`{oh no}`, nil), "not JSON"},
		"cut JSON":            {file(`{"a":{"dtype"`, nil), "not JSON"},
		"array":               {file(`[1,2]`, nil), "does not begin with {"},
		"leading space":       {file(` {}`, nil), "does not begin with {"},
		"two objects":         {file(`{}{}`, nil), "2 bytes after the closing }"},
		"header tail":         {file("{}\n", nil), "1 bytes after the closing }"},
		"not UTF-8":           {file("{\"\xff\":1}", nil), "not UTF-8"},
		"entry is a number":   {one(`3`), `header: 3, want {`},
		"twice":               {file(`{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}}`, make([]byte, 8)), `tensor "a": given twice`},
		"escaped twice":       {file(`{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"\u0061":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}}`, make([]byte, 8)), `tensor "a": given twice`},
		"key twice":           {one(`{"dtype":"U8","dtype":"U8","shape":[8],"data_offsets":[0,8]}`), `key "dtype": given twice`},
		"unknown key":         {one(`{"dtype":"U8","shape":[8],"data_offsets":[0,8],"x":1}`), `unknown key "x"`},
		"no dtype":            {one(`{"shape":[8],"data_offsets":[0,8]}`), `key "dtype" is missing`},
		"no shape":            {one(`{"dtype":"U8","data_offsets":[0,8]}`), `key "shape" is missing`},
		"no offsets":          {one(`{"dtype":"U8","shape":[8]}`), `key "data_offsets" is missing`},
		"dtype is a number":   {one(`{"dtype":8,"shape":[8],"data_offsets":[0,8]}`), "8, want a string"},
		"unknown dtype":       {one(`{"dtype":"F33","shape":[8],"data_offsets":[0,8]}`), `unknown dtype "F33"`},
		"null shape":          {one(`{"dtype":"U8","shape":null,"data_offsets":[0,8]}`), "shape: header: <nil>, want ["},
		"negative shape":      {one(`{"dtype":"U8","shape":[-8],"data_offsets":[0,8]}`), "shape: -8, want an integer"},
		"negative zero":       {one(`{"dtype":"U8","shape":[-0],"data_offsets":[0,8]}`), "shape: -0, want an integer"},
		"fractional shape":    {one(`{"dtype":"U8","shape":[8.0],"data_offsets":[0,8]}`), "shape: 8.0, want an integer"},
		"exponent shape":      {one(`{"dtype":"U8","shape":[8e0],"data_offsets":[0,8]}`), "shape: 8e0, want an integer"},
		"NaN shape":           {one(`{"dtype":"U8","shape":[NaN],"data_offsets":[0,8]}`), "not JSON"},
		"string shape":        {one(`{"dtype":"U8","shape":["8"],"data_offsets":[0,8]}`), "shape: 8, want an integer"},
		"nested shape":        {one(`{"dtype":"U8","shape":[[8]],"data_offsets":[0,8]}`), "shape: [, want an integer"},
		"dimension too large": {one(`{"dtype":"U8","shape":[9223372036854775808],"data_offsets":[0,8]}`), "want an integer from 0 to 2^63-1"},
		"product overflows":   {one(`{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,8]}`), "size overflows"},
		"wraps to eight":      {one(`{"dtype":"F64","shape":[2305843009213693953],"data_offsets":[0,8]}`), "size overflows"},
		"zero hides overflow": {one(`{"dtype":"U8","shape":[0,4294967296,4294967296],"data_offsets":[0,0]}`), "size overflows"},
		"three offsets":       {one(`{"dtype":"U8","shape":[8],"data_offsets":[0,8,8]}`), "data_offsets: 3 numbers, want 2"},
		"negative offset":     {one(`{"dtype":"U8","shape":[8],"data_offsets":[-8,0]}`), "data_offsets: -8, want an integer"},
		"backward offsets":    {one(`{"dtype":"U8","shape":[8],"data_offsets":[8,0]}`), "data_offsets [8, 0], want 8 bytes"},
		"wrong length":        {one(`{"dtype":"U8","shape":[7],"data_offsets":[0,8]}`), "data_offsets [0, 8], want 7 bytes for U8 [7]"},
		"past the end":        {one(`{"dtype":"U8","shape":[9],"data_offsets":[0,9]}`), "8 bytes of data, the header wants 9"},
		"trailing data":       {one(`{"dtype":"U8","shape":[4],"data_offsets":[0,4]}`), "8 bytes of data, the header wants 4"},
		"gap before":          {one(`{"dtype":"U8","shape":[4],"data_offsets":[4,8]}`), `tensor "a": begins at 4, a gap after 0`},
		"gap between":         {file(`{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]},"b":{"dtype":"U8","shape":[2],"data_offsets":[4,6]}}`, make([]byte, 6)), `tensor "b": begins at 4, a gap after 2`},
		"overlap":             {file(`{"a":{"dtype":"U8","shape":[6],"data_offsets":[0,6]},"b":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}}`, make([]byte, 8)), `tensor "b": begins at 4, inside the tensor before, which ends at 6`},
		"same place":          {file(`{"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[8],"data_offsets":[0,8]}}`, make([]byte, 8)), "inside the tensor before"},
		"zero inside another": {file(`{"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[0],"data_offsets":[4,4]}}`, make([]byte, 8)), "inside the tensor before"},
		"metadata number":     {file(`{"__metadata__":{"a":1}}`, nil), `key "a": 1, want a string`},
		"metadata twice":      {file(`{"__metadata__":{"a":"1","a":"2"}}`, nil), `key "a": given twice`},
		"metadata string":     {file(`{"__metadata__":"x"}`, nil), "want {"},
		"two metadatas":       {file(`{"__metadata__":{},"__metadata__":{}}`, nil), "given twice"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(c.data)
			require.ErrorContains(t, err, c.want)
			require.ErrorContains(t, err, `safetensors: open "memory": `)
		})
	}
}

// TestAccepted has what the format allows and a strict reader might refuse by mistake.
func TestAccepted(t *testing.T) {
	for name, data := range map[string][]byte{
		"nothing":             file(`{}`, nil),
		"padding":             file(`{}      `, nil),
		"offsets unsorted":    file(`{"a":{"dtype":"U8","shape":[4],"data_offsets":[4,8]},"b":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}}`, make([]byte, 8)),
		"zero-length between": file(`{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[0,9],"data_offsets":[4,4]},"c":{"dtype":"U8","shape":[4],"data_offsets":[4,8]}}`, make([]byte, 8)),
		"spaces":              file(`{ "a" : { "shape" : [ 2 , 4 ] , "data_offsets" : [ 0 , 8 ] , "dtype" : "U8" } }`, make([]byte, 8)),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Parse(data)
			require.NoError(t, err)
		})
	}
}

func TestTruncatedAnywhere(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, Write(&out, []Tensor{Float32s("a", []int{2}, []float32{1, 2}), Int32s("b", nil, []int32{3})}, map[string]string{"k": "v"}))
	for n := range out.Len() {
		_, err := Parse(out.Bytes()[:n])
		require.Error(t, err, "cut to %d bytes", n)
	}
	_, err := Parse(append(out.Bytes(), 0))
	require.Error(t, err)
}

// What has no length takes no bytes.
func TestBytesOfATensor(t *testing.T) {
	assert.EqualValues(t, 12, Tensor{DType: "BF16", Shape: []int{2, 3}}.Bytes())
	assert.Zero(t, Tensor{DType: "other", Shape: []int{2, 3}}.Bytes())
	assert.Zero(t, Tensor{DType: "F32", Shape: []int{2, -3}}.Bytes())
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	_, err := Open(filepath.Join(dir, "absent"))
	assert.ErrorIs(t, err, os.ErrNotExist)
	empty := filepath.Join(dir, "empty")
	require.NoError(t, os.WriteFile(empty, nil, 0o600))
	_, err = Open(empty)
	assert.ErrorContains(t, err, "empty")
	_, err = Open(dir)
	assert.Error(t, err)
}

// TestLongTensor crosses several chunks of the decoder and the encoder.
func TestLongTensor(t *testing.T) {
	values := make([]float32, 3*chunkBytes/4+5)
	for i := range values {
		values[i] = float32(i)
	}
	var out bytes.Buffer
	require.NoError(t, Write(&out, []Tensor{Float32s("x", []int{len(values)}, values)}, nil))
	f, err := Parse(out.Bytes())
	require.NoError(t, err)
	got, err := f.Float32("x")
	require.NoError(t, err)
	require.Equal(t, values, got)
	got, err = f.Float32Rows("x", chunkBytes/4-1, chunkBytes/2)
	require.NoError(t, err)
	require.Equal(t, values[chunkBytes/4-1:][:chunkBytes/2], got)
}

func TestWriteErrors(t *testing.T) {
	scalar := func(name string) Tensor { return Float32s(name, nil, []float32{1}) }
	for name, c := range map[string]struct {
		tensors []Tensor
		meta    map[string]string
		want    string
	}{
		"no name":    {[]Tensor{scalar("")}, nil, "name is empty or reserved"},
		"reserved":   {[]Tensor{scalar("__metadata__")}, nil, "name is empty or reserved"},
		"not UTF-8":  {[]Tensor{scalar("\xff")}, nil, "not UTF-8"},
		"twice":      {[]Tensor{scalar("a"), scalar("b"), scalar("a")}, nil, `tensor "a": given twice`},
		"dtype":      {[]Tensor{{Name: "a", DType: "f32"}}, nil, `unknown dtype "f32"`},
		"negative":   {[]Tensor{{Name: "a", DType: "U8", Shape: []int{-1}}}, nil, "negative"},
		"overflow":   {[]Tensor{{Name: "a", DType: "U8", Shape: []int{math.MaxInt, 2}}}, nil, "overflows"},
		"sum":        {[]Tensor{{Name: "a", DType: "U8", Shape: []int{math.MaxInt}}, {Name: "b", DType: "U8", Shape: []int{1}}}, nil, "file's size overflows"},
		"too few":    {[]Tensor{Float32s("a", []int{3}, []float32{1, 2})}, nil, "8 bytes, want 12 for F32 [3]"},
		"too many":   {[]Tensor{Float32s("a", []int{1}, []float32{1, 2})}, nil, "more bytes than its shape has: 4 beyond"},
		"own error":  {[]Tensor{{Name: "a", DType: "U8", Shape: []int{1}, Data: func(io.Writer) error { return errors.New("lost") }}}, nil, `tensor "a": lost`},
		"metadata":   {nil, map[string]string{"a": "\xff"}, "not UTF-8"},
		"full stops": {[]Tensor{scalar("a")}, map[string]string{"big": strings.Repeat("x", 10)}, "disk full"},
	} {
		t.Run(name, func(t *testing.T) {
			w := io.Writer(io.Discard)
			if c.want == "disk full" {
				w = fullDisk{}
			}
			require.ErrorContains(t, Write(w, c.tensors, c.meta), c.want)
		})
	}
}

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errors.New("disk full") }

// TestFloat16 checks every half against its definition.
func TestFloat16(t *testing.T) {
	for h := range 1 << 16 {
		sign := 1 - 2*float64(h>>15)
		exponent, mantissa := h>>10&0x1f, float64(h&0x3ff)
		got := float64(array.DecodeF16(uint16(h)))
		switch {
		case exponent == 0x1f && mantissa != 0:
			require.True(t, math.IsNaN(got), "%04x", h)
		case exponent == 0x1f:
			require.True(t, math.IsInf(got, int(sign)), "%04x", h)
		case exponent == 0:
			require.Equal(t, sign*mantissa*0x1p-24, got, "%04x", h)
		default:
			require.Equal(t, sign*(1+mantissa/1024)*math.Exp2(float64(exponent-15)), got, "%04x", h)
		}
		require.Equal(t, h>>15 == 1, math.Signbit(got), fmt.Sprintf("%04x", h))
	}
}

func TestReadHalves(t *testing.T) {
	f, err := Parse(file(`{"b":{"dtype":"BF16","shape":[2],"data_offsets":[0,4]},"h":{"dtype":"F16","shape":[2],"data_offsets":[4,8]}}`,
		[]byte{0x80, 0x3f, 0x49, 0x40, 0x00, 0x3c, 0x01, 0x80}))
	require.NoError(t, err)
	b, err := f.Float32("b")
	require.NoError(t, err)
	assert.Equal(t, []float32{1, 3.140625}, b)
	h, err := f.Float32("h")
	require.NoError(t, err)
	assert.Equal(t, []float32{1, -0x1p-24}, h)
}
