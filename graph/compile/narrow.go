package compile

import (
	"fmt"
	"slices"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/shaders"
)

// Params in bf16 are half as long as what kernels read. Lowering takes them for f32; afterwards each unit that reads one gets a copy in f32, made
// before its first reader and dropped behind its last, so that no more than a few of them are there at once.

// castParams are those of cast.wgsl.
type castParams struct{ Quads uint32 }

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
			if s.st.narrow == nil {
				continue
			}
			path, part := partAt(s.st.narrow, s.st.slab, int(s.Offset/4))
			at := place{cmd.unit, s.st, part.Offset}
			if copies[at] == nil {
				quads := (part.Count + 3) / 4
				copies[at] = c.newStorage(transientStorage, path+".f32", 16*uint64(quads))
				commands = append(commands, command{
					group: cmd.group, unit: cmd.unit, kernel: c.kernel("cast", "_widen", shaders.Variant{Flags: map[string]bool{"WIDEN": true}}),
					grid: gpu.Linear(uint64(quads), castQuads, c.limits), params: castParams{uint32(quads)},
					bind: []Span{{st: s.st, Offset: 2 * uint64(part.Offset), Bytes: 8 * uint64(quads)}, {st: copies[at], Bytes: 16 * uint64(quads)}},
				})
			}
			cmd.bind[i] = Span{st: copies[at], Offset: s.Offset - 4*uint64(part.Offset), Bytes: s.Bytes}
		}
		commands = append(commands, cmd)
	}
	c.commands = commands
	for _, t := range c.targets {
		if p, ok := c.root(t.Value).Node().Op.(graph.Param); ok && t.Leaf == "" && c.narrow[c.layoutOf(p.Path)] {
			c.fail("target %q: param %q: found it in bf16, wanted f32", t.Name, p.Path)
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

// narrowLayout lays out the params of those paths among nodes, as a tree of them alone would.
func narrowLayout(nodes []*graph.Node, narrow []string, lim gpu.Limits) (*buffers.Layout, error) {
	of := map[string]bool{}
	for _, path := range narrow {
		of[path] = true
	}
	return leafLayout(slices.DeleteFunc(slices.Clone(nodes), func(n *graph.Node) bool {
		p, ok := n.Op.(graph.Param)
		return !ok || !of[p.Path]
	}), nil, lim)
}
