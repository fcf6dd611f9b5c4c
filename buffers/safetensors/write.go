package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"gputrain/internal/stranger"
)

// Tensor is one tensor to write. Data writes its bytes, row-major and little-endian, when its turn comes; it must write
// exactly what dtype and shape say.
type Tensor struct {
	Name  string
	DType string // "F32", "BF16", "I32", ...
	Shape []int
	Data  func(w io.Writer) error
}

// Bytes is the size of the tensor's data; 0 where dtype or shape are not ones that Write accepts.
func (t Tensor) Bytes() uint64 {
	n, err := byteLength(t.DType, t.Shape)
	if err != nil {
		return 0
	}
	return n
}

// Float32s makes an F32 tensor of values in memory.
func Float32s(name string, shape []int, values []float32) Tensor {
	return words(name, "F32", shape, values, math.Float32bits)
}

// Int32s makes an I32 tensor of values in memory.
func Int32s(name string, shape []int, values []int32) Tensor {
	return words(name, "I32", shape, values, func(v int32) uint32 { return uint32(v) })
}

func words[T any](name, dtype string, shape []int, values []T, bits func(T) uint32) Tensor {
	return Tensor{Name: name, DType: dtype, Shape: shape, Data: func(w io.Writer) error {
		chunk := make([]byte, 0, chunkBytes)
		for part := range slices.Chunk(values, chunkBytes/4) {
			chunk = chunk[:0]
			for _, v := range part {
				chunk = binary.LittleEndian.AppendUint32(chunk, bits(v))
			}
			if _, err := w.Write(chunk); err != nil {
				return err
			}
		}
		return nil
	}}
}

// Write writes a file: tensors in name order, metadata (if any) first in the header, which is padded with spaces to a multiple of 8.
// The same input gives the same bytes. Errors: a name that is empty, reserved, not UTF-8 or given twice, an unknown dtype, a
// shape that overflows, a source that writes more or less than its shape, the writer's own.
func Write(w io.Writer, tensors []Tensor, metadata map[string]string) error {
	tensors = slices.Clone(tensors)
	slices.SortStableFunc(tensors, func(a, b Tensor) int { return strings.Compare(a.Name, b.Name) })
	head, err := makeHeader(tensors, metadata)
	if err != nil {
		return err
	}
	if _, err := w.Write(head); err != nil {
		return fmt.Errorf("safetensors: write: header: %w", err)
	}
	for _, t := range tensors {
		want, _ := byteLength(t.DType, t.Shape) // makeHeader has checked it
		exact := &exactWriter{w: w, left: want}
		if want > 0 {
			err = t.Data(exact)
		}
		if err == nil && exact.left > 0 {
			err = fmt.Errorf("%d bytes, want %d for %s %v", want-exact.left, want, t.DType, t.Shape)
		}
		if err != nil {
			return fmt.Errorf("safetensors: write: tensor %q: %w", t.Name, err)
		}
	}
	return nil
}

// makeHeader gives the length prefix and the header, and checks all that can be checked before the first byte.
func makeHeader(tensors []Tensor, metadata map[string]string) ([]byte, error) {
	var b bytes.Buffer
	b.Write(make([]byte, 8))
	b.WriteByte('{')
	separator := ""
	if len(metadata) > 0 {
		for k, v := range metadata {
			if !utf8.ValidString(k) || !utf8.ValidString(v) {
				return nil, fmt.Errorf("safetensors: write: metadata %q: not UTF-8", k)
			}
		}
		b.WriteString(quote(metadataKey) + ":" + quote(metadata))
		separator = ","
	}
	at := uint64(0)
	for i, t := range tensors {
		size, err := byteLength(t.DType, t.Shape)
		switch {
		case err != nil:
		case t.Name == "" || t.Name == metadataKey:
			err = fmt.Errorf("name is empty or reserved")
		case !utf8.ValidString(t.Name):
			err = fmt.Errorf("name is not UTF-8")
		case i > 0 && tensors[i-1].Name == t.Name:
			err = fmt.Errorf("given twice")
		case size > math.MaxInt64-at:
			err = fmt.Errorf("the file's size overflows")
		}
		if err != nil {
			return nil, fmt.Errorf("safetensors: write: tensor %q: %w", t.Name, err)
		}
		shape := make([]string, len(t.Shape))
		for j, d := range t.Shape {
			shape[j] = strconv.Itoa(d)
		}
		fmt.Fprintf(&b, `%s%s:{"dtype":%q,"shape":[%s],"data_offsets":[%d,%d]}`,
			separator, quote(t.Name), t.DType, strings.Join(shape, ","), at, at+size)
		separator = ","
		at += size
	}
	b.WriteByte('}')
	for b.Len()%8 != 0 {
		b.WriteByte(' ')
	}
	head := b.Bytes()
	if len(head)-8 > stranger.SafetensorsHeader {
		return nil, fmt.Errorf("safetensors: write: header of %d bytes, want at most %d", len(head)-8, stranger.SafetensorsHeader)
	}
	binary.LittleEndian.PutUint64(head, uint64(len(head)-8))
	return head, nil
}

// quote writes JSON without the escapes for HTML; strings and maps of strings cannot fail.
func quote(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// exactWriter refuses what goes beyond a tensor's length, before it reaches the file.
type exactWriter struct {
	w    io.Writer
	left uint64
}

func (e *exactWriter) Write(p []byte) (int, error) {
	if uint64(len(p)) > e.left {
		return 0, fmt.Errorf("more bytes than its shape has: %d beyond", uint64(len(p))-e.left)
	}
	n, err := e.w.Write(p)
	e.left -= uint64(n)
	return n, err
}
