package cluster

import (
	"gputrain/buffers"
	"gputrain/gpu"
)

// DefaultBucket is how many bytes of gradients travel together: enough that a message's own cost is small, few enough that the next are read back meanwhile.
const DefaultBucket = 4 << 20

// bucket is a range of the gradients, in one slab of one stage.
type bucket struct {
	stage, slab   int
	offset, count int // elements
	owner         int // the rank that needs its sum; everyone: all do, and each adds up a piece
}

const everyone = -1

// bucketsOf divides the trees of the stages, of f32, into buckets of at most so many bytes.
func bucketsOf(trees []*buffers.Tree, bytes int) (out []bucket) {
	most := max(1, bytes/4)
	for stage, t := range trees {
		slabs := t.Layout().Slabs()
		for group := range t.Layout().Groups() {
			owner, first, end := everyone, 0, len(slabs)
			if t.Layout().Groups() > 1 {
				owner = group
				first, end = t.Layout().GroupSlabs(group)
			}
			for slab := first; slab < end; slab++ {
				for at := 0; at < slabs[slab]; at += most {
					out = append(out, bucket{stage, slab, at, min(most, slabs[slab]-at), owner})
				}
			}
		}
	}
	return out
}

// of is the bucket's range of a tree.
func (b bucket) of(t *buffers.Tree) gpu.Range {
	return t.Slab(b.slab).Buffer.Range(4*uint64(b.offset), 4*uint64(b.count))
}

// piece is the range of the bucket that a rank adds up for all.
func (b bucket) piece(rank, ranks int) (from, to int) {
	switch b.owner {
	case everyone:
	case rank:
		return 0, b.count
	default:
		return 0, 0
	}
	return rank * b.count / ranks, (rank + 1) * b.count / ranks
}
