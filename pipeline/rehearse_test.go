package pipeline_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/internal/schedule"
)

// A rehearsal before each step changes no bit of what stages learn.
func TestRehearsalOfStagesChangesNothing(t *testing.T) {
	dev := gputest.Device(t)
	c := steep(families(t)["gpt2"], "adamw", `{}`, 1, 2)
	p, with, devices := order(t, c, schedule.GPipe, 2), batches(c, 3), []*gpu.Device{dev, dev}
	want := together(t, devices, p, with)
	s := create(t, devices, p)
	defer s.Release()
	var got learnt
	for i := range with {
		took, err := s.Rehearse(t.Context(), 2)
		require.NoError(t, err)
		assert.Positive(t, took)
		got.metrics = append(got.metrics, learn(t, s, with[i:i+1])...)
	}
	got.params = readParams(t, s)
	sameBits(t, want, got)
}
