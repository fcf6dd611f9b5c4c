package compile

import (
	"strconv"
	"strings"

	"gputrain/buffers"
	"gputrain/graph"
	"gputrain/shaders"
)

// A product reads a param that is kept in bf16 or in codes as it is kept, as its operand B, and an embedding one in
// bf16. Lowering takes spans of such a param for f32; the spans that these bind are those of what is there. All other
// readers get copies: see narrow.go.

// kept is the type that elements have in their slab.
func (s Span) kept() buffers.DType {
	if s.st == nil || s.st.narrow == nil {
		return buffers.F32
	}
	return s.st.kept
}

// kept is the type in which a product reads the elements of an operand.
func (o operand) kept() buffers.DType {
	if o.copied {
		return buffers.F32
	}
	return o.span.kept()
}

// stored are the spans of a part of a param as it is kept: of its elements, and of a packed one of the maxima of its
// blocks: where these are nested, a copy in f32 takes their place (narrow.go).
func (s Span) stored() []Span {
	at := func(offset, bytes uint64) Span {
		return Span{st: s.st, Offset: offset, Bytes: roundUp(bytes, spanAlign), asKept: true}
	}
	first, count := s.Offset/4, s.Bytes/4
	kept := s.st.kept
	if !kept.Packed() {
		return []Span{at(kept.Bytes(first), kept.Bytes(count))}
	}
	codes, maxima, _, _ := kept.Places(first, s.st.bytes/4)
	blocks := uint64(kept.Blocks(int(count)))
	if kept.Format().Group > 0 {
		return []Span{at(codes, kept.Bytes(count)), {st: s.st, Offset: s.Offset, Bytes: roundUp(4*blocks, spanAlign), maxima: true}}
	}
	return []Span{at(codes, kept.Bytes(count)), at(maxima, 4*blocks)}
}

// On processors a product of many rows with the transpose of a small packed matrix reads a copy in f32: to decode it once costs less than once for each 32
// rows. Products with larger ones wait for memory anyway, and a copy would take what packing saves.
const copiedRows, copiedElements = 256, 1 << 20

// copies tells whether a product reads a copy of its operand B.
func (c *Compiler) copies(g gemm, b Tensor) bool {
	return c.limits.Software && b.Parts[0].Span.st.kept.Packed() && g.transB && g.m >= copiedRows && g.n*g.k <= copiedElements
}

// specialise gives a product kernel the form of its operand B, and what it binds for it.
func (v gemmVariant) specialise(g gemm, variant shaders.Variant, software bool) (suffix string, spans []Span) {
	kept, halves := g.b.kept(), g.b.span.inHalves()
	variant.Flags["B_WHOLE"], variant.Flags["B_BF16"], variant.Flags["B_CODES"] = kept == buffers.F32 && !halves, kept == buffers.BF16, kept.Packed()
	if v.file != "matmul" {
		variant.Flags["B_HALVES"] = halves
	}
	if kept == buffers.F32 {
		return "", []Span{g.b.span}
	}
	if kept.Packed() {
		codesOf(kept, variant)
		if v.file == "matmul" {
			variant.Flags["TABLE"] = software
		}
	}
	return "_" + kept.Format().Load, g.b.span.stored()
}

// codesOf has a kernel read the codes of a packed type.
func codesOf(kept buffers.DType, variant shaders.Variant) {
	var levels []string
	for _, level := range kept.Format().Levels {
		levels = append(levels, strconv.FormatFloat(float64(level), 'e', -1, 32))
	}
	variant.Constants["CODES"], variant.Constants["LEVELS"] = kept.Format().Load, strings.Join(levels, ", ")
}

// packedLoop tells whether packed_loop.wgsl suits the rows of B: they are whole blocks, begin at one, and are not rounded to f16.
func (g gemm) packedLoop(v gemmVariant) bool {
	if g.f16 || g.transA || !g.b.kept().Packed() {
		return false
	}
	block := g.b.kept().Format().Block
	whole := g.b.row%block == 0 && g.b.offset%block == 0
	if g.transB {
		return whole && g.k%block == 0
	}
	return whole && g.n%block == 0 && v.cols > 1 && g.k%4 == 0
}

// packedTile has twice the rows of other tiles: each number of B takes arithmetic to decode, which more rows share.
func packedTile(g gemm) gemmVariant {
	v := registerTile(g, 8)
	if wide := (gemmVariant{file: "matmul", rows: 32, cols: 4, wx: 8, wy: 1, tileM: 32, tileN: 128}); g.m > 16 && g.n >= 128 && g.packedLoop(wide) {
		return wide
	}
	return v
}

// maximaRead is how many bindings more than operands the product of a node has.
func (c *Compiler) maximaRead(n *graph.Node) int {
	for _, v := range n.Inputs {
		v = c.root(v)
		if _, ok := v.Node().Op.(graph.Param); ok && len(c.place(v).Parts) > 0 && c.place(v).Parts[0].Span.st.kept.Packed() {
			return 1
		}
	}
	return 0
}
