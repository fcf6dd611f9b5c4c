package shaders

import (
	"fmt"
	"strconv"
)

// ProductTile is a square tile of a product that a workgroup makes, and how shared/product_loop.wgsl makes it along K.
type ProductTile struct {
	Rows     int  // 32, 64 or 128
	Step     int  // of K, a multiple of eight
	Prefetch bool // what a step multiplies is loaded while products of the one before are made
	Double   bool // workgroup memory has two steps
	Rolled   bool // one K a turn
}

// Side is the number of invocations along a side of the workgroup.
func (t ProductTile) Side() int {
	if t.Rows == 128 {
		return 16
	}
	return 8
}

// Spots is the number of quads of rows, and of columns, of an invocation.
func (t ProductTile) Spots() int { return t.Rows / 4 / t.Side() }

// Sums is the number of elements of the product that an invocation adds up.
func (t ProductTile) Sums() int { return 16 * t.Spots() * t.Spots() }

// loaders is the number of invocations that load an operand; where they are at most half of all, others load the other one.
func (t ProductTile) loaders() int { return t.Rows / 4 * t.Step / 4 }

// parted tells whether an invocation loads quads of one operand, and not of both.
func (t ProductTile) parted() bool { return 2*t.loaders() <= t.Side()*t.Side() }

// Held is the number of registers that what a step multiplies takes on its way to workgroup memory.
func (t ProductTile) Held() int {
	if t.parted() {
		return 16
	}
	return 32
}

// Bytes are those of workgroup memory.
func (t ProductTile) Bytes() int {
	bytes := 16 * 2 * t.Rows / 4 * t.Step
	if t.Double {
		bytes *= 2
	}
	return bytes
}

// Specialise gives a kernel its tile.
func (t ProductTile) Specialise(v Variant) {
	side, fours := t.Side(), t.Step/4
	loaders, rows, swap := t.loaders(), fours, 4
	if t.Double {
		rows *= 2
	}
	if t.Rolled {
		swap = 0
	}
	lines := side * side / (t.Rows / 4)
	for name, n := range map[string]int{
		"SUM_LINES": lines, "SUM_TURNS": t.Step / lines,
		"SIDE": side, "SPOTS": t.Spots(), "QUADS": t.Rows / 4, "STEP": t.Step, "FOURS": fours,
		"LOADERS": loaders, "ROWS": rows, "SWAP": swap, "PAIRS": fours / 2, "FASTER": 4 * fours,
	} {
		v.Constants[name] = strconv.Itoa(n)
	}
	v.Flags["PARTED"], v.Flags["PREFETCH"], v.Flags["DOUBLE"], v.Flags["ROLLED"] = t.parted(), t.Prefetch, t.Double, t.Rolled
	v.Constants["ALONG_A"], v.Constants["ALONG_B"] = strconv.FormatBool(v.Flags["TRANS_A"]), strconv.FormatBool(!v.Flags["TRANS_B"])
	v.Constants["A"], v.Constants["B"], v.Constants["IDLE"] = "a", "b", ""
	if t.parted() {
		v.Constants["A"], v.Constants["B"] = "q", "q"
	}
	if 2*loaders < side*side {
		v.Constants["IDLE"] = fmt.Sprintf("if (index < %du)", 2*loaders)
	}
}
