package compile

import (
	"fmt"
	"strconv"

	"gputrain/gpu"
	"gputrain/shaders"
)

// attentionTile says how a workgroup of the tiled kernels of attention divides its work: down by across invocations have 4 down rows, and columns of the
// across columns others of a block each; of sums, depth quads of the head. Operands of scores are staged halves times four quads a step.
type attentionTile struct{ across, down, columns, depth, halves int }

// Head widths: beyond the first, no invocation has registers for the sums of four rows; beyond the second a software adapter compiles the other kernels, whose
// code is unrolled over a head, ten times as slowly.
const (
	tileWidest   = 512
	unrollWidest = 256
)

// tileSums is how many sums an invocation of a tiled kernel may keep. The more of them, the more multiplications a load from workgroup memory; the rest of the
// registers is for what it multiplies. These are the largest numbers at which the compilers of each budget spill at no width (make isa).
func tileSums(registers gpu.Registers) int {
	if registers.OrLeast().Budget >= 255 {
		return 128
	}
	return 64
}

// tiled is whether the tiled kernels run: on GPUs, and for wide heads everywhere, but for those too wide for registers or workgroup memory.
func (a attentionKernel) tiled() bool {
	if a.op.HeadDim > unrollWidest {
		return a.op.HeadDim <= tileWidest && a.tile().bytes() <= a.memory
	}
	return !a.cpu
}

// products are those of scores and those of sums in a kernel: forward, dq, dkv by what their rows keep.
func (a attentionKernel) products() (scores, sums int) {
	return min(2, a.state-1), 1 + a.state/4
}

// tile is a function of the head's width and of what a row keeps: as few invocations across as have registers for the sums. Blocks are of 64 others, wide
// ones of 128, or a half or a quarter of that where workgroup memory is short: up to 32 KiB, or 12. Where a workgroup has few rows, a step stages twice as
// much, since each number that it stages is multiplied less often.
func (a attentionKernel) tile() (t attentionTile) {
	scores, sums := a.products()
	for part := 1; part <= 4; part *= 2 {
		for t.across = 8; ; t.across *= 2 {
			t.columns = max(1, max(64, min(128, 4*t.across))/t.across/part)
			t.depth = int(tiles(a.quads(), t.across))
			if t.across == 64 || 4*t.columns*scores+16*t.depth*sums <= tileSums(a.registers) {
				break
			}
		}
		t.down = min(16/part, 256/t.across)
		if t.halves = 2; t.down > 4 || t.bytes() > a.memory {
			t.halves = 1
		}
		if t.bytes() <= a.memory {
			break
		}
	}
	return t
}

// bytes is the workgroup memory that it takes.
func (t attentionTile) bytes() int {
	others := t.across * t.columns
	return 16 * (4*t.rowQuads()*t.down*t.halves + 5*t.across*t.slots() + others*(t.down+1))
}

// rowQuads is how far rows lie apart in workgroup memory: a quad more than they have keeps those that a subgroup reads in banks of their own. Where a workgroup
// has few rows, a subgroup reads one.
func (t attentionTile) rowQuads() int { return 6 - t.halves }

// slots is how many quads of four others, or of a step of scores, an invocation across has in workgroup memory.
func (t attentionTile) slots() int { return max(t.columns*t.halves, t.depth) }

// keys is how many others are staged at a time for sums.
func (t attentionTile) keys() int { return 4 * (t.slots() / t.depth) }

// lanes is the number of invocations of a workgroup.
func (t attentionTile) lanes() int { return t.across * t.down }

// tiledVariant has what the three tiled kernels have in common.
func (a attentionKernel) tiledVariant(t attentionTile, names map[string]string) shaders.Variant {
	constants := map[string]int{
		"ACROSS": t.across, "DOWN": t.down, "DOWN_1": t.down + 1, "COLUMNS": t.columns, "OTHERS": t.across * t.columns, "OTHER_QUADS": t.across * t.columns / 4,
		"DEPTH": t.depth, "KEYS": t.keys(), "KEY_QUADS": t.keys() / 4, "LANES": t.lanes(), "STEPS": int(tiles(a.quads(), 4*t.halves)),
		"HALVES": t.halves, "SLOTS": t.slots(), "ROW_QUADS": t.rowQuads(),
		"ROW_LOADS": int(tiles(16, t.across)), "OTHER_LOADS": int(tiles(4*t.columns, t.down)), "VALUE_LOADS": int(tiles(t.keys()*t.depth, t.down)),
	}
	v := a.named(names, "RAGGED", t.across*t.depth > a.quads() || a.quads()%(4*t.halves) != 0, map[string]string{})
	v.Constants["STAGED_COLUMN"], v.Constants["STAGED_ACROSS"] = "staged / ACROSS", "staged % ACROSS"
	if t.down == 4 { // it is less than ACROSS, which no compiler sees
		v.Constants["STAGED_COLUMN"], v.Constants["STAGED_ACROSS"] = "0u", "staged"
	}
	if v.Flags["ROLLED"] = a.registers.OrLeast().Twice; v.Flags["ROLLED"] {
		v.Constants["TURN_HALF"], v.Constants["TURN_QUAD"] = "0u", "turn"
		constants["TURN"], constants["TURNS"] = 1, 4
		if t.halves > 1 {
			v.Constants["TURN_HALF"], v.Constants["TURN_QUAD"] = "turn", "0u"
			constants["TURN"], constants["TURNS"] = 4, t.halves
		}
		constants["UNIT"] = a.unit()
	}
	for name, n := range constants {
		v.Constants[name] = strconv.Itoa(n)
	}
	v.Flags["ROWS_UNEVEN"], v.Flags["OTHERS_UNEVEN"] = 16%t.across > 0, 4*t.columns%t.down > 0 // loads of a step
	v.Flags["VALUES_UNEVEN"] = t.keys()*t.depth%t.down > 0
	if a.state == 4 {
		v.Flags["KEPT"] = a.op.Cap > 0 || a.op.F16
	}
	return v
}

// tiledKernel is the tiled kernel of a name, and the grid that covers every head and block of rows.
func (c *Compiler) tiledKernel(name string, a attentionKernel, names map[string]string) (*gpu.Kernel, gpu.Grid) {
	t := a.tile()
	k := c.kernel(name+"_tiled", fmt.Sprintf("_%d_%dx%d", a.op.HeadDim, 4*t.down, t.across)+a.suffix(), a.tiledVariant(t, names))
	return k, gpu.Grid{X: tiles(a.t, 4*t.down), Y: uint32(a.batch * a.heads), Z: 1}
}
