package pipeline_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/pipeline/schedule"
	"gputrain/state"
)

// single is the reducer of a single replica. It counts what it is asked for.
type single struct{ gathers, sums, trees *int }

func (a single) Replicas() (rank, count int) { return 0, 1 }

func (a single) Gather(_ context.Context, own []byte) ([][]byte, error) {
	*a.gathers++
	return [][]byte{own}, nil
}

func (a single) Sum(_ context.Context, grads []*buffers.Tree, own []state.Partial) error {
	*a.sums, *a.trees = *a.sums+1, len(grads)
	if len(own) != 1 || own[0].Span != (state.Span{Count: 3}) || !slices.Equal(own[0].Trees, grads) {
		return fmt.Errorf("found partial sums %v, wanted one of three microbatches in the gradients", own)
	}
	return nil
}

func (single) GatherTrees(context.Context, []*buffers.Tree) error {
	panic("a replica alone has all parameters")
}

func (single) Deliver(context.Context, int, []byte) error { panic("a replica alone has all state") }

// Stages have a reducer between passes and update, too; a replica alone learns as without.
func TestReducerOfStages(t *testing.T) {
	devices := fleet(t, 3)
	c := steep(families(t)["llama"], "adamw", `{}`, 2, 3)
	with := batches(c, 4)
	want := together(t, devices, order(t, c, schedule.GPipe, 3), with)
	var a single
	a.gathers, a.sums, a.trees = new(int), new(int), new(int)
	c.Reducer = a
	require.Equal(t, want, together(t, devices, order(t, c, schedule.GPipe, 3), with))
	require.Equal(t, []int{8, 4, 3}, []int{*a.gathers, *a.sums, *a.trees}, "tokens and losses, gradients, of three stages")
}
