package compile

import (
	"fmt"
	"slices"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/shaders"
)

// Params in bf16 and nf4 are shorter than what most kernels read. Lowering takes them for f32. Products read them as they
// are kept (packed.go); afterwards each unit that reads one otherwise gets a copy in f32, made before its first reader and
// dropped after its last, so that no more than a few of them are there at once.

// castParams are those of cast.wgsl.
type castParams struct{ Quads uint32 }

// nf4Params are those of nf4_widen.wgsl.
type nf4Params struct{ Words, Quads uint32 }

// castQuads is how many quads a workgroup of cast.wgsl handles.
const castQuads = 1024

// widen gives the readers of narrow params their copies.
func (c *Compiler) widen() {
	if len(c.narrow) == 0 {
		return
	}
	type place struct {
		unit int
		slab *storage
		at   int
	}
	copies := map[place]*storage{}
	var commands []command
	for _, cmd := range c.commands {
		cmd.bind = slices.Clone(cmd.bind)
		for i, s := range cmd.bind {
			if s.st.narrow == nil || s.asKept {
				continue
			}
			path, part := partAt(s.st.narrow, s.st.slab, int(s.Offset/4))
			at := place{cmd.unit, s.st, part.Offset}
			if copies[at] == nil {
				copies[at] = c.newStorage(transientStorage, path+".f32", 16*uint64((part.Count+3)/4))
				commands = append(commands, c.copyOf(cmd, s.st, part, copies[at]))
			}
			cmd.bind[i] = Span{st: copies[at], Offset: s.Offset - 4*uint64(part.Offset), Bytes: s.Bytes}
		}
		commands = append(commands, cmd)
	}
	c.commands = commands
	for _, t := range c.targets {
		if p, ok := c.root(t.Value).Node().Op.(graph.Param); ok && t.Leaf == "" {
			if d, narrow := c.narrow[c.layoutOf(p.Path)]; narrow {
				c.fail("target %q: param %q: found it in %v, wanted f32", t.Name, p.Path, d)
			}
		}
	}
}

// partAt is the part of a leaf that has an element of a slab.
func partAt(layout *buffers.Layout, slab, element int) (path string, part buffers.Part) {
	for _, leaf := range layout.Leaves() {
		for _, p := range leaf.Parts {
			if p.Slab == slab && element >= p.Offset && element < p.Offset+p.Count {
				return leaf.Path, p
			}
		}
	}
	panic(fmt.Sprintf("graph: compile: element %d of slab %d is of no leaf", element, slab)) // a span of no param
}

// copyOf is the command that widens a part of a slab for one that reads it.
func (c *Compiler) copyOf(reader command, slab *storage, part buffers.Part, to *storage) command {
	count := uint64(part.Count)
	cmd := command{group: reader.group, unit: reader.unit}
	cmd.bind = append(Span{st: slab, Offset: 4 * uint64(part.Offset), Bytes: 4 * count}.stored(), Span{st: to, Bytes: to.bytes})
	if slab.kept == buffers.NF4 {
		words := (count + 7) / 8
		variant := shaders.Variant{Flags: map[string]bool{"NF4_TABLE": false}, Constants: map[string]string{"LEVELS": nf4LevelsText()}}
		cmd.kernel, cmd.grid, cmd.params = c.kernel("nf4_widen", "", variant), gpu.Linear(words, 64, c.limits), nf4Params{uint32(words), uint32((count + 3) / 4)}
		return cmd
	}
	quads := (count + 3) / 4
	cmd.kernel = c.kernel("cast", "_widen", shaders.Variant{Flags: map[string]bool{"WIDEN": true}})
	cmd.grid, cmd.params = gpu.Linear(quads, castQuads, c.limits), castParams{uint32(quads)}
	cmd.bind[0].Bytes = 8 * quads
	return cmd
}

// narrowLayouts lays out the params that are kept in each type among nodes, as a tree of them alone would.
func (c *Compiler) narrowLayouts(narrow map[string]buffers.DType) error {
	for _, d := range []buffers.DType{buffers.BF16, buffers.NF4} {
		var specs []buffers.Spec
		for _, n := range c.live {
			if p, ok := n.Op.(graph.Param); ok && narrow[p.Path] == d {
				specs = append(specs, buffers.Spec{Path: p.Path, Shape: p.Shape})
			}
		}
		if len(specs) == 0 {
			continue
		}
		layout, err := buffers.NewLayoutFor(d, specs, c.limits)
		if err != nil {
			return fmt.Errorf("graph: plan: %w", err)
		}
		c.params, c.narrow[layout] = append(c.params, layout), d
	}
	return nil
}
