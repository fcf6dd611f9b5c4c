package gguf

import (
	"fmt"
	"slices"
	"strings"
)

// Type is how the elements of a tensor are stored, by ggml's numbers.
type Type uint32

// The types that are read.
const (
	F32   Type = 0
	F16   Type = 1
	Q4_0  Type = 2
	Q4_1  Type = 3
	Q5_0  Type = 6
	Q5_1  Type = 7
	Q8_0  Type = 8
	Q4_K  Type = 12
	Q5_K  Type = 13
	Q6_K  Type = 14
	IQ4NL Type = 20
	BF16  Type = 30
)

// types has a row for each type of ggml. Those without a decoder are known by name and size alone.
var types = map[Type]struct {
	name            string
	elements, bytes int // of a block
	decode          func(dst []float32, src []byte)
	encode          func(dst []byte, src []float32)
}{
	F32:   {"f32", 1, 4, decodeF32, encodeF32},
	F16:   {"f16", 1, 2, decodeF16, encodeF16},
	BF16:  {"bf16", 1, 2, decodeBF16, encodeBF16},
	Q8_0:  {"q8_0", 32, 34, decodeQ8, encodeQ8},
	Q4_0:  {"q4_0", 32, 18, decodeQ4, encodeQ4},
	Q4_1:  {"q4_1", 32, 20, decodeQ41, nil},
	Q5_0:  {"q5_0", 32, 22, decodeQ50, nil},
	Q5_1:  {"q5_1", 32, 24, decodeQ51, nil},
	IQ4NL: {"iq4_nl", 32, 18, decodeIQ4NL, nil},
	Q4_K:  {"q4_k", 256, 144, decodeQ4K, nil},
	Q5_K:  {"q5_k", 256, 176, decodeQ5K, nil},
	Q6_K:  {"q6_k", 256, 210, decodeQ6K, nil},
	9:     {name: "q8_1", elements: 32, bytes: 36},
	10:    {name: "q2_k", elements: 256, bytes: 84},
	11:    {name: "q3_k", elements: 256, bytes: 110},
	15:    {name: "q8_k", elements: 256, bytes: 292},
	16:    {name: "iq2_xxs", elements: 256, bytes: 66},
	17:    {name: "iq2_xs", elements: 256, bytes: 74},
	18:    {name: "iq3_xxs", elements: 256, bytes: 98},
	19:    {name: "iq1_s", elements: 256, bytes: 50},
	21:    {name: "iq3_s", elements: 256, bytes: 110},
	22:    {name: "iq2_s", elements: 256, bytes: 82},
	23:    {name: "iq4_xs", elements: 256, bytes: 136},
	24:    {name: "i8", elements: 1, bytes: 1},
	25:    {name: "i16", elements: 1, bytes: 2},
	26:    {name: "i32", elements: 1, bytes: 4},
	27:    {name: "i64", elements: 1, bytes: 8},
	28:    {name: "f64", elements: 1, bytes: 8},
	29:    {name: "iq1_m", elements: 256, bytes: 56},
	34:    {name: "tq1_0", elements: 256, bytes: 54},
	35:    {name: "tq2_0", elements: 256, bytes: 66},
	39:    {name: "mxfp4", elements: 32, bytes: 17},
	40:    {name: "nvfp4", elements: 64, bytes: 36},
	41:    {name: "q1_0", elements: 128, bytes: 18},
	42:    {name: "q2_0", elements: 64, bytes: 18},
}

// gone are types that llama.cpp has given up.
var gone = map[Type]string{
	4: "q4_2", 5: "q4_3", 31: "q4_0_4_4", 32: "q4_0_4_8", 33: "q4_0_8_8", 36: "iq4_nl_4_4", 37: "iq4_nl_4_8", 38: "iq4_nl_8_8",
}

// String is the name of a type in lower case: "q8_0".
func (t Type) String() string {
	if row, ok := types[t]; ok {
		return row.name
	}
	return fmt.Sprintf("type %d", uint32(t))
}

// ParseType finds a type by its name, in either case.
func ParseType(name string) (Type, error) {
	for t, row := range types {
		if strings.EqualFold(row.name, name) {
			return t, nil
		}
	}
	return 0, fmt.Errorf("gguf: type: found %q, wanted one of %s", name, strings.Join(readable(), ", "))
}

// readable are the names of the types that are read, in the order of ggml's numbers.
func readable() (names []string) {
	for t := range Type(64) {
		if t.Readable() {
			names = append(names, t.String())
		}
	}
	return names
}

// Readable says whether tensors of the type are read.
func (t Type) Readable() bool { return types[t].decode != nil }

// Writable says whether Encode has the type.
func (t Type) Writable() bool { return types[t].encode != nil }

// Refuse is nil for a type that is read. For others it says what would help.
func (t Type) Refuse() error {
	const again = "llama-quantize --allow-requantize FILE.gguf NEW.gguf F16"
	wanted := strings.Join(readable(), ", ")
	_, known := types[t]
	switch {
	case t.Readable():
		return nil
	case gone[t] != "":
		return fmt.Errorf("type %s: llama.cpp has given it up, wanted one of %s: take a newer file of the model", gone[t], wanted)
	case !known:
		return fmt.Errorf("type %d: found one that is not known, wanted one of %s: where a newer llama.cpp has made the file, %s widens it", uint32(t), wanted, again)
	}
	return fmt.Errorf("type %s: found one that is not read, wanted one of %s: take another file of the model, or widen this one: %s", t, wanted, again)
}

// Block is the number of elements of a block, and its length in bytes: 32 and 34 of Q8_0, 1 and 4 of F32. Of a type that is not known it is 0 and 0.
func (t Type) Block() (elements, bytes int) { return types[t].elements, types[t].bytes }

// RowBytes is the length of a row of n elements, which must be whole blocks.
func (t Type) RowBytes(n int) (int64, error) {
	elements, bytes := t.Block()
	if elements == 0 {
		return 0, t.Refuse()
	}
	if n%elements != 0 {
		return 0, fmt.Errorf("type %s: found rows of %d elements, wanted a multiple of %d", t, n, elements)
	}
	return int64(n/elements) * int64(bytes), nil
}

// Encode stores floats in whole blocks, with the bytes of ggml's reference quantization: F32, F16, BF16, Q8_0 and Q4_0. Numbers that do not fit F16 become
// infinite. What is not finite has no blocks in Q8_0 and Q4_0: callers check for it.
func Encode(t Type, dst []byte, src []float32) error {
	if !t.Writable() {
		return fmt.Errorf("gguf: encode: found %s, wanted another type", t)
	}
	want, err := t.RowBytes(len(src))
	if err != nil {
		return fmt.Errorf("gguf: encode: %w", err)
	}
	if int64(len(dst)) != want {
		return fmt.Errorf("gguf: encode: %s: found %d bytes for %d elements, wanted %d", t, len(dst), len(src), want)
	}
	types[t].encode(dst, src)
	return nil
}

// bytesOf is the length of a tensor of this type, whose rows must be whole blocks. Shapes come from strangers.
func (t Type) bytesOf(shape []int) (int64, error) {
	row := 1
	if len(shape) > 0 {
		row = shape[len(shape)-1]
	}
	n, err := t.RowBytes(row)
	for _, d := range shape[:max(0, len(shape)-1)] {
		if err == nil && d > 0 && n > mostBytes/int64(d) {
			err = fmt.Errorf("shape %v: found more elements than any file can have", shape)
		}
		n *= int64(d)
	}
	if slices.Contains(shape, 0) && err == nil {
		err = fmt.Errorf("shape %v: found no elements, wanted some", shape)
	}
	return n, err
}

// mostBytes is more than any tensor has.
const mostBytes = 1 << 50
