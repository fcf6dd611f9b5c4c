package array

import "fmt"

// DType is the storage type of an array's elements. Arithmetic on the device is f32 whatever the storage.
type DType uint8

// The storage types. BF16 lives two to a u32, the element of the lower index in the low half.
const (
	F32 DType = iota
	BF16
	I32
	U32
	NF4       // four bits an element and a maximum a block; see package nf4
	NF4Nested // NF4 whose maxima are nested: eight bits each
	U8        // codes of eight bits
)

var dtypes = [...]struct {
	name string
	bits uint64
}{F32: {"f32", 32}, BF16: {"bf16", 16}, I32: {"i32", 32}, U32: {"u32", 32}, NF4: {"nf4", 4}, NF4Nested: {"nf4-nested", 4}, U8: {"u8", 8}}

// Valid is whether d is one of them.
func (d DType) Valid() bool { return int(d) < len(dtypes) }

func (d DType) String() string {
	if !d.Valid() {
		return fmt.Sprintf("DType(%d)", uint8(d))
	}
	return dtypes[d].name
}

// Packed tells whether elements are codes of four bits, with maxima of their blocks: NF4 and NF4Nested.
func (d DType) Packed() bool { return d == NF4 || d == NF4Nested }

// Bits is the size of one element in bits; of NF4 and NF4Nested without maxima.
func (d DType) Bits() int { return int(dtypes[d].bits) }

// Bytes is the size of n elements in bytes, rounded up to whole bytes.
func (d DType) Bytes(n uint64) uint64 { return (n*dtypes[d].bits + 7) / 8 }

// ParseDType reads "f32", "bf16", "i32", "u32", "nf4", "nf4-nested" or "u8".
func ParseDType(name string) (DType, error) {
	for d, t := range dtypes {
		if t.name == name {
			return DType(d), nil
		}
	}
	return 0, fmt.Errorf("array: parse dtype: %q, want f32, bf16, i32, u32, nf4, nf4-nested or u8", name)
}
