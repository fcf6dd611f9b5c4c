package pipeline_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/pipeline/schedule"
)

// single is the reducer of a single replica. It counts what it is asked for.
type single struct{ gathers, sums, trees *int }

func (a single) Replicas() (rank, count int) { return 0, 1 }

func (a single) Gather(_ context.Context, own []byte) ([][]byte, error) {
	*a.gathers++
	return [][]byte{own}, nil
}

func (a single) Sum(_ context.Context, trees []*buffers.Tree) error {
	*a.sums, *a.trees = *a.sums+1, len(trees)
	return nil
}

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
