package compile

import (
	"fmt"
	"strconv"

	"gputrain/gpu"
	"gputrain/shaders"
)

// attentionTile says how a workgroup of the tiled kernels of attention divides its work: down by across invocations have 4 down rows, and columns of the
// across columns others of a block each; of sums, depth quads of the head. keys others are staged at a time for sums.
type attentionTile struct{ across, down, columns, depth, keys int }

const tileWidest = 256 // head width: beyond, no invocation has registers for the sums of four rows

// tileSums is how many sums an invocation of a tiled kernel may keep. The more of them, the more multiplications a load from workgroup memory; the rest of the
// registers is for what it multiplies. These are the largest numbers at which the compilers of each budget spill at no width (make isa).
func tileSums(registers gpu.Registers) int {
	if registers.OrLeast().Budget >= 255 {
		return 128
	}
	return 64
}

// tiled is whether the tiled kernels run: on GPUs, but for heads too wide for their registers.
func (a attentionKernel) tiled() bool { return !a.cpu && a.op.HeadDim <= tileWidest }

// products are those of scores and those of sums in a kernel: forward, dq, dkv by what their rows keep.
func (a attentionKernel) products() (scores, sums int) {
	return min(2, a.state-1), 1 + a.state/4
}

// tile is a function of the head's width and of what a row keeps: as few invocations across as have registers for the sums. Blocks are of 64 others, wide
// ones of 128, or a half or a quarter of that where workgroup memory is short: up to 36 KiB, 21, or the 16 that every device has.
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
		t.keys = 4 * min(4, max(64/(t.depth*t.across), int(tiles(t.down, 4*t.depth))))
		if t.bytes() <= a.memory {
			break
		}
	}
	return t
}

// bytes is the workgroup memory that it takes, in dq.
func (t attentionTile) bytes() int {
	others := t.across * t.columns
	return 16 * (21*t.down + 5*others + t.keys*t.depth*t.across + others*(t.down+1))
}

// lanes is the number of invocations of a workgroup.
func (t attentionTile) lanes() int { return t.across * t.down }

// tiledVariant has what the three tiled kernels have in common.
func (a attentionKernel) tiledVariant(t attentionTile, names map[string]string) shaders.Variant {
	constants := map[string]int{
		"ACROSS": t.across, "DOWN": t.down, "DOWN_1": t.down + 1, "COLUMNS": t.columns, "OTHERS": t.across * t.columns, "OTHER_QUADS": t.across * t.columns / 4,
		"DEPTH": t.depth, "KEYS": t.keys, "KEY_QUADS": t.keys / 4, "LANES": t.lanes(), "STEPS": int(tiles(a.quads(), 4)),
		"ROW_LOADS": int(tiles(16*t.down, t.lanes())), "OTHER_LOADS": int(tiles(4*t.across*t.columns, t.lanes())), "VALUE_LOADS": int(tiles(t.keys*t.across*t.depth, t.lanes())),
	}
	v := a.named(names, "RAGGED", t.across*t.depth > a.quads() || a.quads()%4 != 0, map[string]string{})
	for name, n := range constants {
		v.Constants[name] = strconv.Itoa(n)
	}
	v.Flags["UNEVEN"] = 16%t.across > 0 || 4*t.columns%t.down > 0 // loads of a step
	v.Flags["ROLLED"] = a.registers.OrLeast().Twice
	return v
}

// tiledKernel is the tiled kernel of a name, and the grid that covers every head and block of rows.
func (c *Compiler) tiledKernel(name string, a attentionKernel, names map[string]string) (*gpu.Kernel, gpu.Grid) {
	t := a.tile()
	k := c.kernel(name+"_tiled", fmt.Sprintf("_%d_%dx%d", a.op.HeadDim, 4*t.down, t.across)+a.suffix(), a.tiledVariant(t, names))
	return k, gpu.Grid{X: tiles(a.t, 4*t.down), Y: uint32(a.batch * a.heads), Z: 1}
}
