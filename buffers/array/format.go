package array

import (
	"fmt"

	"gputrain/internal/dynamic8"
	"gputrain/internal/nf4"
	"gputrain/internal/suggest"
)

// Format is a way to keep numbers: DType counts those of storage, and Modes are what a network may be trained for.
type Format struct {
	Name string // as users write it
	Bits int    // of an element, without what its block has; 0: as the user says
	// Block is how many elements have a scale in common, counted along the flattened array, of Modes along a row; 0:
	// none do. Group is how many scales are nested together, in eight bits each; 0: they are f32.
	Block, Group int
	Load         string // what kernels call the way they read elements
	// Levels are what codes of four bits stand for in a block whose scale, its largest magnitude, is 1; nil: elements
	// are numbers. Codes lie two a byte, the first in the high half. Only matrices of layers are packed, all else is in
	// BF16. Kernels read them by shaders/shared/codes.wgsl, and count on blocks of 64 and groups of 256.
	Levels []float32
	Pack   func(codes []byte, scales, x []float32)
	Widen  func(dst []float32, codes []byte, scales []float32, first int) // the numbers of elements from first on
	// Float is what elements of a mode are, times a power of two, or a number of Scale and a scale of the whole array.
	Float, Scale minifloat
	// Over is what the element of the largest magnitude, below 0 with its sign, is divided by for a scale in f16, as ggml's
	// quantizer does it for blocks of GGUF files: codes are whole numbers from -128 to 127, or to -Over - 1; 0: not so.
	Over float64
	File string // its type in checkpoints, of codes the type of their numbers; "": they cannot have it
	Doc  string // of Bases: what the run file says
}

// Nested are scales in eight bits.
type Nested = dynamic8.Nested

// DType is the storage type of an array's elements: a Format. Arithmetic on the device is f32 whatever the storage.
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

var formats = [...]Format{
	F32:  {Name: "f32", Bits: 32, Load: "f32", File: "F32", Doc: "f32"},
	BF16: {Name: "bf16", Bits: 16, Load: "bf16", File: "BF16", Doc: "bf16, rounded, in half of the memory"},
	I32:  {Name: "i32", Bits: 32, File: "I32"},
	U32:  {Name: "u32", Bits: 32, File: "U32"},
	NF4: {
		Name: "nf4", Bits: 4, Block: nf4.Block, Load: "nf4", Levels: nf4.Levels[:], Pack: nf4.Quantize, Widen: nf4.Widen, File: "F32",
		Doc: "nf4, quantized on loading unless the directory has them so, in a seventh of it, with all but the matrices of layers in bf16",
	},
	NF4Nested: { // what it stands for is not nested to the same again
		Name: "nf4-nested", Bits: 4, Block: nf4.Block, Group: dynamic8.Group, Load: "nf4", Levels: nf4.Levels[:], Pack: nf4.Quantize, Widen: nf4.Widen,
		Doc: "nf4-nested, with the largest magnitudes of blocks in eight bits, in less still",
	},
	U8: {Name: "u8", Bits: 8, File: "U8"},
}

// Bases are the types in which parameters that are only read may be kept, those that round most last.
var Bases = []DType{F32, BF16, NF4, NF4Nested}

// Modes are the formats of few bits that package graph rounds numbers to. With x the elements of a group of Block, or
// as many as the user says, top their largest magnitude, and every rounding to the nearest, of two to the even one
// (nf4: to the lower level):
//
//	affine  lo + s round((x - lo)/s), lo and hi the least and the largest, s = (hi - lo)/(2^Bits - 1). Bits 2 to 8
//	nf4     top times the nearest of 16 quantiles of a normal distribution from -1 to 1 (QLoRA, arXiv:2305.14314, appendix E)
//	mxfp4   s e2m1(x/s), s = 2^(floor(log2 top) - 2), Group 32 (OCP Microscaling Formats 1.0, 2023, section 6.3)
//	mxfp8   s e4m3(x/s), s = 2^(floor(log2 top) - 8), Group 32 (the same)
//	nvfp4   s e2m1(x/s), s = t e4m3(top/(6 t)), t the largest magnitude of all of x over 6*448, Group 16
//	        (NVIDIA 2025, arXiv:2509.25149)
//	q8_0    f16(d) round(x 1/d), d = top/127, halves away from 0, Group 32; each operation rounded to f32
//	q4_0    f16(d) min(floor(x 1/d + 8.5) - 8, 7), d = the first element of magnitude top over -8, Group 32; likewise
//
//	f16     f16(x)
//
// The last three are what GGUF files hold.
var Modes = []Format{
	{Name: "affine", Block: 64},
	formats[NF4],
	{Name: "mxfp4", Bits: 4, Block: 32, Float: e2m1},
	{Name: "mxfp8", Bits: 8, Block: 32, Float: e4m3},
	{Name: "nvfp4", Bits: 4, Block: 16, Float: e2m1, Scale: e4m3},
	{Name: "q8_0", Bits: 8, Block: 32, Over: 127},
	{Name: "q4_0", Bits: 4, Block: 32, Over: -8},
	{Name: "f16", Bits: 16, Block: 32},
}

// OfGGUF tells whether a mode is what GGUF files hold.
func (f Format) OfGGUF() bool { return f.Over != 0 || f.Bits == 16 }

// Valid is whether d is one of them.
func (d DType) Valid() bool { return int(d) < len(formats) }

func (d DType) String() string {
	if !d.Valid() {
		return fmt.Sprintf("DType(%d)", uint8(d))
	}
	return d.Format().Name
}

// Format is the row of d.
func (d DType) Format() *Format { return &formats[d] }

// Packed tells whether elements are codes of four bits, with scales of their blocks.
func (d DType) Packed() bool { return d.Format().Levels != nil }

// Keeps tells whether a tree of type d keeps an array in it, not in BF16.
func (d DType) Keeps(s Spec) bool { return !d.Packed() || s.MatrixOfLayer() }

// Bits is the size of one element in bits, without scales.
func (d DType) Bits() int { return d.Format().Bits }

// Bytes is the size of n elements in bytes, rounded up to whole bytes, without scales.
func (d DType) Bytes(n uint64) uint64 { return (n*uint64(d.Bits()) + 7) / 8 }

// Blocks is how many blocks n elements of a packed type have.
func (d DType) Blocks(n int) int { return (n + d.Format().Block - 1) / d.Format().Block }

// Run is how many elements of a packed type have a scale, or a group of them, in common.
func (d DType) Run() int { return d.Format().Block * max(1, d.Format().Group) }

// Places are where in a packed array of so many elements the codes of one begin, the first of a block, and its scale,
// and where the groups of scales begin, pairs of f32, and end, at a multiple of 16 bytes.
func (d DType) Places(element, elements uint64) (codes, scales, groups, end uint64) {
	block, each, pairs := uint64(d.Format().Block), uint64(4), uint64(0)
	if d.Format().Group > 0 {
		each, pairs = 1, elements/uint64(d.Run())
	}
	all := d.Bytes(elements)
	groups = all + elements/block*each
	return d.Bytes(element), all + element/block*each, groups, groups + (pairs*8+15)/16*16
}

// Whole is the size of n elements, whole runs, with their scales.
func (d DType) Whole(n uint64) uint64 {
	if !d.Packed() {
		return d.Bytes(n)
	}
	_, _, _, end := d.Places(0, n)
	return end
}

// Names are those of types.
func Names(types []DType) (names []string) {
	for _, d := range types {
		names = append(names, d.String())
	}
	return names
}

// ParseDType reads the name of a storage type.
func ParseDType(name string) (DType, error) {
	var names []string
	for d, f := range formats {
		if f.Name == name {
			return DType(d), nil
		}
		names = append(names, f.Name)
	}
	return 0, fmt.Errorf("array: parse dtype: %q, want %s", name, suggest.Or(names))
}
