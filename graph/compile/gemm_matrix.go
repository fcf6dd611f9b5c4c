package compile

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"gputrain/gpu"
	"gputrain/shaders"
)

// matrixTile is the geometry of matmul_matrix.wgsl, whose products are of operands rounded to f16, by matrix units.
type matrixTile struct {
	unit         gpu.MatrixShape
	lanes        int // invocations of a subgroup
	down, across int // matrices of the unit's shape that a subgroup keeps
	group        int // of those across that it has in workgroup memory when it stores them
	step         int // of K

	turns    bool // what lies across K goes to workgroup memory along it
	prefetch bool // a step of K is loaded while the one before is multiplied
	twice    bool // and has a buffer of its own in workgroup memory
}

// matrixUnits is the variant for units of a shape. Of AMD's and most other cards, registers hold sums of 32 x 64 a subgroup (make isa); of NVIDIA's, 64 x 64,
// which an H100 multiplies 1.3 to 1.7 times as fast (tools/lab-book.md). The tiles of lavapipe's, of 8 x 8, are for tests.
func matrixUnits(unit gpu.MatrixShape, lanes int, registers gpu.Registers) gemmVariant {
	rows := 32
	if registers.Budget == 255 {
		rows = 64
	}
	v := gemmVariant{file: "matmul_matrix", tileM: 128, tileN: 128, matrix: matrixTile{unit: unit, lanes: lanes, down: rows / unit.M, across: 64 / unit.N, step: 32}}
	v.matrix.group = v.matrix.across
	if rows == 32 {
		v.matrix.turns, v.matrix.group = true, v.matrix.across/2 // which takes no more workgroup memory than operands do
	}
	if unit.M*unit.N < 256 {
		v.tileM, v.tileN, v.matrix.down, v.matrix.across, v.matrix.group, v.matrix.step = 4*unit.M, 2*unit.N, 2, 1, 1, 2*unit.K
	}
	return v
}

// unitShapes are those that products have tiles for, the best first. Of Intel's, 8x8x16 and 8x16x16, every tile tried has spilled.
var unitShapes = []gpu.MatrixShape{{M: 16, N: 16, K: 16}, {M: 8, N: 8, K: 8}}

// units is the variant for the matrix units of the adapter, if it has some that products have a tile for, and they are on.
func units(l gpu.Limits) (gemmVariant, bool) {
	v, lack := unitsOrLack(l)
	return v, lack == ""
}

// UnitsLack says why matrix units do not make products of f16; "" if they do.
func UnitsLack(l gpu.Limits) string {
	_, lack := unitsOrLack(l)
	return lack
}

func unitsOrLack(l gpu.Limits) (v gemmVariant, lack string) {
	if len(l.Matrix.Shapes) == 0 {
		return v, "no matrix units"
	}
	for _, shape := range unitShapes {
		if !slices.Contains(l.Matrix.Shapes, shape) {
			continue
		}
		v = matrixUnits(shape, l.Matrix.Lanes, l.Registers)
		if lack = v.lack(l); lack == "" {
			return v, ""
		}
	}
	if lack != "" {
		return gemmVariant{}, fmt.Sprintf("matrix units of %s, whose %s", l.Matrix, lack)
	}
	return v, fmt.Sprintf("matrix units of %s, wanted one of %v", l.Matrix, unitShapes)
}

// registers are those of an invocation that a subgroup's sums and operands take, a number of 32 bits each. On AMD's cards each half of a subgroup has all of A.
func (t matrixTile) registers(of gpu.Registers) int {
	a := t.down * t.unit.M * t.unit.K / t.lanes / 2
	if of.Budget == 256 {
		a *= 2
	}
	return t.down*t.across*t.unit.M*t.unit.N/t.lanes + a + t.unit.N*t.unit.K/t.lanes/2
}

// fits tells whether a device runs a variant, whatever the form of a product.
func (v gemmVariant) fits(l gpu.Limits) bool { return v.lack(l) == "" }

// lack says what a variant takes that a device does not have.
func (v gemmVariant) lack(l gpu.Limits) string {
	most, shared := l.Registers.OrLeast().Budget*4/5, 0 // as of attention
	for _, transposed := range [][2]bool{{false, false}, {false, true}, {true, false}} {
		shared = max(shared, v.sharedQuads(gemm{transA: transposed[0], transB: transposed[1], accumulate: true, sums: &Tensor{}}))
	}
	for _, n := range []struct {
		what         string
		takes, holds int
	}{
		{"registers an invocation", v.matrix.registers(l.Registers), most},
		{"subgroups a workgroup", v.subgroups(), l.Matrix.Subgroups},
		{"invocations a workgroup", v.subgroups() * v.matrix.lanes, l.Invocations},
		{"bytes of workgroup memory", 16 * shared, l.WorkgroupBytes},
	} {
		if n.takes > n.holds {
			return fmt.Sprintf("products take %d %s, wanted at most %d", n.takes, n.what, n.holds)
		}
	}
	return ""
}

// UnitsOf names the matrix units that make products of f16, "16x16x16"; "" if none do.
func UnitsOf(l gpu.Limits) string {
	v, ok := units(l)
	if !ok {
		return ""
	}
	return v.matrix.unit.String()
}

// takesUnits tells whether matrix units make a product. Narrow ones wait for memory, whoever makes them.
func (c *Compiler) takesUnits(g gemm) bool {
	if !g.f16 || !g.loadsVec4() || min(g.m, cmp.Or(g.alike, g.m), g.n) < 32 {
		return false
	}
	_, ok := units(c.limits)
	return ok
}

// unitChoice is the tile of a product by units and its slices of K, each of 256 or more, with the least time on the device's multiprocessors: where its
// registers hold 64 x 64 a subgroup, six or eight of these may be a workgroup. Where nobody knows how many multiprocessors there are, as many slices as give
// 128 workgroups. The bits of C depend on the slices alone.
func unitChoice(l gpu.Limits, g gemm, v gemmVariant, most int) (best gemmVariant, slices int) {
	const full, shortest = 128, 256 // workgroups, K
	if most = min(most, g.k/shortest); g.count > 1 {
		most = 1
	}
	v.matrix.prefetch = !v.matrix.turns && g.a.span.inHalves() && g.b.span.inHalves() // of f32, registers would not hold a step
	if l.Multiprocessors == 0 {
		groups := int(v.groups(g, 1))
		return v, max(1, min(most, (full+groups-1)/groups))
	}
	tiles := []gemmVariant{v}
	for _, columns := range []int{192, 256} {
		w := v
		if w.tileN = columns; !v.matrix.turns && v.tileM == 128 && w.fits(l) {
			tiles = append(tiles, w)
		}
	}
	on, least := devicesOf(l), math.Inf(1)
	for s := 1; s <= max(1, most); s++ {
		for _, w := range tiles {
			if time := w.unitTime(g, s, on[0]); time < (1-modelSaves)*least {
				best, slices, least = w, s, time
			}
		}
	}
	return best, slices
}

// subgroups are those of a workgroup of matmul_matrix.wgsl.
func (v gemmVariant) subgroups() int {
	return v.tileM / (v.matrix.down * v.matrix.unit.M) * (v.tileN / (v.matrix.across * v.matrix.unit.N))
}

// matrixOperand is how an operand goes to workgroup memory, rows x eights of it a step.
type matrixOperand struct {
	name         string
	halves       bool // it is in f16
	along        bool // it is contiguous along K
	turned       bool
	rows, eights int
}

// operandsOf are those of a product in a variant.
func (v gemmVariant) operandsOf(g gemm) [2]matrixOperand {
	out := [2]matrixOperand{
		{name: "A", halves: g.a.span.inHalves(), along: !g.transA, rows: v.tileM},
		{name: "B", halves: g.b.span.inHalves(), along: g.transB, rows: v.tileN},
	}
	for i := range out {
		o, side := &out[i], []int{g.m, g.n}[i]
		o.turned = !o.along && (v.matrix.turns || !o.halves && side%8 != 0) // eights of f32 end at the edge
		o.eights = v.matrix.step / 8
		if !o.along && !o.turned {
			o.rows, o.eights = v.matrix.step, o.rows/8
		}
	}
	return out
}

// pitch is the vec4s of a row in workgroup memory: its eights, and one against bank conflicts.
func (o matrixOperand) pitch() int { return o.eights + 1 }

// pieces are the vec4s that an invocation brings at once.
func (o matrixOperand) pieces() int {
	switch {
	case o.turned && !o.halves:
		return 4
	case o.turned || !o.halves:
		return 2
	}
	return 1
}

// specialise gives the shader an operand, which so many invocations bring.
func (o matrixOperand) specialise(invocations int, variant shaders.Variant) {
	next, reach, width, items := "1u", 0, 4, o.rows*o.eights
	if o.along {
		reach = 4
	}
	if o.halves {
		width = 8
	}
	if o.turned {
		next, reach, items = "p.ld"+strings.ToLower(o.name), 1, o.rows/width*o.eights*8/o.pieces()
	}
	texts := map[string]string{
		"TYPE": "vec4<f32>", "EIGHT": "matrix_eight(v,w)", "PAIR": "pack2x16float(vec2<f32>(v[e],w[e]))", "ALONG": "k*p.ld" + strings.ToLower(o.name), "NEXT": next,
	}
	if o.halves {
		texts["TYPE"], texts["EIGHT"], texts["PAIR"] = "vec4<u32>", "v", "((v[e/2u]>>(16u*(e%2u)))&0xffffu)|((w[e/2u]>>(16u*(e%2u)))<<16u)"
	}
	if o.along {
		texts["ALONG"] = fmt.Sprintf("k/%du", width)
	}
	for name, n := range map[string]int{
		"PIECES": o.pieces(), "LAST": o.pieces() - 1, "REACH": reach, "PITCH": o.pitch(), "ROWS": o.rows, "WIDTH": width,
		"BLOCKS": (items + invocations - 1) / invocations, "FULL": items / invocations,
	} {
		texts[name] = strconv.Itoa(n)
	}
	if o.turned {
		texts["ROWS"] = strconv.Itoa(o.rows / width)
	}
	for name, text := range texts {
		variant.Constants[o.name+"_"+name] = text
	}
	variant.Flags[o.name+"_HALVES"], variant.Flags[o.name+"_TURNED"] = o.halves, o.turned
}

// cPitch is the vec4s of a row of C that a subgroup has in workgroup memory, two of them against bank conflicts.
func (t matrixTile) cPitch() int { return t.group*t.unit.N/4 + 2 }

// keepsDirectly tells whether the matrices of C are stored as they are: there are no edges, and nothing else is done.
func (v gemmVariant) keepsDirectly(g gemm) bool {
	return g.m%v.tileM == 0 && g.n%v.tileN == 0 && g.epilogue == nil && !g.accumulate && !g.continues && g.block == 0 && g.ragged == nil && g.storesVec4() && !g.c.span.st.short()
}

// operandQuads are the vec4s of workgroup memory for the operands of a step; bQuads those before B's.
func (v gemmVariant) operandQuads(g gemm) (all, beforeB int) {
	o := v.operandsOf(g)
	beforeB = o[0].rows * o[0].pitch()
	return beforeB + o[1].rows*o[1].pitch(), beforeB
}

// sharedQuads are the vec4s of workgroup memory: the operands of a step, and after the products rows of C of each subgroup; at the end ones for sums.
func (v gemmVariant) sharedQuads(g gemm) int {
	operands, _ := v.operandQuads(g)
	if v.matrix.twice {
		operands *= 2
	}
	if v.keepsDirectly(g) && g.sums == nil {
		return operands
	}
	operands = max(operands, v.subgroups()*v.matrix.unit.M*v.matrix.cPitch())
	if g.sums != nil {
		operands += v.matrix.onesQuads()
	}
	return operands
}

// onesQuads are the vec4s of a matrix A of ones.
func (t matrixTile) onesQuads() int { return t.unit.M * t.unit.K / 8 }

// specialise gives a variant of the shader its geometry.
func (t matrixTile) specialise(v gemmVariant, g gemm, variant shaders.Variant) {
	t.unit.Specialise(t.lanes, variant)
	subgroups, beside := v.subgroups(), v.tileN/(t.across*t.unit.N)
	below := subgroups / beside
	operands, beforeB := v.operandQuads(g)
	for _, o := range v.operandsOf(g) {
		o.specialise(subgroups*t.lanes, variant)
	}
	quads := t.group * t.unit.N / 4
	lines := t.lanes / quads
	for name, n := range map[string]int{
		"TILE_M": v.tileM, "TILE_N": v.tileN, "STEP": t.step, "DOWN": t.down, "ACROSS": t.across, "SUBGROUPS_N": beside,
		"SUBGROUPS_M": below, "SUMS_OWN": (t.across + below - 1) / below,
		"INVOCATIONS": subgroups * t.lanes, "UNIT_STEPS": t.step / t.unit.K, "TILE": v.sharedQuads(g), "B_AT": beforeB, "ONES_AT": v.sharedQuads(g) - t.onesQuads(), "BUFFER": operands,
		"C_PITCH": t.cPitch(), "C_GROUP": t.group, "C_GROUPS": t.across / t.group, "C_QUADS": quads, "C_LINES": lines, "C_TURNS": t.unit.M / lines,
	} {
		variant.Constants[name] = strconv.Itoa(n)
	}
	for name, on := range map[string]bool{
		"PREFETCH": t.prefetch, "TWICE": t.twice, "DIRECT": v.keepsDirectly(g), "K_EDGE": g.k%t.step != 0 || g.block%t.step != 0 || g.ragged != nil && g.ragged.outer,
		"A_COLUMNS": g.transA && !variant.Flags["A_TURNED"], "B_ROWS": !g.transB && !variant.Flags["B_TURNED"],
	} {
		variant.Flags[name] = on
	}
}

// String is its part of a kernel's label.
func (t matrixTile) String() string { return fmt.Sprintf("%s_%d", t.unit, t.lanes) }
