package cluster

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// Wire is how gradients travel between ranks.
type Wire string

// The wires. BF16 rounds each partial sum that a rank gives, and the total, to nearest even: half the bytes. Of a gradient g, the sum over nodes s_i, the
// total then differs from that of F32 by at most 2^-8 (|g| + sum |s_i|) (1 + 2^-7), beside the roundings of f32.
const (
	F32  Wire = "f32"
	BF16 Wire = "bf16"
)

// Wires are the values of Wire.
var Wires = []string{string(F32), string(BF16)}

func (w Wire) validate() error {
	if !slices.Contains(Wires, string(w)) {
		return fmt.Errorf("cluster: wire: found %q, wanted one of %q", w, Wires)
	}
	return nil
}

// bytes of an element.
func (w Wire) bytes() int {
	if w == BF16 {
		return 2
	}
	return 4
}

// encode puts values into dst as they travel.
func (w Wire) encode(dst []byte, values []float32) {
	if w == F32 {
		for i, v := range values {
			binary.LittleEndian.PutUint32(dst[4*i:], math.Float32bits(v))
		}
		return
	}
	for i, v := range values {
		binary.LittleEndian.PutUint16(dst[2*i:], bfloat(v))
	}
}

// decode takes values out of src.
func (w Wire) decode(values []float32, src []byte) {
	if w == F32 {
		for i := range values {
			values[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
		}
		return
	}
	for i := range values {
		values[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16)
	}
}

// bfloat is the upper half of a float32, rounded to nearest even. A NaN stays one.
func bfloat(v float32) uint16 {
	bits := math.Float32bits(v)
	if v != v {
		return uint16(bits>>16) | 0x40
	}
	return uint16((bits + 0x7fff + bits>>16&1) >> 16)
}

// round makes values what they are once they have travelled.
func (w Wire) round(values []float32) {
	if w == F32 {
		return
	}
	for i, v := range values {
		values[i] = math.Float32frombits(uint32(bfloat(v)) << 16)
	}
}
