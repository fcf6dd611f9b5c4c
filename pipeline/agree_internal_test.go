package pipeline

import (
	"errors"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/ranks/mesh"
	"gputrain/internal/ranks/transport"
	"gputrain/state"
)

// What all ranks of a pipeline wish is done; where one has failed, all have, and the others say whose error it is.
func TestAgree(t *testing.T) {
	failure := errors.New("no room")
	for _, x := range []struct {
		wishes [2]bool
		errs   [2]error
		want   bool
	}{
		{wishes: [2]bool{true, true}, want: true},
		{wishes: [2]bool{true, false}},
		{wishes: [2]bool{false, true}},
		{},
		{wishes: [2]bool{true, true}, errs: [2]error{nil, failure}},
	} {
		var agreed [2]bool
		var errs [2]error
		var all sync.WaitGroup
		for rank, ranks := range transport.Local(2) {
			m := mesh.New(ranks, mesh.Config{})
			require.NoError(t, m.Divide([]int{0, 1}))
			all.Go(func() {
				agreed[rank], errs[rank] = job{State: state.Job{Config: state.Config{Mesh: m}}}.agree(t.Context(), x.wishes[rank], x.errs[rank])
			})
		}
		all.Wait()
		for rank := range 2 {
			assert.Equal(t, x.want, agreed[rank], "rank %d of %+v", rank, x)
			if x.errs == [2]error{} {
				assert.NoError(t, errs[rank])
			} else {
				assert.ErrorContains(t, errs[rank], "no room", "rank %d", rank)
			}
		}
	}
	alone, err := job{}.agree(t.Context(), true, nil)
	assert.True(t, alone)
	assert.NoError(t, err)
}

// A rank judges its own stages: a plan of another rank's stage, whose device it cannot see, counts nothing here. The plans themselves stay whole.
func TestRankJudgesItsStages(t *testing.T) {
	plan := func(bytes uint64) state.MemoryPlan { return state.MemoryPlan{Activations: bytes} }
	all := []state.MemoryPlan{plan(1), plan(2), plan(3)}
	for rank, want := range [][]state.MemoryPlan{{plan(1), {}, plan(3)}, {{}, plan(2), {}}} {
		m := mesh.New(transport.Local(2)[rank], mesh.Config{})
		require.NoError(t, m.Divide([]int{0, 1, 0}))
		assert.Equal(t, want, job{State: state.Job{Config: state.Config{Mesh: m}}}.own(all), "rank %d", rank)
	}
	assert.Equal(t, all, job{}.own(all), "a process alone has every stage")
	assert.Equal(t, []state.MemoryPlan{plan(1), plan(2), plan(3)}, all)
}
