package pipeline_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/pipeline"
)

// A rehearsal before each step changes no bit of what stages learn.
func TestRehearsalOfStagesChangesNothing(t *testing.T) {
	dev := gputest.Device(t)
	c := config(tiny(t), "adamw", 2)
	const stages, steps = 2, 3
	p := pipeline.Config{State: c, Assignment: assignment(t, c, stages, 1)}
	want := pipelined(t, []*gpu.Device{dev, dev}, p, steps)
	s, err := pipeline.Create(t.Context(), []*gpu.Device{dev, dev}, p, nil)
	require.NoError(t, err)
	defer s.Release()
	var got trained
	for i := range steps {
		took, err := s.Rehearse(t.Context(), 2)
		require.NoError(t, err)
		assert.Positive(t, took)
		m, err := s.TrainStep(t.Context(), batch(c, i))
		require.NoError(t, err)
		got.add(m)
	}
	got.params = readParams(t, s)
	requireSame(t, want, got)
}
