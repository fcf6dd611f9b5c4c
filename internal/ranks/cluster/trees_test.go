package cluster

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/internal/ranks/mesh"
	"gputrain/state"
)

// grouped are trees of the model whose leaves are dealt out to ranks: the first has nearly all, some have none.
func grouped(t *testing.T, dev *gpu.Device, ranks int) (out []*buffers.Tree) {
	for _, specs := range model {
		groups := make([][]buffers.Spec, ranks)
		for i, s := range specs {
			owner := (i * 2) % ranks
			groups[owner] = append(groups[owner], s)
		}
		layout, err := buffers.NewGroupedLayout(groups, dev.Limits())
		require.NoError(t, err)
		out = append(out, newTree(t, dev, layout))
	}
	return out
}

// Where ranks divide the update each gets the device's bits of the sums of its own group, and all get the groups of all; they send and receive what the
// formula of tools/lab-book.md says. That holds for groups without leaves, for ranks without microbatches and for buckets of fewer elements than ranks.
func TestGroupsTravelByWayOfAll(t *testing.T) {
	dev := gputest.Device(t)
	for _, k := range []struct {
		ranks, microbatches, bucket int
		wire                        Wire
	}{{2, 3, 400, F32}, {3, 8, 400, BF16}, {5, 2, 400, F32}, {4, 1, 12, F32}} {
		t.Run(fmt.Sprintf("%d of %d, %s", k.ranks, k.microbatches, k.wire), func(t *testing.T) {
			want := summed(t, dev, k.microbatches, state.Span{Count: k.microbatches})
			grads, partials := make([][]*buffers.Tree, k.ranks), make([][]state.Partial, k.ranks)
			for rank := range k.ranks {
				grads[rank] = grouped(t, dev, k.ranks)
				nodes := state.Share(k.microbatches, rank, k.ranks).Nodes(k.microbatches)
				for i, node := range nodes {
					p := state.Partial{Span: node, Trees: grads[rank]}
					if i < len(nodes)-1 {
						p.Trees = grouped(t, dev, k.ranks)
					}
					put32(t, p.Trees, summed(t, dev, k.microbatches, node))
					partials[rank] = append(partials[rank], p)
				}
			}
			for rank, err := range together(k.ranks, func(rank int, g *mesh.Mesh) error {
				r, err := NewReducer(t.Context(), g, Sums{Microbatches: k.microbatches, Bucket: k.bucket, Wire: k.wire}, dev)
				if err == nil {
					err = r.Sum(t.Context(), grads[rank], partials[rank])
				}
				if err == nil {
					err = r.GatherTrees(t.Context(), grads[rank])
				}
				if err == nil {
					sent, received := travelsDivided(grads[rank], rank, k.ranks, k.microbatches, k.bucket, uint64(k.wire.bytes()))
					assert.Equal(t, []uint64{sent, received}, []uint64{r.use.Sent, r.use.Received}, "rank %d", rank)
				}
				return err
			}) {
				require.NoError(t, err, "rank %d", rank)
				got := get32(t, grads[rank])
				if k.wire == F32 {
					require.Equal(t, bitsOf(want), bitsOf(got), "rank %d", rank)
				}
				require.Equal(t, bitsOf(get32(t, grads[0])), bitsOf(got), "rank %d", rank)
			}
		})
	}
}

// A piece is of what the rank owns first, and then of what is left.
func TestPieces(t *testing.T) {
	b := bucket{count: 9, parts: []part{{owner: 0, at: 0, count: 6}, {owner: 1, at: 6, count: 1}, {owner: 2, at: 7, count: 2}}}
	b.deal(3)
	assert.Equal(t, [][]run{{{0, 3, 0}}, {{6, 7, 0}, {3, 5, 1}}, {{7, 9, 0}, {5, 6, 2}}}, b.pieces)
	assert.Equal(t, []run{{3, 5, 1}}, b.runs(b.pieces[1], func(owner int) bool { return owner == 0 }))
	assert.Equal(t, []run{{0, 9, 0}}, b.runs(b.whole(), func(int) bool { return true }))

	b = bucket{count: 7, parts: []part{{owner: everyone, count: 7}}}
	b.deal(2)
	assert.Equal(t, [][]run{{{0, 3, 0}}, {{3, 7, 0}}}, b.pieces)
}

// travelsDivided is the formula: pieces of partial sums go to all, totals to their owners; parameters go to those that have their piece, and from there
// to all.
func travelsDivided(trees []*buffers.Tree, rank, ranks, microbatches, bucket int, w uint64) (sent, received uint64) {
	nodes := uint64(len(state.Share(microbatches, rank, ranks).Nodes(microbatches)))
	all := uint64(0) // partial sums
	for other := range ranks {
		all += uint64(len(state.Share(microbatches, other, ranks).Nodes(microbatches)))
	}
	var n, p, o, c uint64 // elements, those that the rank adds up, those that it updates, and those of both
	for _, b := range bucketsOf(trees, bucket, ranks) {
		n += uint64(b.count)
		for _, r := range b.pieces[rank] {
			p += uint64(r.end - r.from)
			for _, part := range b.parts {
				if part.owner == rank {
					c += uint64(max(0, min(r.end, part.at+part.count)-max(r.from, part.at)))
				}
			}
		}
		for _, part := range b.parts {
			if part.owner == rank {
				o += uint64(part.count)
			}
		}
	}
	others := uint64(ranks - 1)
	return w*(nodes*(n-p)+p-c) + 4*(o+(others-1)*p), w*((all-nodes)*p+o-c) + 4*(n-o)
}
