package compile

import (
	"cmp"
	"fmt"
	"strconv"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/shaders"
)

// operand is a row-major matrix, or a batch of them, inside a span. Offset, row stride and batch stride in elements.
type operand struct {
	span               Span
	offset, row, batch int
	copied             bool // read as f32, however it is kept
}

// vector is the elements of a vec4.
func (o operand) vector() int {
	if o.span.inHalves() {
		return 8
	}
	return 4
}

// fitsVec4 is whether every row starts at a whole vec4.
func (o operand) fitsVec4() bool {
	n := o.vector()
	return o.offset%n == 0 && o.row%n == 0 && o.batch%n == 0
}

// gemm is a batch of matrix products C = op(A) op(B), or C += it: C [m,n], op(A) [m,k], op(B) [k,n]. Nothing in it is
// empty. A transposed lies as [k,m], B transposed as [n,k]; not both.
type gemm struct {
	m, n, k, count int // count of products
	transA, transB bool
	accumulate     bool // C is added to
	continues      bool // the sums along K go on from what C holds
	a, b, c        operand

	f16   bool // operands are rounded to f16, by matrix units where the adapter has some
	block int  // C is the sum of the sums over so much of K each, added up in order; 0: one sum along K
	alike int  // K is cut into slices as for so many rows; 0: m

	// paddedA: the rows of A (not transposed) are followed by zeros up to a multiple of four, or of eight in f16.
	// paddedC: the rows of C may be written up to a multiple of four.
	paddedA, paddedC bool

	ragged   *ragged   // products of experts; nil: it is one for all rows
	epilogue *epilogue // in place of C, which has no span then and is contiguous; nil for none
	sums     *Tensor   // of the columns of B; without parts they are the row below C; nil for none
}

// gemmParams is Params of matmul.wgsl and matmul_tiled.wgsl.
type gemmParams struct {
	M, N, K, Depth uint32
	LDA, LDB, LDC  uint32
	Slices         uint32
	A0, B0, C0, Z0 uint32
	SA, SB, SC     uint32
	Count          uint32
}

// scalarParams is Params of matmul_scalar.wgsl.
type scalarParams struct {
	M, N, K, Depth uint32
	AM, AK, BK, BN uint32
	LDC, Slices    uint32
	A0, B0, C0, Z0 uint32
	SA, SB, SC     uint32
}

// slicesParams is Params of matmul_slices.wgsl.
type slicesParams struct {
	M, N4, N, Slices uint32
	C0, LDC          uint32
}

// gemm appends the dispatches of g in the variant chosen for its shape.
func (c *Compiler) gemm(g gemm) { c.gemmAs(g, c.chooseGemm(g)) }

// gemmAs appends the dispatches of g in one variant.
func (c *Compiler) gemmAs(g gemm, v gemmVariant) { c.gemmAlong(g, v, c.depth(g), []gemm{g}) }

// depth is the K of a slice, K itself where there is one.
func (c *Compiler) depth(g gemm) int {
	if g.block > 0 {
		return g.k
	}
	g.m = cmp.Or(g.alike, g.m)
	slices := c.slices(g)
	if slices == 1 {
		return g.k
	}
	depth := (g.k + slices - 1) / slices
	step := 32 // whole steps of every kernel
	if c.limits.Software && !c.takesUnits(g) {
		step = 16
	}
	return (depth + step - 1) / step * step
}

// gemmAlong appends the dispatches of a product whose operands come in pieces along K.
func (c *Compiler) gemmAlong(g gemm, v gemmVariant, depth int, pieces []gemm) {
	if depth >= g.k {
		for i, p := range pieces {
			p.continues = g.continues || i > 0
			c.gemmSlice(p, c.suited(v, p, g), p.k)
		}
		return
	}
	// K in slices, each to a product of its own, then their sum in order.
	n4 := (g.n + 3) / 4
	slices := (g.k + depth - 1) / depth
	rows, below := g.m, g.sums
	if g.sums != nil {
		rows, below = g.m+1, &Tensor{}
	}
	partial := c.One(c.workspace("slices", slices, rows, 4*n4), "slices")
	to := operand{span: partial, row: 4 * n4, batch: rows * 4 * n4}
	g.accumulate = g.accumulate || g.continues
	if len(pieces) == 1 {
		p := g
		p.accumulate, p.continues, p.paddedC, p.count, p.epilogue, p.sums = false, false, true, slices, nil, below
		p.a.batch, p.b.batch, p.c = 0, 0, to
		c.gemmSlice(p, v, depth)
	} else {
		c.slicesOfPieces(g, v, depth, pieces, to)
	}

	scalar := !g.storesVec4()
	unit := 4
	if scalar {
		unit = 1
	}
	variant := shaders.Variant{Flags: map[string]bool{"ACCUMULATE": g.accumulate, "STORE_SCALAR": scalar}, Constants: map[string]string{}}
	suffix, spans := g.results(c, variant, partial)
	c.Dispatch(c.kernel("matmul_slices", suffix, variant), c.Linear(rows*n4), slicesParams{
		M: uint32(rows), N4: uint32(n4), N: uint32(g.n), Slices: uint32(slices),
		C0: uint32(g.c.offset / unit), LDC: uint32(g.c.row / unit),
	}, spans...)
}

// results has a shader that reads some spans store C, or do the epilogue, see epilogue.finish, and the sums of B's columns.
func (g gemm) results(c *Compiler, v shaders.Variant, reads ...Span) (suffix string, spans []Span) {
	suffix, spans = g.epilogue.finish(c, v, reads...)
	if g.epilogue == nil {
		spans = append(spans, g.c.span)
	}
	v.Flags["SUMS"], v.Flags["SUMS_APART"], v.Flags["SUMS_ADD"] = g.sums != nil, false, false
	if g.sums != nil {
		suffix += "_sums"
		for _, p := range g.sums.Parts {
			v.Flags["SUMS_APART"], v.Flags["SUMS_ADD"], spans = true, g.sums.Accumulate, append(spans, p.Span)
		}
	}
	return suffix, spans
}

// slicesOfPieces makes each slice of K of the pieces that have some of it, one going on where the one before ends.
func (c *Compiler) slicesOfPieces(g gemm, v gemmVariant, depth int, pieces []gemm, to operand) {
	start := 0
	for _, piece := range pieces {
		for from := start; from < start+piece.k; {
			slice := from / depth
			end := min(start+piece.k, (slice+1)*depth)
			p := piece.alongK(from-start, end-from)
			p.accumulate, p.continues, p.paddedC, p.c = false, from > slice*depth, true, to
			p.c.offset = slice * to.batch
			c.gemmSlice(p, c.suited(v, p, g), p.k)
			from = end
		}
		start += piece.k
	}
}

// alongK is g for a range of K.
func (g gemm) alongK(from, length int) gemm {
	g.k = length
	if g.transA {
		g.a.offset += from * g.a.row
	} else {
		g.a.offset += from
	}
	if g.transB {
		g.b.offset += from
	} else {
		g.b.offset += from * g.b.row
	}
	return g
}

// suited is the variant of the whole product for a piece of it, unless the piece is not aligned as the whole is. All variants add along K in
// the same order.
func (c *Compiler) suited(v gemmVariant, piece, whole gemm) gemmVariant {
	if piece.loadsVec4() == whole.loadsVec4() {
		return v
	}
	return c.chooseGemm(piece)
}

// gemmSlice appends the product kernel; depth below K makes the products of the slices of K instead of those of a batch.
func (c *Compiler) gemmSlice(g gemm, v gemmVariant, depth int) {
	sliced := uint32(0)
	if depth < g.k {
		sliced = 1
	}
	step := cmp.Or(g.block, depth)
	grid := gpu.Grid{X: tiles(g.n, v.tileN), Y: tiles(g.m, v.tileM)}
	limit := int(c.limits.Workgroups)
	if rows := limit * v.tileM; g.m > rows { // tall: in pieces that a grid can count
		top, rest := g, g
		top.m, rest.m, rest.sums = rows, g.m-rows, nil
		if g.transA {
			rest.a.offset += rows
		} else {
			rest.a.offset += rows * g.a.row
		}
		rest.c.offset += rows * g.c.row
		c.gemmSlice(top, v, depth)
		c.gemmSlice(rest, v, depth)
		return
	}
	for z := 0; z < g.count; z += limit {
		grid.Z = uint32(min(limit, g.count-z))
		if v.file == "matmul_scalar" {
			p := scalarParams{
				M: uint32(g.m), N: uint32(g.n), K: uint32(g.k), Depth: uint32(depth), AM: uint32(g.a.row), AK: 1,
				BK: uint32(g.b.row), BN: 1, LDC: uint32(g.c.row), Slices: sliced, A0: uint32(g.a.offset), B0: uint32(g.b.offset),
				C0: uint32(g.c.offset), Z0: uint32(z), SA: uint32(g.a.batch), SB: uint32(g.b.batch), SC: uint32(g.c.batch),
			}
			if g.transA {
				p.AM, p.AK = p.AK, p.AM
			}
			if g.transB {
				p.BK, p.BN = p.BN, p.BK
			}
			k, spans := v.kernel(c, g)
			c.Dispatch(k, grid, p, spans...)
			c.multiplies(g.m, g.n, depth*int(grid.Z))
			continue
		}
		unit := 4 // of C
		if !g.storesVec4() {
			unit = 1
		}
		ofA, ofB := g.a.vector(), g.b.vector()
		k, spans := v.kernel(c, g)
		c.Dispatch(k, grid, gemmParams{
			M: uint32(g.m), N: uint32(g.n), K: uint32(g.k), Depth: uint32(step),
			LDA: uint32(g.a.row / ofA), LDB: uint32(g.b.row / ofB), LDC: uint32(g.c.row / unit), Slices: sliced,
			A0: uint32(g.a.offset / ofA), B0: uint32(g.b.offset / ofB), C0: uint32(g.c.offset / unit), Z0: uint32(z),
			SA: uint32(g.a.batch / ofA), SB: uint32(g.b.batch / ofB), SC: uint32(g.c.batch / unit),
		}, spans...)
		c.multiplies(g.m, g.n, depth*int(grid.Z))
	}
}

// multiplies counts the operations of the product dispatched last.
func (c *Compiler) multiplies(m, n, k int) {
	if c.err == nil {
		c.commands[len(c.commands)-1].flops = 2 * float64(m) * float64(n) * float64(k)
	}
}

func tiles(n, tile int) uint32 { return uint32((n + tile - 1) / tile) }

// loadsVec4 is whether both operands can be read as vec4: along K, or along M and N, as they lie.
func (g gemm) loadsVec4() bool {
	if !g.a.fitsVec4() || !g.b.fitsVec4() {
		return false
	}
	along := 4
	if !g.transA && !g.paddedA {
		along = g.a.vector()
	}
	if g.transB {
		along = max(along, g.b.vector())
	}
	if g.transB || !g.transA && !g.paddedA {
		return g.k%along == 0
	}
	return true
}

// storesVec4 is whether C can be written as vec4.
func (g gemm) storesVec4() bool { return g.c.fitsVec4() && (g.n%4 == 0 || g.paddedC) }

// gemmVariant is one specialisation of a product kernel; a pure function of the adapter's type and the shape.
type gemmVariant struct {
	file         string
	tileM, tileN int // rows and columns of C a workgroup
	rows, cols   int // of matmul.wgsl: rows, and quads of columns, an invocation
	wx, wy       int // of matmul.wgsl: its workgroup
	matrix       matrixTile
	as           *shaders.ProductTile // in place of the one that the card asks for
}

// chooseGemm is the table of variants, a function of the kind of adapter and the shape.
func (c *Compiler) chooseGemm(g gemm) gemmVariant {
	if c.limits.Software && g.loadsVec4() && !c.takesUnits(g) {
		return packedTile(g)
	}
	v, _ := c.gpuChoice(g) // for what vec4 cannot load there is one kernel
	return v
}

// slices is how many products the K of one product is cut into: more than one where the tiles of C alone would not fill the
// device and K is long enough to pay for the second pass. It depends on shape and limits alone, so that a plan drawn without a device
// holds.
func (c *Compiler) slices(g gemm) int {
	if c.limits.Software && !c.takesUnits(g) {
		return c.softwareSlices(g)
	}
	_, slices := c.gpuChoice(g)
	return slices
}

// softwareSlices fill the few cores of a processor with 8 tiles of 16x128 where the adapter has texels, elsewhere with 64 of 64x64.
func (c *Compiler) softwareSlices(g gemm) int {
	const shortest = 256
	full, groups := 64, int(tiles(g.m, 64))*int(tiles(g.n, 64))
	if c.limits.TexelBindings > 0 {
		full, groups = 8, int(tiles(g.m, 16))*int(tiles(g.n, 128))
	}
	if g.count > 1 || groups >= full || g.k < 2*shortest {
		return 1
	}
	return min(g.k/shortest, (full+groups-1)/groups)
}

// tiled is the variant of matmul_tiled.wgsl whose workgroup makes a square tile of C, of 32, 64 or 128 rows.
func tiled(rows int) gemmVariant { return gemmVariant{file: "matmul_tiled", tileM: rows, tileN: rows} }

// step is how much of K a tile of matmul_tiled.wgsl takes at a time: what makes both tiles fit into 16 KiB with their padding, and keeps
// every invocation busy with at least one load of an operand.
func (v gemmVariant) step() int { return map[int]int{32: 32, 64: 16, 128: 8}[v.tileM] }

// form is how a tile of matmul_tiled.wgsl is made on a card.
func (v gemmVariant) form(g gemm, l gpu.Limits) shaders.ProductTile {
	if v.as != nil {
		return *v.as
	}
	t := l.Registers.ProductTile(v.tileM)
	if g.b.kept().Packed() && t.Bytes()+levelBytes > l.WorkgroupBytes {
		t.Step /= 2
	}
	return t
}

const levelBytes = 4 * 16 // of what codes stand for, in workgroup memory beside a tile

// registerTile is the tile of matmul.wgsl with the least estimated time: on a software adapter (lanes 8) a vec4 load costs
// about 80 cycles for eight invocations and a multiply-add a little over one, measured on lavapipe; the smaller tiles serve
// shapes that would leave invocations idle. On a GPU (lanes 64) it serves narrow shapes, where all that counts is to
// occupy it: one quad of columns an invocation, and of four rows at most, as more sums spill on Intel's.
func registerTile(g gemm, lanes int) gemmVariant {
	const load, step, cores = 80, 1.3, 4
	n4 := (g.n + 3) / 4
	var best gemmVariant
	var least float64
	for _, rows := range []int{16, 8, 4, 1} {
		if g.transA && rows < 4 {
			break // A comes four rows a load
		}
		for cols := 4; cols >= 1; cols /= 2 {
			if lanes == 64 && (cols > 1 || rows > 4) {
				continue
			}
			wx := 1
			for wx < lanes && wx*cols < n4 {
				wx *= 2
			}
			v := gemmVariant{
				file: "matmul", rows: rows, cols: cols, wx: wx, wy: lanes / wx,
				tileM: rows * lanes / wx, tileN: 4 * cols * wx,
			}
			groups := float64(tiles(g.m, v.tileM)) * float64(tiles(g.n, v.tileN)) * float64(g.count)
			if groups < cores {
				groups = cores // the others wait
			}
			cost := groups * float64(lanes/8) * (float64(rows+4*cols)*load + float64(rows*cols*16)*step)
			if least == 0 || cost < least {
				best, least = v, cost
			}
		}
	}
	return best
}

// rounds has a kernel round the operands of a product of f16 by a function of shared/half.wgsl as it loads them.
func (g gemm) rounds(variant shaders.Variant, by string) (suffix string) {
	variant.Flags["F16"], variant.Constants["LOAD"] = g.f16, ""
	if g.f16 {
		variant.Constants["LOAD"], suffix = by, "_f16"
	}
	return suffix
}

// kernel specialises the variant's kernel to the form of g, whose spans come with it.
func (v gemmVariant) kernel(c *Compiler, g gemm) (*gpu.Kernel, []Span) {
	if v.file == "matmul_scalar" {
		suffix, b := "", g.b.span
		packed := g.b.kept() == buffers.BF16 // of codes it reads a copy
		if packed {
			suffix, b = "_bf16", b.stored()[0]
		}
		variant := shaders.Variant{Constants: map[string]string{}, Flags: map[string]bool{
			"ACCUMULATE": g.accumulate, "CONTINUE": g.continues, "B_BF16": packed,
		}}
		suffix += g.rounds(variant, "half1")
		return c.kernel(v.file, suffix, variant), []Span{g.a.span, b, g.c.span}
	}
	form := []byte("_nn")
	variant := shaders.Variant{Constants: map[string]string{}, Flags: map[string]bool{
		"TRANS_A": g.transA, "TRANS_B": g.transB, "ACCUMULATE": g.accumulate, "CONTINUE": g.continues, "STORE_SCALAR": !g.storesVec4(), "BLOCKS": g.block > 0,
	}}
	if g.transA {
		form[1] = 't'
	}
	if g.transB {
		form[2] = 't'
	}
	kept, b := v.specialise(g, variant, c.limits.Software)
	if g.block > 0 {
		kept += "_blocks"
	}
	reads := []Span{g.a.span}
	if v.file != "matmul" {
		variant.Constants["TILE_M"] = strconv.Itoa(v.tileM)
		suffix, offsets := g.ragged.specialise(variant)
		kept, reads = kept+suffix, append(reads, offsets...)
	}
	reads = append(reads, b...)
	if v.file == "matmul_matrix" {
		gemm{}.rounds(variant, "") // what goes to the units is rounded there
		v.matrix.specialise(v, g, variant)
		suffix, spans := g.results(c, variant, reads...)
		return c.kernel(v.file, fmt.Sprintf("%s_%s%s%s", form, v.matrix, kept, suffix), variant), spans
	}
	kept += g.rounds(variant, "half4")
	if v.file == "matmul_tiled" {
		v.form(g, c.limits).Specialise(variant)
		suffix, spans := g.results(c, variant, reads...)
		return c.kernel(v.file, fmt.Sprintf("%s_%d%s%s", form, v.tileM, kept, suffix), variant), spans
	}
	variant.Flags["K_EDGE"] = g.k%4 != 0
	if variant.Flags["B_LOOP"] = g.packedLoop(v); variant.Flags["B_LOOP"] && !g.transB {
		variant.Flags["PAIR"] = v.cols == 4
	}
	lanes := min(v.rows, 4)
	for name, n := range map[string]int{"QUADS": v.rows / lanes, "LANES": lanes, "COLS": v.cols, "WX": v.wx, "WY": v.wy} {
		variant.Constants[name] = strconv.Itoa(n)
	}
	return c.kernel(v.file, fmt.Sprintf("%s_%dx%d%s", form, v.rows, v.cols, kept), variant), append(reads, g.c.span)
}
