package compile

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"gputrain/gpu"
	"gputrain/shaders"
)

// matrixTile is the geometry of matmul_matrix.wgsl, whose products are of operands rounded to f16, by matrix units.
type matrixTile struct {
	unit         gpu.MatrixShape
	lanes        int // invocations of a subgroup
	down, across int // matrices of the unit's shape that a subgroup keeps
	step         int // of K
}

// matrixUnits is the variant for units of a shape. Of AMD's and most other cards, registers hold sums of 32 x 64 a subgroup (make isa); of NVIDIA's, 64 x 64,
// which an H100 multiplies 1.3 to 1.7 times as fast (tools/lab-book.md). The tiles of lavapipe's, of 8 x 8, are for tests.
func matrixUnits(unit gpu.MatrixShape, lanes int, registers gpu.Registers) gemmVariant {
	rows := 32
	if registers.Budget == 255 {
		rows = 64
	}
	v := gemmVariant{file: "matmul_matrix", tileM: 128, tileN: 128, matrix: matrixTile{unit: unit, lanes: lanes, down: rows / unit.M, across: 64 / unit.N, step: 32}}
	if unit.M*unit.N < 256 {
		v.tileM, v.tileN, v.matrix.down, v.matrix.across, v.matrix.step = 4*unit.M, 2*unit.N, 2, 1, 2*unit.K
	}
	return v
}

// unitShapes are those that products have tiles for, the best first. Of Intel's, 8x8x16 and 8x16x16, every tile tried has spilled.
var unitShapes = []gpu.MatrixShape{{M: 16, N: 16, K: 16}, {M: 8, N: 8, K: 8}}

// units is the variant for the matrix units of the adapter, if it has some that products have a tile for, and they are on.
func units(l gpu.Limits) (gemmVariant, bool) {
	for _, shape := range unitShapes {
		v := matrixUnits(shape, l.Matrix.Lanes, l.Registers)
		if !slices.Contains(l.Matrix.Shapes, shape) {
			continue
		}
		return v, v.subgroups() <= l.Matrix.Subgroups && v.subgroups()*v.matrix.lanes <= l.Invocations && 16*v.sharedQuads() <= l.WorkgroupBytes
	}
	return gemmVariant{}, false
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

// unitSlices are the slices of K, each of 256 or more, with the least time on the device's multiprocessors. Where nobody knows how many these are, as many
// slices as give 128 workgroups.
func unitSlices(l gpu.Limits, g gemm, v gemmVariant) int {
	const full, shortest = 128, 256 // workgroups, K
	groups := int(v.groups(g, 1))
	switch {
	case g.count > 1:
		return 1
	case l.Multiprocessors == 0:
		return max(1, min(g.k/shortest, (full+groups-1)/groups))
	}
	on, saves := devicesOf(l)
	best := 1
	for s := 2; s <= g.k/shortest; s++ {
		if v.unitTime(g, s, on[0]) < (1-saves)*v.unitTime(g, best, on[0]) {
			best = s
		}
	}
	return best
}

// subgroups are those of a workgroup of matmul_matrix.wgsl.
func (v gemmVariant) subgroups() int {
	return v.tileM / (v.matrix.down * v.matrix.unit.M) * (v.tileN / (v.matrix.across * v.matrix.unit.N))
}

// pitch is the vec4s of a row in workgroup memory: eights along K, and one against bank conflicts.
func (t matrixTile) pitch() int { return t.step/8 + 1 }

// sharedQuads are the vec4s of workgroup memory: the operands of a step, and after the products a matrix of C a subgroup.
func (v gemmVariant) sharedQuads() int {
	return max((v.tileM+v.tileN)*v.matrix.pitch(), v.subgroups()*v.matrix.unit.M*v.matrix.unit.N/4)
}

// specialise gives a variant of the shader its geometry.
func (t matrixTile) specialise(v gemmVariant, variant shaders.Variant) {
	t.unit.Specialise(t.lanes, variant)
	columns := v.tileN / (t.across * t.unit.N) // subgroups side by side
	subgroups := v.subgroups()
	invocations := subgroups * t.lanes
	blocks := func(rows int, turned bool) int { // of 8 elements of a row, or 4 of 4 rows
		n := rows * t.step / 8
		if turned {
			n /= 2
		}
		return (n + invocations - 1) / invocations
	}
	for name, n := range map[string]int{
		"TILE_M": v.tileM, "TILE_N": v.tileN, "STEP": t.step, "DOWN": t.down, "ACROSS": t.across, "SUBGROUPS_N": columns, "INVOCATIONS": invocations,
		"PITCH": t.pitch(), "UNIT_STEPS": t.step / t.unit.K, "TILE": v.sharedQuads(),
		"A_BLOCKS": blocks(v.tileM, variant.Flags["TRANS_A"]), "B_BLOCKS": blocks(v.tileN, !variant.Flags["TRANS_B"]),
	} {
		variant.Constants[name] = strconv.Itoa(n)
	}
}

// String is its part of a kernel's label.
func (t matrixTile) String() string { return fmt.Sprintf("%s_%d", t.unit, t.lanes) }
