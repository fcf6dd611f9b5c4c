package cluster

import (
	"context"
	"fmt"
	"slices"

	"gputrain/transport"
)

// replicas are those ranks of a group that add up gradients together, numbered on their own. Where they meet all of the group do, and errors name ranks
// as the group numbers them.
type replicas struct {
	*Group
	ranks []int // of each replica
}

// replicasOf makes replicas of ranks; nil: all.
func replicasOf(g *Group, ranks []int) (replicas, error) {
	if ranks == nil {
		for rank := range g.Size() {
			ranks = append(ranks, rank)
		}
	}
	for i, rank := range ranks {
		if rank < 0 || rank >= g.Size() || slices.Contains(ranks[:i], rank) {
			return replicas{}, fmt.Errorf("cluster: sums: members: found %v, wanted different ones of %d ranks", ranks, g.Size())
		}
	}
	if !slices.Contains(ranks, g.Rank()) {
		return replicas{}, fmt.Errorf("cluster: sums: members: found %v, wanted this rank, %d, among them", ranks, g.Rank())
	}
	return replicas{g, ranks}, nil
}

// Rank is which of the replicas this one is.
func (r replicas) Rank() int { return slices.Index(r.ranks, r.Group.Rank()) }

// Size is how many replicas there are.
func (r replicas) Size() int { return len(r.ranks) }

// name is a replica's rank for people.
func (r replicas) name(replica int) string { return r.Group.name(r.ranks[replica]) }

// Send gives b to another replica.
func (r replicas) Send(ctx context.Context, to int, tag transport.Tag, b []byte) error {
	return r.Group.Send(ctx, r.ranks[to], tag, b)
}

// Receive fills b with the oldest message of another replica.
func (r replicas) Receive(ctx context.Context, from int, tag transport.Tag, b []byte) error {
	return r.Group.Receive(ctx, r.ranks[from], tag, b)
}
