package compile

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/shaders"
)

func init() {
	Register(graph.Reduce{}, Lowering{Lower: lowerReduce, Leaf: true, prologue: true, Checks: reduceChecks()})
	Register(graph.NormGammaGrad{}, Lowering{Lower: lowerNormGammaGrad, Leaf: true, prologue: true})
}

func reduceChecks() (out []Check) {
	for _, fn := range []string{"sum", "mean", "max"} {
		out = append(out, Check{Name: "reduce " + fn, Tolerance: 256, Build: func(g *graph.Graph) []*graph.Value {
			var results []*graph.Value
			for _, s := range [][]int{{300, 64}, {33, 5}, {7, 1030}, {5000, 12}} {
				a := checkedInput(g, fmt.Sprint("a", s), s...)
				reduced := func(axes ...int) *graph.Value { return g.Append(graph.Reduce{Fn: fn, Axes: axes}, a).Outputs[0] }
				results = append(results, reduced(0), reduced(1), reduced(0, 1))
			}
			return results
		}})
	}
	return out
}

// Sizes of a reduction's levels. With fewer invocations than it takes to fill the device a reduction is split in parts, of at least
// reduceShortest items, and needs another level; reduceLongest bounds the rounding error of one invocation's sum and the
// time it takes alone.
const (
	reduceShortest = 16
	reduceSingle   = 128 // items that one invocation reduces without being split
	reduceLongest  = 1024
)

// On GPUs reduceLanes invocations, a power of two, add up one result in workgroup memory, in groups of reduceGroup. reduceInvocations fill the device: 0 for
// those that it takes. Variables for tests: 4096 and 1 are what processors have, whatever the device.
var reduceInvocations, reduceLanes = 0, 64

const (
	reduceGroup  = 256
	reduceUnroll = 4  // loads that a lane has under way
	reduceTurns  = 64 // items of a lane, above which a result comes in parts
)

// invocations are as many as fill the device: on a GPU four vec4s a lane are under way, 1 MB on an H100, whose memory wants 3 TB/s * 0.6 us. Where nobody
// knows its multiprocessors, those of a small card.
func (c *Compiler) invocations() int {
	switch l := c.limits; {
	case reduceInvocations > 0:
		return reduceInvocations
	case l.Software:
		return 4096
	case l.Multiprocessors > 0:
		return max(4096, 4*l.Multiprocessors*l.MultiprocessorLanes)
	}
	return 16384
}

// split is how the items of a reduction go to invocations: chunk after each other to one, lanes of which add up a part.
type split struct{ parts, lanes, chunk int }

// split is that of length items, where so many results are reduced side by side. Those of a row lie side by side, and it takes as many lanes as it has
// work for; columns as many as fill the device.
func (c *Compiler) split(length, results int, columns bool) split {
	lanes := 1
	for !c.limits.Software && 2*lanes <= reduceLanes && 2*lanes*reduceUnroll <= length && (!columns || results*lanes < c.invocations()) {
		lanes *= 2
	}
	parts := 1
	switch {
	case lanes == 1:
		parts = c.reduceParts(length, results)
		return split{parts, 1, (length + parts - 1) / parts}
	case length > lanes*reduceTurns:
		want := c.invocations() / (results * lanes)
		parts = max(1, min(want, length/(lanes*reduceShortest)), (length+lanes*reduceLongest-1)/(lanes*reduceLongest))
	}
	chunk := (length + parts*lanes - 1) / (parts * lanes)
	if columns { // none of the parts is empty
		parts = (length + chunk*lanes - 1) / (chunk * lanes)
	}
	return split{parts, lanes, chunk}
}

// reduction is [O, R, I] to [O, I].
type reduction struct {
	outer, length, inner int
	maximum              bool
}

func lowerReduce(c *Compiler, n *graph.Node) {
	op := n.Op.(graph.Reduce)
	v, out := n.Inputs[0], c.Out(n.Outputs[0])
	if v.Type().Elements() == 0 { // a sum of nothing
		if !out.Accumulate {
			c.zero(c.One(out, "result"))
		}
		return
	}
	scale := 1.0
	if op.Fn == "mean" {
		scale = float64(out.elements()) / float64(v.Type().Elements())
	}
	groups := reducedGroups(v.Shape(), op.Axes)
	first := true
	from := Tensor{}
	for k, r := range groups {
		r.maximum = op.Fn == "max"
		to, last := out, k == len(groups)-1
		if !last {
			to = c.workspace("reduced", r.outer*r.inner)
		}
		build := func(f *fused) *ir { return f.value(v, f.identity()) }
		domain := v.Shape()
		if !first {
			build, domain = plainLoad(from), []int{r.outer * r.length * r.inner}
		}
		s := 1.0
		if last {
			s = scale
		}
		c.reduce(r, domain, build, to, s)
		first, from = false, to
	}
}

// reducedGroups are the runs of reduced axes from the last to the first, each with what stands before and after it at that point.
func reducedGroups(shape []int, axes []int) []reduction {
	var groups []reduction
	inner := 1
	for d := len(shape) - 1; d >= 0; {
		if !slices.Contains(axes, d) || shape[d] == 1 {
			inner *= shape[d]
			d--
			continue
		}
		length := 1
		for d >= 0 && (slices.Contains(axes, d) || shape[d] == 1) {
			length *= shape[d]
			d--
		}
		groups = append(groups, reduction{outer: graph.Elements(shape[:d+1]), length: length, inner: inner})
	}
	if len(groups) == 0 { // only axes of length one
		groups = append(groups, reduction{outer: 1, length: 1, inner: inner})
	}
	return groups
}

// plainLoad reads a tensor of one part at the domain's own index.
func plainLoad(t Tensor) func(f *fused) *ir {
	return func(f *fused) *ir { return f.loadAt(t, &linear{coef: []int{1}}) }
}

// reduce emits the levels of one reduction of the expression that build makes over a domain of the shape [O, R, I] in any division of axes.
func (c *Compiler) reduce(r reduction, domain []int, build func(f *fused) *ir, out Tensor, scale float64) {
	var joined *split // of what a level over operands in row parts has left
	for {
		f := newFused(c, domain)
		root := f.reduced(r, build)
		columns := r.inner > 1
		length, inner := r.length, r.inner
		if columns {
			inner /= f.lanes()
		} else {
			length /= f.lanes()
		}
		runs := f.runs()
		s := c.split(length, r.outer*inner, columns)
		if joined != nil {
			s = *joined
		}
		joined = nil
		if len(runs) > 1 && s.lanes > 1 { // first what each invocation of a workgroup has, then those
			joined = &split{s.parts, s.lanes, 1}
			s = split{(length + s.chunk - 1) / s.chunk, 1, s.chunk}
		}
		to, level := out, scale
		if s.parts > 1 || len(runs) > 1 {
			to, level = c.workspace("partial", r.outer, s.parts, r.inner), 1
		}
		start, outType := "0.0", "f32"
		if r.maximum {
			start = "-3.4028234e38"
		}
		if columns {
			outType = f.typeName(f.vec)
		}
		v := shaders.Variant{
			Flags:     map[string]bool{"COLUMNS": columns, "VECTOR": f.vec, "MAXIMUM": r.maximum, "ACCUMULATE": to.Accumulate},
			Constants: map[string]string{"START": start, "OUT": outType},
		}
		p := reduceParams{count: r.outer * s.parts * inner, parts: s.parts, length: length, inner: inner, chunk: s.chunk, scale: level}
		if len(runs) > 1 {
			c.reduceRuns(r, domain, runs, build, c.One(to, "result"), v, p)
		} else {
			file, grid := "reduce", c.Linear(p.count)
			if s.lanes == 1 {
				v.Flags["CUT"] = false
			} else {
				unroll := reduceUnroll
				if columns && len(f.spans()) > 1 { // whose sums do not depend on it
					unroll /= 2
				}
				file, grid = "reduce_group", gpu.Linear(uint64(p.count), reduceGroup/s.lanes, c.limits)
				for name, n := range map[string]int{
					"LANES": s.lanes, "RESULTS": reduceGroup / s.lanes, "GROUP": reduceGroup, "UNROLL": unroll, "LAST": unroll - 1,
				} {
					v.Constants[name] = strconv.Itoa(n)
				}
			}
			k, params := f.kernel(file, "_"+r.name(s.parts), root, v, p.words()...)
			c.Dispatch(k, grid, params, append(f.spans(), c.One(to, "result"))...)
		}
		if s.parts == 1 && len(runs) == 1 || c.err != nil {
			return
		}
		r.length = s.parts
		domain, build = []int{to.elements()}, plainLoad(to)
	}
}

// reduced is the expression that a reduction's kernel computes, by vec4s where its axes allow it.
func (f *fused) reduced(r reduction, build func(f *fused) *ir) *ir {
	root := build(f)
	f.collapse(root, false)
	if r.inner > 1 {
		f.vec = f.vec && r.inner%4 == 0
	} else {
		f.vec = f.vec && r.length%4 == 0
	}
	f.chooseBindings(root, 1)
	return root
}

// reduceRuns is a level over operands in row parts: a dispatch for each run of rows, which takes every part of the reduction that has some of them on.
func (c *Compiler) reduceRuns(r reduction, domain []int, runs []run, build func(f *fused) *ir, to Span, v shaders.Variant, p reduceParams) {
	if r.outer > 1 || r.inner == 1 {
		c.tooLarge(fmt.Sprintf("%s %v, of which not the leading axis alone is reduced", c.group, domain), typeBytes(domain, buffers.F32), c.largest(), "BindingBytes", "the batch or the context")
		return
	}
	rows := r.length / domain[0] // of the reduction, for one of the domain's
	for _, rr := range runs {
		f := newFused(c, append([]int{rr.length}, domain[1:]...))
		f.firstRow = rr.start
		root := f.reduced(r, build)
		if f.vec != v.Flags["VECTOR"] {
			c.fail("reduction of %v: rows %d to %d: found other vectors than those of the whole", domain, rr.start, rr.start+rr.length)
			return
		}
		from, end := rr.start*rows, (rr.start+rr.length)*rows
		p.part, p.from, p.to = from/p.chunk, from, end
		p.count = ((end-1)/p.chunk + 1 - p.part) * p.inner
		run := shaders.Variant{Flags: maps.Clone(v.Flags), Constants: maps.Clone(v.Constants)}
		run.Flags["CUT"] = true
		k, params := f.kernel("reduce", "_"+r.name(2), root, run, p.words()...)
		c.Dispatch(k, c.Linear(p.count), params, append(f.spans(), to)...)
	}
}

// reduceParams is what Params of reduce.wgsl and of reduce_group.wgsl begins with.
type reduceParams struct {
	count, parts, length, inner, chunk, part, from, to int
	scale                                              float64
}

func (p reduceParams) words() (words []uint32) {
	for _, n := range []int{p.count, p.parts, p.length, p.inner, p.chunk, p.part, p.from, p.to} {
		words = append(words, uint32(n))
	}
	return append(words, math.Float32bits(float32(p.scale)))
}

func (r reduction) name(parts int) string {
	name := "sum"
	if r.maximum {
		name = "max"
	}
	if parts > 1 {
		name += "_partial"
	}
	return name
}

// reduceParts is the number of parts that length items are reduced in by an invocation each, when that many results are reduced side by side.
func (c *Compiler) reduceParts(length, results int) int {
	if length <= reduceSingle {
		return 1
	}
	want := (c.invocations() + results - 1) / results
	parts := max(min(want, length/reduceShortest), (length+reduceLongest-1)/reduceLongest)
	return parts
}

// lowerNormGammaGrad reduces dy xhat over the rows: dy (x - mean) rstd, or dy x rstd.
func lowerNormGammaGrad(c *Compiler, n *graph.Node) {
	x, stats, dy := n.Inputs[0], n.Inputs[1], n.Inputs[2]
	rows, width := graph.Rows(x.Shape())
	out := c.Out(n.Outputs[0])
	if rows == 0 {
		if !out.Accumulate {
			c.zero(c.One(out, "result"))
		}
		return
	}
	shape := x.Shape()
	build := func(f *fused) *ir {
		perRow := func(offset, stride int) *ir {
			at := f.linearOf(shape, f.identity())
			for d := range at.coef {
				at.coef[d] = at.coef[d] / width * stride
			}
			at.coef[len(shape)-1] = 0
			at.off = at.off/width*stride + offset
			row := f.loadAt(c.In(stats), at)
			if len(shape) == 2 {
				row.load.rowDim, row.load.rowOff = true, f.firstRow
				f.pickPart(row)
			} else {
				c.One(row.load.tensor, "stats")
			}
			return row
		}
		hat := f.value(x, f.identity())
		if n.Op.(graph.NormGammaGrad).RMS {
			hat = f.call("mul", 0, hat, perRow(0, 1))
		} else {
			hat = f.call("mul", 0, f.call("sub", 0, hat, perRow(0, 2)), perRow(1, 2))
		}
		return f.call("mul", 0, f.value(dy, f.identity()), hat)
	}
	c.reduce(reduction{outer: 1, length: rows, inner: width}, shape, build, out, 1)
}
