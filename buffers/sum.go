package buffers

import (
	"cmp"
	"fmt"
	"slices"

	"gputrain/gpu"
)

// sumTerms is how many trees one dispatch adds up at most. Each more would save a tree's traffic of twelve at 16 microbatches.
const sumTerms = 4

// Sum records dst = terms[0] + (terms[1] + (... + terms[n-1])) in f32, each addition rounded to nearest even, for the leaves that keep says, nil for
// all: one dispatch for each slab, or for each run of leaves in it, and for each three additions. All trees have one layout; dst may be one
// of the terms. The last term is spent if there are more than four. One term is copied.
//
// Every sum goes through integers: WGSL lets a compiler reassociate a + (b + c), and gradients have the same bits only if none does.
func Sum(rec *gpu.Recording, keep func(Leaf) bool, dst *Tree, terms ...*Tree) error {
	if len(terms) == 0 {
		return fmt.Errorf("buffers: sum: tree %q: no terms", dst.label)
	}
	for _, t := range terms {
		if err := dst.same("sum", t); err != nil {
			return err
		}
		if t.dtype != F32 || dst.dtype != F32 {
			return fmt.Errorf("buffers: sum: tree %q of %v to %q of %v: want f32", t.label, t.dtype, dst.label, dst.dtype)
		}
	}
	runs := dst.layout.runs(keep)
	for last := terms[len(terms)-1]; len(terms) > sumTerms; {
		at := len(terms) - sumTerms
		recordSum(rec, runs, last, terms[at:])
		terms = append(slices.Clone(terms[:at]), last)
	}
	recordSum(rec, runs, dst, terms)
	return rec.Err()
}

// SumWork is how many dispatches a sum of so many trees takes of each slab, and how many trees it reads and writes.
func SumWork(terms int) (dispatches, trees int) {
	for ; terms > sumTerms; terms -= sumTerms - 1 {
		dispatches, trees = dispatches+1, trees+sumTerms+1
	}
	if terms > 1 {
		dispatches++
	}
	return dispatches, trees + terms + 1
}

// recordSum records the sum of a few terms.
func recordSum(rec *gpu.Recording, runs []Part, dst *Tree, terms []*Tree) {
	if len(terms) == 1 {
		for _, run := range runs {
			if terms[0] != dst {
				rec.Copy(dst.Part(run), terms[0].Part(run))
			}
		}
		return
	}
	expression := string(rune('a' + len(terms) - 1))
	for i := len(terms) - 2; i >= 0; i-- {
		expression = fmt.Sprintf("bitcast<vec4<f32>>(bitcast<vec4<u32>>(%c + %s) ^ vec4<u32>(params.value))", 'a'+i, expression)
	}
	inputs := slices.DeleteFunc(slices.Clone(terms), func(t *Tree) bool { return t == dst })
	k := mapKernel(dst, expression, inputs, terms, false)
	for _, run := range runs {
		var bind []gpu.Range
		for _, in := range append(inputs, dst) {
			bind = append(bind, in.Part(run))
		}
		quads := uint64(run.Count / 4)
		rec.Dispatch(k, gpu.Linear(quads, quadsPerGroup, dst.device.Limits()), struct{ Quads, Value uint32 }{uint32(quads), 0}, bind...)
	}
}

// runs are the longest parts of slabs with all of the leaves that keep says, and none besides; padding belongs to the leaf before it.
func (l *Layout) runs(keep func(Leaf) bool) (out []Part) {
	if keep == nil {
		keep = func(Leaf) bool { return true }
	}
	for _, leaf := range l.leaves {
		if !keep(leaf) {
			continue
		}
		for _, p := range leaf.Parts {
			out = append(out, Part{Slab: p.Slab, Offset: p.Offset, Count: roundUp(p.Count)})
		}
	}
	slices.SortFunc(out, func(a, b Part) int { return cmp.Or(a.Slab-b.Slab, a.Offset-b.Offset) })
	joined := out[:0]
	for _, p := range out {
		if n := len(joined); n > 0 && joined[n-1].Slab == p.Slab && joined[n-1].Offset+joined[n-1].Count == p.Offset {
			joined[n-1].Count += p.Count
			continue
		}
		joined = append(joined, p)
	}
	return joined
}
