package compile

import (
	"fmt"
	"slices"

	"gputrain/buffers"
	"gputrain/buffers/array"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/internal/dynamic8"
	"gputrain/shaders"
)

// Params in bf16 and packed ones are shorter than what most kernels read. Lowering takes them for f32. Products and
// embeddings read them as they are kept (packed.go); afterwards each unit that reads one otherwise gets a copy in f32,
// made before its first reader and dropped after its last, so that no more than a few of them are there at once; of gains
// and biases, which take less time than a dispatch, one copy serves all units. So does each unit that reads nested maxima get
// one: a copy of these has a sixteenth of a byte for each element of one matrix.

// castParams are those of cast.wgsl.
type castParams struct{ Quads uint32 }

// codesParams are those of codes_widen.wgsl.
type codesParams struct{ Words, Quads uint32 }

// maximaParams are those of nested_maxima.wgsl.
type maximaParams struct{ Quads, First uint32 }

// castQuads is how many quads a workgroup of cast.wgsl handles.
const castQuads = 1024

// widen gives the readers of narrow params their copies.
func (c *Compiler) widen() {
	if len(c.narrow) == 0 {
		return
	}
	w := widening{c: c, copies: map[place]*storage{}}
	for _, cmd := range c.commands {
		w.add(cmd)
	}
	c.commands = w.commands
	for _, t := range c.targets {
		if p, ok := c.root(t.Value).Node().Op.(graph.Param); ok && t.Leaf == "" {
			if d, narrow := c.narrow[c.layoutOf(p.Path)]; narrow {
				c.fail("target %q: param %q: found it in %v, wanted f32", t.Name, p.Path, d)
			}
		}
	}
}

// place is a part of a slab, or its maxima, in a unit.
type place struct {
	unit   int
	slab   *storage
	at     int
	maxima bool
}

// widening are commands that read no narrow params but as they are kept, and the copies they read.
type widening struct {
	c        *Compiler
	copies   map[place]*storage
	commands []command
}

// add appends a command, after those that make what it reads.
func (w *widening) add(cmd command) {
	cmd.bind = slices.Clone(cmd.bind)
	for i, s := range cmd.bind {
		if s.st.narrow == nil || s.asKept {
			continue
		}
		leaf, part := partAt(s.st.narrow, s.st.slab, int(s.Offset/4))
		path, at := leaf.Path, place{cmd.unit, s.st, part.Offset, s.maxima}
		if len(leaf.Shape) < 2 {
			at.unit = -1 // of all units
		}
		if w.copies[at] == nil && s.maxima {
			w.copies[at] = w.c.newStorage(transientStorage, path+".maxima", s.Bytes)
			w.add(w.c.maximaOf(cmd, s.st, part, w.copies[at]))
		} else if w.copies[at] == nil {
			w.copies[at] = w.c.newStorage(transientStorage, path+".f32", 16*uint64((part.Count+3)/4))
			w.add(w.c.copyOf(cmd, s.st, part, w.copies[at]))
		}
		cmd.bind[i] = Span{st: w.copies[at], Offset: s.Offset - 4*uint64(part.Offset), Bytes: s.Bytes}
	}
	w.commands = append(w.commands, cmd)
}

// partAt is the part of a leaf that has an element of a slab.
func partAt(layout *buffers.Layout, slab, element int) (leaf buffers.Leaf, part buffers.Part) {
	for _, leaf := range layout.Leaves() {
		for _, p := range leaf.Parts {
			if p.Slab == slab && element >= p.Offset && element < p.Offset+p.Count {
				return leaf, p
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
	if slab.kept.Packed() {
		words := (count + 7) / 8
		variant := shaders.Variant{Flags: map[string]bool{"TABLE": false}, Constants: map[string]string{}}
		codesOf(slab.kept, variant)
		cmd.kernel = gpu.NewKernel("gputrain.graph."+slab.kept.Format().Load+"_widen", "codes_widen", variant)
		cmd.grid, cmd.params = gpu.Linear(words, 64, c.limits), codesParams{uint32(words), uint32((count + 3) / 4)}
		return cmd
	}
	quads := (count + 3) / 4
	cmd.kernel, cmd.grid, cmd.params = c.cast(true, false, quads)
	cmd.bind[0].Bytes = 8 * quads
	return cmd
}

// cast is what widens so many quads of bf16, or of f16, to f32, or rounds f32 to bf16.
func (c *Compiler) cast(widen, half bool, quads uint64) (*gpu.Kernel, gpu.Grid, castParams) {
	suffix := "_round"
	if widen {
		suffix = "_widen"
	}
	if half {
		suffix += "_half"
	}
	kernel := c.kernel("cast", suffix, shaders.Variant{Flags: map[string]bool{"WIDEN": widen, "HALF": half}})
	return kernel, gpu.Linear(quads, castQuads, c.limits), castParams{uint32(quads)}
}

// maximaOf is the command that widens the nested maxima of a part of a slab for one that reads them.
func (c *Compiler) maximaOf(reader command, slab *storage, part buffers.Part, to *storage) command {
	quads := to.bytes / 16
	_, maxima, groups, end := slab.kept.Places(uint64(part.Offset), slab.bytes/4)
	name, levels := slab.kept.Format().Load, &dynamic8.Map
	table := c.constant(name+".map", buffers.F32, []int{len(levels)}, func() []byte { return gpu.Bytes(levels[:]) })
	kept := func(offset, bytes uint64) Span {
		return Span{st: slab, Offset: offset, Bytes: roundUp(bytes, spanAlign), asKept: true}
	}
	return command{
		group: reader.group, unit: reader.unit, grid: gpu.Linear(quads, 64, c.limits),
		kernel: gpu.NewKernel("gputrain.graph."+name+"_maxima", "nested_maxima", shaders.Variant{}),
		params: maximaParams{uint32(quads), uint32(part.Offset / slab.kept.Run())},
		bind:   []Span{kept(maxima, 4*quads), kept(groups, end-groups), table.Parts[0].Span, {st: to, Bytes: to.bytes}},
	}
}

// narrowLayouts lays out the params that are kept in each type among nodes, as a tree of them alone would.
func (c *Compiler) narrowLayouts(narrow map[string]buffers.DType) error {
	for _, d := range array.Bases[1:] {
		var specs []buffers.Spec
		for _, n := range c.live {
			p, ok := n.Op.(graph.Param)
			if _, table := c.tables[p.Path]; ok && !table && narrow[p.Path] == d {
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
