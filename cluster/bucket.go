package cluster

import (
	"cmp"
	"slices"

	"gputrain/buffers"
	"gputrain/gpu"
)

// DefaultBucket is how many bytes of gradients travel together: enough that a message's own cost is small, few enough that the next are read back meanwhile.
const DefaultBucket = 4 << 20

// bucket is elements of the gradients that travel together: parts, one behind the other. Each rank adds up a piece of it.
type bucket struct {
	parts []part
	count int // elements
}

// part is a range of a slab of a stage.
type part struct {
	stage, slab   int
	offset, count int // elements
	owner         int // the rank that updates it; everyone: all do
	at            int // where it begins in its bucket
}

const everyone = -1

// bucketsOf divides the trees of the stages, of f32, into buckets of at most so many bytes. Those of several owners take turns, so that none has to send
// or to receive for a long time what others do not.
func bucketsOf(trees []*buffers.Tree, bytes int) []bucket {
	most := max(1, bytes/4)
	return filled(partsOf(trees, most), most)
}

// filled puts parts into buckets of at most so many elements, in their order.
func filled(parts []part, most int) (out []bucket) {
	for _, p := range parts {
		if n := len(out); n == 0 || out[n-1].count+p.count > most {
			out = append(out, bucket{})
		}
		last := &out[len(out)-1]
		p.at = last.count
		last.parts, last.count = append(last.parts, p), last.count+p.count
	}
	return out
}

// partsOf divides the trees into parts of at most so many elements. Those of an owner keep their order, spread evenly.
func partsOf(trees []*buffers.Tree, most int) (out []part) {
	parts := map[int]int{} // how many each owner has; a part is numbered in at, until it has its place
	for stage, t := range trees {
		slabs := t.Layout().Slabs()
		for group := range t.Layout().Groups() {
			owner, first, end := everyone, 0, len(slabs)
			if t.Layout().Groups() > 1 {
				owner = group
				first, end = t.Layout().GroupSlabs(group)
			}
			for slab := first; slab < end; slab++ {
				for offset := 0; offset < slabs[slab]; offset += most {
					out = append(out, part{stage: stage, slab: slab, offset: offset, count: min(most, slabs[slab]-offset), owner: owner, at: parts[owner]})
					parts[owner]++
				}
			}
		}
	}
	place := func(p part) float64 { return (float64(p.at) + 0.5) / float64(parts[p.owner]) }
	slices.SortStableFunc(out, func(a, b part) int { return cmp.Compare(place(a), place(b)) })
	return out
}

// of is the part's range of a tree.
func (p part) of(t *buffers.Tree) gpu.Range {
	return t.Slab(p.slab).Buffer.Range(4*uint64(p.offset), 4*uint64(p.count))
}

// run is a range of a bucket.
type run struct{ from, end int }

func (r run) elements() int { return r.end - r.from }

// piece is the range of the bucket that a rank adds up for all.
func (b bucket) piece(rank, ranks int) run {
	return run{rank * b.count / ranks, (rank + 1) * b.count / ranks}
}

// runs are those ranges within a piece of a bucket whose owners are wanted.
func (b bucket) runs(piece run, wanted func(owner int) bool) (out []run) {
	for _, p := range b.parts {
		from, end := max(p.at, piece.from), min(p.at+p.count, piece.end)
		switch n := len(out); {
		case from >= end || !wanted(p.owner):
		case n > 0 && out[n-1].end == from:
			out[n-1].end = end
		default:
			out = append(out, run{from, end})
		}
	}
	return out
}

// elements are those of all of them.
func elements(runs []run) (n int) {
	for _, r := range runs {
		n += r.elements()
	}
	return n
}

// concat are ranges one behind the other. An element has so many bytes, and raw begins with element first of the bucket.
func concat(runs []run, size int, raw []byte, first int) (out []byte) {
	for _, r := range runs {
		b := raw[(r.from-first)*size : (r.end-first)*size]
		if len(runs) == 1 {
			return b // as it lies
		}
		out = append(out, b...)
	}
	return out
}
