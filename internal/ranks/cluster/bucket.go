package cluster

import (
	"cmp"
	"slices"

	"gputrain/buffers"
	"gputrain/gpu"
)

// DefaultBucket is how many bytes of gradients travel together among so many replicas: enough that the own cost of a message, which is a piece of
// them, is small, few enough that the next are read back meanwhile.
func DefaultBucket(replicas int) int { return max(4<<20, replicas*256<<10) }

// mixed is how many owners' parts a bucket has where there are as many: enough that most of a piece is the rank's own, and parts are long reads.
const mixed = 8

// bucket is elements of the gradients that travel together: parts, one behind the other. Each rank adds up a piece of it.
type bucket struct {
	parts  []part
	count  int     // elements
	pieces [][]run // of each rank
}

// part is a range of a slab of a stage.
type part struct {
	stage, slab   int
	offset, count int // elements
	owner         int // the rank that updates it; everyone: all do
	at            int // where it begins in its bucket
}

const everyone = -1

// bucketsOf divides the trees of the stages, of f32, into buckets of at most so many bytes. Each has parts of several owners, if there are, so that none
// has to send or to receive for a long time what others do not.
func bucketsOf(trees []*buffers.Tree, bytes, ranks int) (out []bucket) {
	most := max(1, bytes/4)
	for _, p := range partsOf(trees, most, ranks) {
		if n := len(out); n == 0 || out[n-1].count+p.count > most {
			out = append(out, bucket{})
		}
		last := &out[len(out)-1]
		p.at = last.count
		last.parts, last.count = append(last.parts, p), last.count+p.count
	}
	for i := range out {
		out[i].deal(ranks)
	}
	return out
}

// partsOf divides the trees into parts for buckets of so many elements. Those of an owner keep their order, spread evenly.
func partsOf(trees []*buffers.Tree, most, ranks int) (out []part) {
	parts := map[int]int{} // how many each owner has; a part is numbered in at, until it has its place
	for stage, t := range trees {
		slabs := t.Layout().Slabs()
		for group := range t.Layout().Groups() {
			owner, first, end, length := everyone, 0, len(slabs), most
			if t.Layout().Groups() > 1 {
				owner, length = group, max(1, most/min(ranks, mixed))
				first, end = t.Layout().GroupSlabs(group)
			}
			for slab := first; slab < end; slab++ {
				for offset := 0; offset < slabs[slab]; offset += length {
					out = append(out, part{stage: stage, slab: slab, offset: offset, count: min(length, slabs[slab]-offset), owner: owner, at: parts[owner]})
					parts[owner]++
				}
			}
		}
	}
	place := func(p part) float64 { return (float64(p.at) + 0.5) / float64(parts[p.owner]) }
	slices.SortStableFunc(out, func(a, b part) int { return cmp.Compare(place(a), place(b)) })
	return out
}

// deal gives each rank a piece of the bucket, all of one size: what it owns, as far as that goes, as its total travels no further, and of the rest.
func (b *bucket) deal(ranks int) {
	b.pieces = make([][]run, ranks)
	room, has := make([]int, ranks), make([]int, ranks)
	for rank := range room {
		room[rank] = (rank+1)*b.count/ranks - rank*b.count/ranks
	}
	give := func(rank, from, most int) int {
		n := min(most, room[rank])
		if n > 0 {
			b.pieces[rank] = append(b.pieces[rank], run{from, from + n, has[rank]})
			room[rank], has[rank] = room[rank]-n, has[rank]+n
		}
		return from + n
	}
	var rest []run
	for _, p := range b.parts {
		from, end := p.at, p.at+p.count
		if p.owner != everyone {
			from = give(p.owner, from, p.count)
		}
		if from < end {
			rest = append(rest, run{from: from, end: end})
		}
	}
	rank := 0
	for _, r := range rest {
		for from := r.from; from < r.end; {
			if from = give(rank, from, r.end-from); room[rank] == 0 {
				rank++
			}
		}
	}
}

// of is the part's range of a tree.
func (p part) of(t *buffers.Tree) gpu.Range {
	return t.Slab(p.slab).Buffer.Range(4*uint64(p.offset), 4*uint64(p.count))
}

// run is a range of a bucket.
type run struct {
	from, end int
	at        int // where it begins in a piece
}

func (r run) elements() int { return r.end - r.from }

func (r run) inBucket() int { return r.from }

func (r run) inPiece() int { return r.at }

// whole is all of a bucket.
func (b bucket) whole() []run { return []run{{end: b.count}} }

// runs are those ranges of a piece whose owners are wanted.
func (b bucket) runs(piece []run, wanted func(owner int) bool) (out []run) {
	for _, r := range piece {
		for _, p := range b.parts {
			from, end := max(p.at, r.from), min(p.at+p.count, r.end)
			at := r.at + from - r.from
			switch n := len(out); {
			case from >= end || !wanted(p.owner):
			case n > 0 && out[n-1].end == from && out[n-1].at+out[n-1].elements() == at:
				out[n-1].end = end
			default:
				out = append(out, run{from, end, at})
			}
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

// pick are ranges one behind the other, of raw in which each begins at a place of its own and an element has so many bytes.
func pick(raw []byte, size int, runs []run, place func(run) int) (out []byte) {
	for _, r := range runs {
		b := raw[place(r)*size : (place(r)+r.elements())*size]
		if len(runs) == 1 {
			return b // as it lies
		}
		out = append(out, b...)
	}
	return out
}
