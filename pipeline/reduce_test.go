package pipeline_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/internal/ranks/mesh"
	"gputrain/internal/ranks/transport"
	"gputrain/internal/schedule"
	"gputrain/pipeline"
	"gputrain/run/data"
	"gputrain/state"
)

// undivided is what a reducer is not asked for where every replica makes the whole update.
type undivided struct{}

func (undivided) GatherTrees(context.Context, []*buffers.Tree) error {
	panic("every replica has all parameters")
}

// single is the reducer of a single replica. It counts what it is asked for.
type single struct {
	undivided
	sums, trees *int
}

func (a single) Sum(_ context.Context, grads []*buffers.Tree, own []state.Partial) error {
	*a.sums, *a.trees = *a.sums+1, len(grads)
	if len(own) != 1 || own[0].Span != (state.Span{Count: 3}) || !slices.Equal(own[0].Trees, grads) {
		return fmt.Errorf("found partial sums %v, wanted one of three microbatches in the gradients", own)
	}
	return nil
}

// Stages have a reducer between passes and update, too; a replica alone learns as without.
func TestReducerOfStages(t *testing.T) {
	devices := fleet(t, 3)
	c := steep(families(t)["llama"], "adamw", `{}`, 2, 3)
	with := batches(c, 4)
	want := together(t, devices, order(t, c, schedule.GPipe, 3), with)
	var a single
	a.sums, a.trees = new(int), new(int)
	c.Reducer = a
	require.Equal(t, want, together(t, devices, order(t, c, schedule.GPipe, 3), with))
	require.Equal(t, []int{4, 3}, []int{*a.sums, *a.trees}, "of three stages")
}

// replica is one of several in this process. What it gives goes to everyone's channel from it.
type replica struct {
	undivided
	rank, count int
	from        [][]chan any // by giver and taker
}

func (r replica) all(own any) (out []any) {
	for to := range r.count {
		r.from[r.rank][to] <- own
	}
	for giver := range r.count {
		out = append(out, <-r.from[giver][r.rank])
	}
	return out
}

func (r replica) Sum(ctx context.Context, grads []*buffers.Tree, own []state.Partial) error {
	for stage, tree := range grads {
		for _, leaf := range tree.Layout().Leaves() {
			given := map[state.Span][]float32{}
			for _, p := range own {
				values, err := p.Trees[stage].Read(ctx, leaf.Path)
				if err != nil {
					return err
				}
				given[p.Span] = values
			}
			var nodes []state.Span
			values := map[state.Span][]float32{}
			for _, g := range r.all(given) {
				for node, v := range g.(map[state.Span][]float32) {
					nodes, values[node] = append(nodes, node), v
				}
			}
			slices.SortFunc(nodes, func(a, b state.Span) int { return a.First - b.First })
			last := nodes[len(nodes)-1]
			sum := state.Fold(last.First+last.Count, nodes, func(i int) []float32 { return slices.Clone(values[nodes[i]]) }, func(left, right []float32) []float32 {
				for i := range left {
					left[i] += right[i]
				}
				return left
			})
			if err := tree.Write(leaf.Path, sum); err != nil {
				return err
			}
		}
	}
	return nil
}

// Replicas on stages of their own, in any order of microbatches, learn what one device does: with a tied head, with dropout, with several parts a
// stage, and with a replica that has nothing to compute.
func TestReplicasOfStagesLearnWhatOneDeviceDoes(t *testing.T) {
	devices := fleet(t, 2)
	for _, k := range []struct {
		family, order          string
		microbatches, replicas int
	}{
		{"gpt2 dropout", schedule.OneForwardOneBackward, 3, 2},
		{"llama tied", schedule.Interleaved, 8, 3},
		{"llama tied", schedule.GPipe, 1, 2},
	} {
		t.Run(k.family+" "+k.order, func(t *testing.T) {
			c := steep(families(t)[k.family], "adamw", `{}`, 1, k.microbatches)
			with := batches(c, 2)
			want := alone(t, devices[0], c, with)
			from := make([][]chan any, k.replicas)
			for giver := range from {
				for range k.replicas {
					from[giver] = append(from[giver], make(chan any, 1))
				}
			}
			var all sync.WaitGroup
			for rank, ranks := range transport.Local(k.replicas) {
				c := c
				c.Mesh = mesh.New(ranks, mesh.Config{})
				c.Reducer = replica{rank: rank, count: k.replicas, from: from}
				p, row := order(t, c, k.order, 2), c.Definition.Context()
				share := state.Share(k.microbatches, rank, k.replicas)
				at, end := share.First*row, (share.First+share.Count)*row
				all.Go(func() {
					s, err := pipeline.Create(t.Context(), devices, p, nil)
					if !assert.NoError(t, err) {
						return
					}
					defer s.Release()
					got := learnt{params: map[string][]float32{}}
					for _, b := range with {
						m, err := s.TrainStep(t.Context(), data.Batch{Rows: share.Count, Tokens: b.Tokens[at:end], Labels: b.Labels[at:end]})
						if !assert.NoError(t, err) {
							return
						}
						got.metrics = append(got.metrics, m...)
					}
					params, _ := s.Trees()
					for _, tree := range params {
						for _, leaf := range tree.Layout().Leaves() {
							got.params[leaf.Path], err = tree.Read(t.Context(), leaf.Path)
							assert.NoError(t, err)
						}
					}
					assert.Equal(t, want, got, "replica %d", rank)
				})
			}
			all.Wait()
		})
	}
}
