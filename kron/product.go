package kron

import (
	"fmt"
	"strconv"
	"strings"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/shaders"
)

// Stack is a batch of equal row-major matrices in one buffer, one after the other. Rows and Cols are multiples of four. The padding of a
// smaller matrix must be zero; a product keeps it zero.
type Stack struct {
	Range             gpu.Range
	Count, Rows, Cols int
	DType             buffers.DType // F32, the zero value, or BF16
}

// elements is the size of all matrices.
func (s Stack) elements() int { return s.Count * s.Rows * s.Cols }

// Product is a batch of products of one shape, in one dispatch:
//
//	C_i = alpha_i op(A_i) op(B_i) + beta_i D_i
//
// A and B are read, and may be one stack; D may be one of them; C is another buffer than all of them. A stack of a single matrix
// is multiplied with every one of the other.
type Product struct {
	A, B, C        Stack
	TransA, TransB bool // op is a transposition; not both
	// Symmetric promises that C is symmetric: the tiles on and above its diagonal are computed and mirrored, so that it is symmetric
	// to the last bit, for half the work.
	Symmetric   bool
	D           *Stack // of the shape of C; nil for none
	Alpha, Beta float32
	// Coefficients, where it has bytes, takes the place of Alpha and Beta: alpha and beta of each matrix, two f32.
	Coefficients gpu.Range
	// Keep, where it has bytes, is a u32 of each matrix: where that is not zero, C_i stays as it is.
	Keep gpu.Range

	update    gpu.Range // the uniform, for the two below
	balancing bool      // the product is made in updates that balance only
	sides     gpu.Range // of C, a stack of factors in bf16, which are rounded at random

	as *productVariant // instead of the variant that the shape asks for
}

// productVariant is a specialisation of kron_product.wgsl.
type productVariant struct {
	tile      int                 // quads of rows and of columns that an invocation makes
	lanes     int                 // of a workgroup
	workgroup bool                // a workgroup makes one tile of 64 by 64
	made      shaders.ProductTile // of that
}

// side is the side of the tiles that are counted, in quads.
func (v productVariant) side() int {
	if v.workgroup {
		return 16
	}
	return v.tile
}

// productParams is Params of kron_product.wgsl.
type productParams struct {
	M, N, K, Count    uint32
	LDA, LDB, LDC     uint32
	Across            uint32
	SA, SB, SC, Tiles uint32
	Alpha, Beta       float32
}

// Record records the product. Errors of the recording: shapes that do not fit each other, sides that are not multiples of four, ranges too small.
func (p Product) Record(rec *gpu.Recording, dev *gpu.Device) {
	if err := p.check(); err != nil {
		rec.Fail(fmt.Errorf("kron: product: %w", err))
		return
	}
	if p.C.elements() == 0 {
		return
	}
	k := p.A.Cols
	if p.TransA {
		k = p.A.Rows
	}
	v := p.variant(dev)
	if p.as != nil {
		v = *p.as
	}
	down, across := (p.C.Rows/4+v.side()-1)/v.side(), (p.C.Cols/4+v.side()-1)/v.side()
	params := productParams{
		M: uint32(p.C.Rows / 4), N: uint32(p.C.Cols / 4), K: uint32(k), Count: uint32(p.C.Count),
		LDA: uint32(p.A.Cols / 4), LDB: uint32(p.B.Cols / 4), LDC: uint32(p.C.Cols / 4), Across: uint32(across),
		SA: p.A.stride(), SB: p.B.stride(), SC: uint32(p.C.Rows * p.C.Cols / 4), Tiles: uint32(p.tiles(down, across)),
		Alpha: p.Alpha, Beta: p.Beta,
	}
	bind := []gpu.Range{p.A.bound(), p.B.bound(), p.C.bound()}
	if p.D != nil {
		bind = append(bind, p.D.bound())
	}
	for _, r := range []gpu.Range{p.Coefficients, p.Keep, p.update, p.sides} {
		if r.Bytes > 0 {
			bind = append(bind, r)
		}
	}
	each := v.lanes
	if v.workgroup {
		each = 1
	}
	rec.Dispatch(p.kernel(v), gpu.Linear(uint64(params.Tiles)*uint64(params.Count), each, dev.Limits()), params, bind...)
}

func (p Product) tiles(down, across int) int {
	if p.Symmetric {
		return across * (across + 1) / 2
	}
	return down * across
}

// stride is from matrix to matrix in quads; a single matrix stays.
func (s Stack) stride() uint32 {
	if s.Count == 1 {
		return 0
	}
	return uint32(s.Rows * s.Cols / 4)
}

func (s Stack) bytes() uint64 { return uint64(s.elements()) * uint64(s.DType.Bits()) / 8 }

// bound is the part of the range that the matrices take.
func (s Stack) bound() gpu.Range { return s.Range.Buffer.Range(s.Range.Offset, s.bytes()) }

func (p Product) check() error {
	stacks := []struct {
		name string
		s    Stack
	}{{"A", p.A}, {"B", p.B}, {"C", p.C}}
	if p.D != nil {
		stacks = append(stacks, struct {
			name string
			s    Stack
		}{"D", *p.D})
	}
	for _, x := range stacks {
		switch s := x.s; {
		case s.Rows%4 != 0 || s.Cols%4 != 0 || s.Rows < 0 || s.Cols < 0 || s.Count < 0:
			return fmt.Errorf("%s: %d of [%d, %d], wanted sides that are multiples of 4", x.name, s.Count, s.Rows, s.Cols)
		case s.DType != buffers.F32 && s.DType != buffers.BF16:
			return fmt.Errorf("%s: dtype %s, wanted f32 or bf16", x.name, s.DType)
		case s.Range.Bytes < s.bytes():
			return fmt.Errorf("%s: %d of [%d, %d] in %d bytes, wanted %d", x.name, s.Count, s.Rows, s.Cols, s.Range.Bytes, s.bytes())
		case x.name != "C" && s.Count != p.C.Count && (s.Count != 1 || x.name == "D"):
			return fmt.Errorf("%s: %d matrices, wanted %d as C has", x.name, s.Count, p.C.Count)
		case x.name == "D" && (s.Rows != p.C.Rows || s.Cols != p.C.Cols):
			return fmt.Errorf("%s: [%d, %d], wanted [%d, %d]", x.name, s.Rows, s.Cols, p.C.Rows, p.C.Cols)
		}
	}
	m, k := p.A.Rows, p.A.Cols
	if p.TransA {
		m, k = k, m
	}
	inner, n := p.B.Rows, p.B.Cols
	if p.TransB {
		inner, n = n, inner
	}
	switch {
	case p.TransA && p.TransB:
		return fmt.Errorf("both operands transposed, wanted at most one")
	case k != inner || m != p.C.Rows || n != p.C.Cols:
		return fmt.Errorf("[%d, %d] times [%d, %d] to [%d, %d]", m, k, inner, n, p.C.Rows, p.C.Cols)
	case p.Symmetric && m != n:
		return fmt.Errorf("symmetric, but C is [%d, %d]", m, n)
	case p.Coefficients.Bytes > 0 && p.Coefficients.Bytes < uint64(8*p.C.Count):
		return fmt.Errorf("coefficients: %d bytes, wanted %d", p.Coefficients.Bytes, 8*p.C.Count)
	case p.Keep.Bytes > 0 && p.Keep.Bytes < uint64(4*p.C.Count):
		return fmt.Errorf("keep: %d bytes, wanted %d", p.Keep.Bytes, 4*p.C.Count)
	}
	return nil
}

// variant is a function of the type of adapter and the shape. On a software adapter a vec4 load costs about 80 cycles for eight
// invocations and a multiply-add a little over one (tools/lab-book.md), so the largest tile that does not stick out too far is the
// fastest. GPUs share operands through workgroup memory; small matrices would leave most of its tile empty.
func (p Product) variant(dev *gpu.Device) productVariant {
	smaller := min(p.C.Rows, p.C.Cols)
	switch {
	case dev.Limits().Software:
	case smaller >= 48:
		return productVariant{tile: 2, lanes: 64, workgroup: true, made: dev.Limits().Registers.ProductTile(64)}
	case smaller >= 16:
		return productVariant{tile: 2, lanes: 64}
	default:
		return productVariant{tile: 1, lanes: 64}
	}
	const load, step, cores = 80, 1.3, 4
	best, least := 1, 0.0
	for tile := 1; tile <= 4; tile *= 2 {
		across := (p.C.Cols/4 + tile - 1) / tile
		count := p.C.Count * p.tiles((p.C.Rows/4+tile-1)/tile, across)
		groups := max((count+7)/8, cores) // fewer leave cores idle
		cost := float64(groups) * (float64(8*tile)*load + float64(64*tile*tile)*step)
		if tile == 1 || cost < least {
			best, least = tile, cost
		}
	}
	return productVariant{tile: best, lanes: 8}
}

// kernel is the specialisation for the form of the product.
func (p Product) kernel(v productVariant) *gpu.Kernel {
	memory := map[buffers.DType]struct{ element, load, round, value, store string }{
		buffers.F32:  {"vec4<f32>", "", "", "vec4<f32>", ""},
		buffers.BF16: {"vec2<u32>", "bf16_unpack4", "bf16_round4", "vec4<u32>", "bf16_join"},
	}
	flags := map[string]bool{
		"TRANS_A": p.TransA, "TRANS_B": p.TransB, "SYMMETRIC": p.Symmetric,
		"ADD": p.D != nil, "COEFFICIENTS": p.Coefficients.Bytes > 0, "KEEP": p.Keep.Bytes > 0,
		"UPDATE": p.update.Bytes > 0, "BALANCING": p.balancing, "DITHER": p.sides.Bytes > 0,
		"WORKGROUP": v.workgroup,
	}
	for _, s := range []*Stack{&p.A, &p.B, &p.C, p.D} {
		flags["BF16"] = flags["BF16"] || s != nil && s.DType == buffers.BF16 || p.update.Bytes > 0
	}
	var more []string
	declare := func(there bool, space, name, element string) {
		if there {
			more = append(more, fmt.Sprintf("@bind var<%s> %s: %s;", space, name, element))
		}
	}
	d := memory[buffers.F32]
	if p.D != nil {
		d = memory[p.D.DType]
	}
	const read = "storage, read"
	declare(p.D != nil, read, "d", "array<"+d.element+">")
	declare(p.Coefficients.Bytes > 0, read, "coefficients", "array<vec2<f32>>")
	declare(p.Keep.Bytes > 0, read, "keep", "array<u32>")
	declare(p.update.Bytes > 0, "uniform", "update", "Update")
	declare(p.sides.Bytes > 0, read, "sides", "array<vec4<u32>>")
	suffix := "_" + map[bool]string{false: "n", true: "t"}[p.TransA] + map[bool]string{false: "n", true: "t"}[p.TransB]
	if p.Symmetric {
		suffix += "_symmetric"
	}
	c := memory[p.C.DType]
	constants := map[string]string{
		"TILE": strconv.Itoa(v.tile), "APART": strconv.Itoa(v.side() / v.tile), "LANES": strconv.Itoa(v.lanes), "MORE": strings.Join(more, "\n"),
		"A_TYPE": memory[p.A.DType].element, "A_LOAD": memory[p.A.DType].load,
		"B_TYPE": memory[p.B.DType].element, "B_LOAD": memory[p.B.DType].load,
		"C_TYPE": c.element, "C_ROUND": c.round, "C_VALUE": c.value, "C_STORE": c.store, "D_LOAD": d.load,
	}
	variant := shaders.Variant{Flags: flags, Constants: constants}
	if v.workgroup {
		flags["SUMS"] = false
		v.made.Specialise(variant)
		raw := map[buffers.DType][2]string{buffers.F32: {"bitcast<vec4<u32>>(%s[i])", "bitcast<vec4<f32>>(raw)"}, buffers.BF16: {"vec4<u32>(%s[i], 0u, 0u)", "bf16_unpack4(raw.xy)"}}
		constants["A_RAW"], constants["A_OF"] = fmt.Sprintf(raw[p.A.DType][0], "a"), raw[p.A.DType][1]
		constants["B_RAW"], constants["B_OF"] = fmt.Sprintf(raw[p.B.DType][0], "b"), raw[p.B.DType][1]
	}
	return kernelOf("product", fmt.Sprintf("%s_%d", suffix, 4*v.side()), variant)
}
