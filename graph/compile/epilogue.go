package compile

import (
	"fmt"
	"slices"
	"strings"

	"gputrain/buffers"
	"gputrain/graph"
	"gputrain/shaders"
)

// An epilogue is elementwise work on the result of a kernel, done where the kernel stores it: the values that it makes are stored, and the
// result itself only where something else reads it. It computes what a kernel of its own would, in that order, and spares a pass that writes the
// result and one that reads it. Software adapters do without: they wait for arithmetic, not for memory. So does dropout: its generator, once for each
// quad that an invocation of a product keeps, would be ten times the rest of the code.

// maxEpilogueBuffers is how many storage buffers a stage has on every device of WebGPU.
const maxEpilogueBuffers = 8

// epilogue is what follows the result of a kernel.
type epilogue struct {
	result  *graph.Value
	outputs []*graph.Value // what is stored: values of elementwise nodes, the result among them where it is wanted
}

// addEpilogues gives elementwise units to the units whose results they read, from the last to the first: of two products that are added the second
// reads what the first has stored.
func (c *Compiler) addEpilogues() {
	if c.limits.Software {
		return
	}
	units := slices.Clone(c.units)
	slices.SortStableFunc(units, func(a, b *unit) int { return b.key - a.key })
	d := c.dependencies(units)
	for _, u := range units {
		if c.over() {
			return
		}
		if n := u.root(); u.finish != nil && lowerings[n.Op.Kind()].finishes(c, n) {
			c.addEpilogue(u, d)
		}
	}
	c.units = slices.DeleteFunc(c.units, func(u *unit) bool { return u.followed })
}

// addEpilogue gives a unit those that may be its epilogue, as many as there are buffers for.
func (c *Compiler) addEpilogue(u *unit, d *dependencies) {
	v := u.root().Outputs[0]
	if len(c.sinks[v]) > 0 {
		return
	}
	alone := *u
	e := &epilogue{result: v}
	readers := slices.DeleteFunc(slices.Clone(d.readers[v]), func(r *unit) bool { return r.followed })
	left := len(readers)
	for _, r := range readers {
		if !c.follows(r, v) || d.by(r, u) {
			continue
		}
		reads := slices.Clone(u.reads)
		for _, w := range r.reads {
			if w != v && !slices.Contains(reads[len(alone.reads):], w) {
				reads = append(reads, w)
			}
		}
		stored := len(e.outputs) + 1
		if left > 1 || c.wanted(v) || c.pinned(v) {
			stored++ // the result, unless the other readers follow too
		}
		if len(reads)+u.bound+c.maximaRead(u.root())+stored > min(maxEpilogueBuffers, c.limits.StorageBuffers) {
			continue
		}
		left--
		d.merge(u, r, reads)
		u.reads, u.key = reads, max(u.key, r.key)
		u.writes = append(slices.Clone(u.writes), r.writes...)
		u.follow = append(u.follow, r)
		e.outputs = append(e.outputs, r.writes...)
		r.followed = true
	}
	if len(e.outputs) == 0 {
		return
	}
	u.alone = &alone
	if left > 0 || c.wanted(v) || c.pinned(v) {
		e.outputs = append([]*graph.Value{v}, e.outputs...)
	} else {
		u.writes = slices.DeleteFunc(u.writes, func(w *graph.Value) bool { return w == v })
	}
	u.lower = func(c *Compiler) { u.finish(c, e) }
}

// follows is whether a unit makes each element of one value of the element of v at its place and of operands that lie in one binding each.
func (c *Compiler) follows(u *unit, v *graph.Value) bool {
	n := u.root()
	if u.delivers != nil || !fusable(n) || len(u.follow) > 0 || c.direct(n.Outputs[0]) != nil {
		return false
	}
	for _, w := range u.reads {
		if c.root(w) == v && w != v || !c.whole(w) {
			return false
		}
	}
	_, ok := c.inPlace(n.Outputs[0], v, true)
	return ok
}

// whole is whether a value lies in one binding.
func (c *Compiler) whole(v *graph.Value) bool {
	v = c.root(v)
	if _, param := v.Node().Op.(graph.Param); param {
		return len(c.place(v).Parts) <= 1
	}
	return roundUp(typeBytes(v.Shape(), wide(v.DType())), spanAlign) <= c.largest()
}

// allWhole is whether each operand and result of a node lies in one binding.
func (c *Compiler) allWhole(n *graph.Node) bool {
	return !slices.ContainsFunc(slices.Concat(n.Inputs, n.Outputs), func(v *graph.Value) bool { return !c.whole(v) })
}

// inPlace tells whether w is made of v, and if so at the same coordinates; nothing that it is made of moves elements.
func (c *Compiler) inPlace(w, v *graph.Value, root bool) (made, ok bool) {
	if w == v {
		return true, true
	}
	if !root && !c.expands(w) {
		return false, true
	}
	switch w.Node().Op.(type) {
	case graph.Elementwise, graph.BroadcastTo, graph.Constant:
	default:
		return false, false
	}
	for _, in := range w.Node().Inputs {
		m, ok := c.inPlace(in, v, false)
		if !ok {
			return false, false
		}
		made = made || m
	}
	return made, !made || slices.Equal(w.Shape(), v.Shape())
}

// finish has the shader of a kernel that reads some spans do an epilogue, over the items, vec4s, of its result. It gives the variant what the
// shader wants for that (shared/epilogue.wgsl) and returns the kernel's suffix and all its spans; without an epilogue those of the result.
func (e *epilogue) finish(c *Compiler, v shaders.Variant, reads ...Span) (suffix string, spans []Span) {
	v.Flags["EPILOGUE"] = e != nil
	if e == nil {
		return "", reads
	}
	f := newFused(c, e.result.Shape())
	f.given = e.result
	all := &ir{kind: irAll}
	for _, v := range e.outputs {
		if v == e.result {
			all.in = append(all.in, f.value(v, f.identity()))
		} else {
			all.in = append(all.in, f.computed(v, f.identity()))
		}
	}
	f.collapse(all, false)
	f.chooseBindings(all, len(reads)+len(e.outputs))
	if !f.vec {
		c.fail("epilogue of %v: found a number at a time, wanted four", e.result.Shape())
	}
	results := e.stored(f, reads)
	b := body{f: f, used: map[int]bool{}}
	names, stores := &scope{names: map[*ir]string{}}, ""
	for i, x := range all.in {
		if e.outputs[i].DType() == buffers.BF16 {
			x = unrounded(x)
		}
		text := b.emit(x, names)
		stores += fmt.Sprintf("    result%d[i] = %s;\n", i, text)
		if len(reads)+len(f.bound)+len(results)+1 <= min(maxEpilogueBuffers, c.limits.StorageBuffers) {
			if copied := c.bornInHalves(e.outputs[i]); copied != nil {
				stores += fmt.Sprintf("    result%d[i] = %s;\n", len(results), text)
				results = append(results, Span{st: copied, Bytes: copied.bytes})
			}
		}
	}
	declarations := f.declarations()
	spans = append(slices.Clone(reads), f.spans()...)
	for i, s := range results {
		declarations += fmt.Sprintf("@bind var<storage, read_write> result%d: array<vec4<f32>>;\n", i)
		spans = append(spans, s)
	}
	v.Flags["BF16"] = f.rounds
	v.Constants["OPERANDS"] = declarations
	v.Constants["FINISH"] = b.coordinates() + b.text.String() + strings.TrimSuffix(stores, "\n")
	return f.suffix(all), spans
}

// stored are the spans of what is stored: that of an operand where it dies here, as elsewhere.
func (e *epilogue) stored(f *fused, besides []Span) (spans []Span) {
	for i, v := range e.outputs {
		out := f.c.Out(v)
		f.c.One(out, "result")
		spans = append(spans, f.takeOver(v, out, out.Parts[0], fmt.Sprintf("result%d", i), besides...).Span)
	}
	return spans
}
