package compile

import (
	"fmt"
	"strconv"

	"gputrain/gpu"
	"gputrain/shaders"
)

// attentionTile says how a workgroup of the tiled kernels of attention divides its work: teams of split invocations own rows positions, or keys,
// each; an invocation has depth quads of every row of its team.
type attentionTile struct{ split, depth, rows, teams int }

const (
	tileInvocations = 64
	tileDepth       = 4
	tileWidest      = 256 // head width: four keys and values take half of the workgroup memory that every device has
)

// tileQuads is how many quads an invocation of a tiled kernel may keep. For each of its rows it keeps state vectors of depth quads; the more rows, the
// more multiplications a load from workgroup memory. The rest of the registers is for what it multiplies by. These are the largest numbers at which the
// compilers of each budget spill at no width (make isa): 144 of 256 registers, of 255 and 192 half, and of them a little less where keys are added up
// too (state 4, dkv), half of 128.
func tileQuads(registers gpu.Registers, state int) int {
	switch registers = registers.OrLeast(); {
	case registers.Budget >= 256:
		return 36
	case registers.Budget >= 192 && state < 4:
		return 32
	case registers.Budget >= 192:
		return 24
	}
	return 16
}

// tiled is whether the tiled kernels run: on GPUs, but for heads too wide for their workgroup memory.
func (a attentionKernel) tiled() bool { return !a.cpu && a.op.HeadDim <= tileWidest }

// tile is a function of the head's width and of what a row keeps.
func (a attentionKernel) tile() attentionTile {
	quads := a.quads()
	t := attentionTile{split: 4}
	for quads > tileDepth*t.split {
		t.split *= 2
	}
	t.depth = (quads + t.split - 1) / t.split
	t.rows = max(1, min(4, tileQuads(a.registers, a.state)/(a.state*t.depth)))
	if a.state > 2 { // an invocation joins half of a turn's scores of a row
		t.rows = min(t.rows, t.split/2)
	}
	t.teams = tileInvocations / t.split
	return t
}

// tiledVariant has what the three tiled kernels have in common.
func (a attentionKernel) tiledVariant(t attentionTile, names map[string]string) shaders.Variant {
	return a.named(names, "RAGGED", t.split*t.depth > a.quads(), map[string]string{
		"SPLIT": strconv.Itoa(t.split), "DEPTH": strconv.Itoa(t.depth),
		"ROWS": strconv.Itoa(t.rows), "TEAMS": strconv.Itoa(t.teams), "TURNS": strconv.Itoa(t.teams / 4),
	})
}

// tiledKernel is the tiled kernel of a name, and the grid that covers every head and block of rows.
func (c *Compiler) tiledKernel(name string, a attentionKernel, names map[string]string) (*gpu.Kernel, gpu.Grid) {
	t := a.tile()
	k := c.kernel(name+"_tiled", fmt.Sprintf("_%d_%dx%d", a.op.HeadDim, t.split, t.rows)+a.suffix(), a.tiledVariant(t, names))
	return k, gpu.Grid{X: tiles(a.t, t.teams*t.rows), Y: uint32(a.batch * a.heads), Z: 1}
}
