package compile

import (
	"fmt"
	"strconv"

	"gputrain/gpu"
	"gputrain/shaders"
)

// matrixTile is the geometry of matmul_matrix.wgsl, whose products are of operands rounded to f16, by matrix units. No product chooses it yet: tests and
// tools/isa run it.
type matrixTile struct {
	unit         gpu.MatrixShape
	lanes        int // invocations of a subgroup
	down, across int // matrices of the unit's shape that a subgroup keeps
	step         int // of K
}

// matrixUnits is the variant for units of a shape. Sums of 32 x 64 a subgroup fit the registers of AMD's and NVIDIA's cards (make isa); those of lavapipe,
// 8 x 8, are for tests.
func matrixUnits(unit gpu.MatrixShape, lanes int) gemmVariant {
	v := gemmVariant{file: "matmul_matrix", tileM: 128, tileN: 128, matrix: matrixTile{unit: unit, lanes: lanes, down: 32 / unit.M, across: 64 / unit.N, step: 32}}
	if unit.M*unit.N < 256 {
		v.tileM, v.tileN, v.matrix.down, v.matrix.across, v.matrix.step = 4*unit.M, 2*unit.N, 2, 1, 2*unit.K
	}
	return v
}

// specialise gives a variant of the shader its geometry.
func (t matrixTile) specialise(v gemmVariant, variant shaders.Variant) {
	gpu.MatrixVariant(t.unit, t.lanes, variant)
	columns := v.tileN / (t.across * t.unit.N) // subgroups side by side
	subgroups := v.tileM / (t.down * t.unit.M) * columns
	invocations := subgroups * t.lanes
	eights := t.step / 8
	pitch := eights + 1 // a vec4 of padding against bank conflicts
	blocks := func(rows int, turned bool) int {
		n := rows * eights
		if turned {
			n /= 4
		}
		return (n + invocations - 1) / invocations
	}
	for name, n := range map[string]int{
		"TILE_M": v.tileM, "TILE_N": v.tileN, "STEP": t.step, "DOWN": t.down, "ACROSS": t.across, "SUBGROUPS_N": columns, "INVOCATIONS": invocations,
		"PITCH": pitch, "UNIT_STEPS": t.step / t.unit.K, "TILE": max((v.tileM+v.tileN)*pitch, subgroups*t.unit.M*t.unit.N/4),
		"A_BLOCKS": blocks(v.tileM, variant.Flags["TRANS_A"]), "B_BLOCKS": blocks(v.tileN, !variant.Flags["TRANS_B"]),
	} {
		variant.Constants[name] = strconv.Itoa(n)
	}
}

// String is its part of a kernel's label.
func (t matrixTile) String() string { return fmt.Sprintf("%s_%d", t.unit, t.lanes) }
