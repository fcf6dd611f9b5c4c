package state

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/model"
)

// With Config.ShardOptimizer the leaves that are trained on each stage are dealt out to the replicas. A replica has all parameters and gradients,
// and the optimizer's state of its leaves alone, which it updates. They lie in slabs of their own, a group of the layout for each replica, so nothing
// is there twice, and the layout is the same everywhere:
//
//	passes -> sums of gradients, each to its owner -> update of one's own leaves -> parameters to all
//
// Norms of the whole model are put together of all replicas' as of all stages'.

// sharded tells whether replicas divide the update.
func (j Job) sharded() bool {
	_, replicas := j.replicas()
	return j.ShardOptimizer && replicas > 1
}

// Layout is that of leaves that are trained on one device: where replicas divide the update, with a group for each of them.
func (j Job) Layout(leaves []buffers.Spec, lim gpu.Limits) (*buffers.Layout, error) {
	if !j.sharded() {
		return buffers.NewLayout(leaves, lim)
	}
	_, replicas := j.replicas()
	groups, _, err := j.Deal(leaves, replicas)
	if err != nil {
		return nil, err
	}
	return buffers.NewGroupedLayout(groups, lim)
}

// Deal divides leaves that are trained on one device over replicas, each of which updates its part; work is what an update takes of each leaf of the model
// (optim.Transform.Work).
func (j Job) Deal(leaves []buffers.Spec, replicas int) (parts [][]buffers.Spec, work map[string]float64, err error) {
	tx, err := j.Transform()
	if err != nil {
		return nil, nil, err
	}
	if work, err = tx.Work(model.Specs(j.Definition)); err != nil {
		return nil, nil, err
	}
	return deal(leaves, work, replicas), work, nil
}

// deal divides leaves over replicas by the work that an update takes of each: the leaf with the most first, each to the replica that has the least so
// far. Among equals the first leaf comes first, and the lowest replica. So all come to the same division, which does not depend on
// devices. A leaf is never divided.
func deal(leaves []buffers.Spec, work map[string]float64, replicas int) [][]buffers.Spec {
	order := slices.Clone(leaves)
	slices.SortStableFunc(order, func(a, b buffers.Spec) int { return cmp.Compare(work[b.Path], work[a.Path]) })
	parts, taken := make([][]buffers.Spec, replicas), make([]float64, replicas)
	for _, leaf := range order {
		least := slices.Index(taken, slices.Min(taken))
		parts[least] = append(parts[least], leaf)
		taken[least] += work[leaf.Path]
	}
	return parts
}

// Own is what this replica updates of a tree with a layout of Layout.
func (j Job) Own(tree *buffers.Tree) *buffers.Tree {
	if !j.sharded() {
		return tree
	}
	rank, _ := j.replicas()
	return tree.Group(rank)
}

// spread brings what has changed of the parameters to all that have copies of them.
func (s *TrainState) spread(ctx context.Context) error {
	if err := s.gatherParams(ctx); err != nil {
		return err
	}
	return s.passes.Updated(ctx)
}

// gatherParams brings the parameters that other replicas have updated.
func (s *TrainState) gatherParams(ctx context.Context) error {
	if !s.job.sharded() {
		return nil
	}
	params, _ := s.Trees()
	if err := s.job.Reducer.GatherTrees(ctx, here(params)); err != nil {
		return fmt.Errorf("reduce: parameters: %w", err)
	}
	return nil
}
