package compile

import (
	"fmt"
	"slices"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph"
)

// Values in BF16 (graph.StoreBF16) take half the memory. Lowering goes by elements and knows nothing of it; afterwards each kernel that reads or
// writes such a value is exchanged for its form that widens what it loads and rounds what it stores (shaders.BF16). What has no such form, since it
// writes single numbers or goes on from what it has written, gets a copy in f32 for its unit, which is rounded at the unit's end: so a value is rounded once.

// roundBF16 is the function of fused kernels that rounds what they do not store.
const roundBF16 = "bf16"

// unitStorage is a storage in a unit.
type unitStorage struct {
	unit    int
	storage *storage
}

func inBF16(v *graph.Value) bool { return v.DType() == buffers.BF16 }

// rounded is the element x of v, as those that read it find it.
func (f *fused) rounded(v *graph.Value, x *ir) *ir {
	if !inBF16(v) {
		return x
	}
	f.rounds = true
	return f.call(roundBF16, 0, x)
}

// unrounded is x without rounding, for a store that rounds.
func unrounded(x *ir) *ir {
	if x.kind == irCall && x.fn == roundBF16 {
		return x.in[0]
	}
	return x
}

// storeBF16 lets the kernels find values in BF16 as they lie.
func (c *Compiler) storeBF16() {
	var out []command
	for len(c.commands) > 0 {
		end := slices.IndexFunc(c.commands, func(cmd command) bool { return cmd.unit != c.commands[0].unit })
		if end < 0 {
			end = len(c.commands)
		}
		out = append(out, c.unitBF16(c.commands[:end])...)
		c.commands = c.commands[end:]
	}
	c.commands = out
}

// unitBF16 are the commands of a unit in their forms, with what makes the copies that they need.
func (c *Compiler) unitBF16(commands []command) (out []command) {
	copies, first, last := map[*storage]*storage{}, map[*storage]int{}, map[*storage]int{}
	for i, cmd := range commands {
		for j, s := range cmd.bind {
			if !s.st.short() || s.asKept {
				continue
			}
			if _, seen := first[s.st]; !seen {
				first[s.st] = i
			}
			if cmd.writes(j) {
				last[s.st] = i + 1
			}
			if k := cmd.kernel; k != nil && copies[s.st] == nil {
				at := cmd.binding(j)
				if k.InBF16(1<<at, s.st.halves(1<<at), c.limits.Software) == nil || k.ReadsBack(at) && !c.taken[unitStorage{cmd.unit, s.st}] {
					copies[s.st] = c.newStorage(transientStorage, s.st.label+".f32", 2*s.st.bytes)
					copies[s.st].workspace = true
				}
			}
		}
	}
	for i, cmd := range commands {
		bind, forms, halves := slices.Clone(cmd.bind), uint64(0), uint64(0)
		var after []command
		for j, s := range cmd.bind {
			to := copies[s.st]
			switch {
			case s.asKept:
				continue
			case to == nil && s.st.half:
				halves |= 1 << cmd.binding(j)
				continue
			case to == nil && s.st.bf16:
				forms |= 1 << cmd.binding(j)
				continue
			case to == nil:
				continue
			}
			if first[s.st] == i && !slices.ContainsFunc(bind[:j], func(b Span) bool { return b.st == to }) && cmd.reads(j) {
				out = append(out, c.castStorage(cmd, true, s.st, to))
			}
			if last[s.st] == i+1 && cmd.writes(j) {
				after = append(after, c.castStorage(cmd, false, to, s.st))
			}
			bind[j] = Span{st: to, Offset: 2 * s.Offset, Bytes: 2 * s.Bytes}
		}
		cmd.bind = bind
		if forms|halves != 0 && cmd.kernel != nil {
			cmd.kernel = cmd.kernel.InBF16(forms, halves, c.limits.Software)
		}
		out = append(append(out, cmd), after...)
	}
	return out
}

// inBF16 is a copy in BF16 of a matrix that a unit reads many times; the matrix itself where it is kept in fewer bytes than f32.
func (c *Compiler) inBF16(t Tensor) Tensor {
	t.Parts = slices.Clone(t.Parts)
	for i, p := range t.Parts {
		if p.Span.kept() != buffers.F32 || p.Span.st.short() {
			continue
		}
		to := c.workspaceOf(buffers.BF16, fmt.Sprintf("copy.%d", i), p.Rows, t.width()).Parts[0].Span
		quads := uint64(p.Rows*t.width()+3) / 4
		t.Parts[i].Span, to.asKept = to, true
		kernel, grid, params := c.cast(false, quads)
		c.Dispatch(kernel, grid, params, p.Span, to)
	}
	return t
}

// castStorage is the command that widens or rounds a whole storage for another.
func (c *Compiler) castStorage(reader command, widen bool, from, to *storage) command {
	cmd := command{group: reader.group, unit: reader.unit, bind: []Span{{st: from, Bytes: from.bytes}, {st: to, Bytes: to.bytes}}}
	if to.half { // what is in f16 is read by products alone
		cmd.kernel, cmd.grid, cmd.params = c.castHalves(buffers.F32, to.bytes/16)
		return cmd
	}
	kernel, grid, params := c.cast(widen, min(from.bytes, to.bytes)/8)
	cmd.kernel, cmd.grid, cmd.params = kernel, grid, params
	return cmd
}

// binding is the number of the binding that takes span i of the command.
func (cmd command) binding(i int) int {
	if cmd.params != nil {
		i++
	}
	return i
}

func (cmd command) writes(i int) bool {
	return cmd.kernel == nil || cmd.kernel.Bindings[cmd.binding(i)].Access == gpu.ReadWrite
}

func (cmd command) reads(i int) bool {
	return cmd.kernel != nil && (!cmd.writes(i) || cmd.kernel.ReadsBack(cmd.binding(i)))
}
