package mesh

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/ranks/transport"
)

// Ranks of a mesh of two replicas on three ranks each, whose five stages do not lie in the order of the ranks, know their places and those of all
// others; so do ranks that are replicas, and a process alone.
func TestPlaces(t *testing.T) {
	type place struct {
		inRow, replica     [2]int // this, of
		leads, spread      bool
		row, column, homes []int
		stages             [][]int
		first              []int // stages of replica 0 that this rank has
	}
	stages, all := []int{1, 0, 0, 2, 1}, []int{0, 1, 2, 3, 4}
	divided := [][]int{{1, 2}, {0, 4}, {3}}
	for _, x := range []struct {
		rank, size int
		stages     []int
		where      string // of stage 0
		want       place
	}{
		{0, 1, nil, "", place{[2]int{0, 1}, [2]int{0, 1}, true, false, []int{0}, []int{0}, make([]int, 5), [][]int{all}, all}},
		{2, 3, nil, "", place{[2]int{0, 1}, [2]int{2, 3}, false, false, []int{2}, []int{0, 1, 2}, []int{2, 2, 2, 2, 2}, [][]int{all}, nil}},
		{2, 6, stages, "rank 1 on ", place{[2]int{2, 3}, [2]int{0, 2}, false, true, []int{0, 1, 2}, []int{2, 5}, stages, divided, []int{3}}},
		{3, 6, stages, "rank 4 on ", place{[2]int{0, 3}, [2]int{1, 2}, false, true, []int{3, 4, 5}, []int{0, 3}, []int{4, 3, 3, 5, 4}, divided, nil}},
	} {
		t.Run(fmt.Sprintf("%d of %d", x.rank, x.size), func(t *testing.T) {
			var m *Mesh
			if x.size > 1 {
				m = New(transport.Local(x.size)[x.rank], Config{})
			}
			if x.stages != nil {
				require.NoError(t, m.Divide(x.stages))
			}
			got := place{leads: m.Leads(), spread: m.Spread(), row: m.Row(), column: m.Column(), stages: m.Stages(len(stages))}
			got.inRow[0], got.inRow[1] = m.InRow()
			got.replica[0], got.replica[1] = m.Replica()
			for stage := range stages {
				got.homes = append(got.homes, m.Home(stage))
				assert.Equal(t, m.Home(stage) == x.rank, m.Here(stage), "stage %d", stage)
				if m.Has(0, stage) {
					got.first = append(got.first, stage)
				}
			}
			assert.Equal(t, x.want, got)
			assert.Equal(t, len(x.stages), m.Divided())
			assert.Equal(t, x.where == "", m.Where(0) == "")
			assert.Contains(t, m.Where(0), x.where)
		})
	}
}

// Numbers of ranks that stages cannot be divided over are refused, with those that can.
func TestDivideRefuses(t *testing.T) {
	for want, stages := range map[string][]int{
		"pipeline: ranks: found 3 ranks, wanted a multiple of the 2 of a pipeline: 2, 4, 6 and so on":  {0, 1},
		"pipeline: ranks: rank 1: found no stage, wanted one or more on each of ranks 0 to 2":          {0, 2},
		"pipeline: ranks: found 3 ranks, wanted a multiple of the 4 of a pipeline: 4, 8, 12 and so on": {3, 2, 1, 0},
	} {
		m := New(transport.Local(3)[0], Config{})
		require.EqualError(t, m.Divide(stages), want)
		assert.False(t, m.Spread(), "it is as it was")
	}
}

// What all have given comes in the order of ranks, or of those of one's own replica; what they note beside comes with it, and stays until they meet again.
func TestMeetings(t *testing.T) {
	for rank, err := range together(4, func(rank int, m *Mesh) error {
		assert.NoError(t, m.Divide([]int{0, 1}))
		begun := time.Now()
		m.Note(fmt.Append(nil, "note ", rank))
		row, err := m.GatherRow(t.Context(), "figures", fmt.Append(nil, rank))
		if err != nil {
			return err
		}
		first := rank / 2 * 2
		assert.Equal(t, [][]byte{fmt.Append(nil, first), fmt.Append(nil, first+1)}, row)
		assert.Equal(t, "note 3", string(m.Notes()[3]))
		assert.False(t, m.Met().Before(begun))
		shared, err := Share(t.Context(), m, "place", fmt.Sprint("of ", rank))
		assert.Equal(t, "of 0", shared)
		return err
	}) {
		require.NoError(t, err, "rank %d", rank)
	}
	var alone *Mesh
	all, err := alone.GatherRow(t.Context(), "figures", []byte("own"))
	require.NoError(t, err)
	require.Equal(t, [][]byte{[]byte("own")}, all)
}

// The rank that leads gets what the one that has a stage of a replica has, and no other call waits. After an error nothing succeeds.
func TestToLeader(t *testing.T) {
	for rank, err := range together(4, func(rank int, m *Mesh) error {
		assert.NoError(t, m.Divide([]int{1, 0}))
		for replica := range 2 {
			for stage := range 2 {
				b := make([]byte, 2)
				if m.Has(replica, stage) {
					b = []byte{byte(replica), byte(stage)}
				}
				if err := m.ToLeader(t.Context(), replica, stage, b); err != nil {
					return err
				}
				if rank == 0 {
					assert.Equal(t, []byte{byte(replica), byte(stage)}, b)
				}
			}
		}
		return nil
	}) {
		require.NoError(t, err, "rank %d", rank)
	}
	over := make(chan struct{})
	errs := together(2, func(rank int, m *Mesh) error {
		if rank == 1 {
			<-over
			return nil
		}
		defer close(over)
		m.SetTimeout(20 * time.Millisecond)
		err := m.ToLeader(t.Context(), 1, 0, make([]byte, 1))
		assert.ErrorIs(t, m.Together(func() error { return errors.New("it ran") }), err)
		return err
	})
	var late *WaitError
	require.ErrorAs(t, errs[0], &late)
	require.ErrorContains(t, errs[0], "waited 20ms for the state of the optimizer of rank 1 on host ")

	// A caller that bounds the wait says so itself.
	m := New(transport.Local(2)[0], Config{})
	ctx, done := context.WithTimeout(t.Context(), time.Millisecond)
	defer done()
	require.ErrorIs(t, m.ToLeader(ctx, 1, 0, make([]byte, 1)), context.DeadlineExceeded)
	require.False(t, errors.As(m.Together(func() error { return nil }), &late))
}
