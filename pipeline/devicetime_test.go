package pipeline_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/schedule"
)

// Of the newest step a pipeline tells how long its busiest stage computed and when it was done, of others nothing.
func TestDeviceTimeOfAStep(t *testing.T) {
	c := steep(families(t)["llama"], "sgd", `{}`, 2, 2)
	s := create(t, fleet(t, 2), order(t, c, schedule.GPipe, 2))
	defer s.Release()
	with := batches(c, 2)
	for step := range with {
		begin := time.Now()
		learn(t, s, with[step:step+1])
		worked, done := s.DeviceTime(s.Step())
		assert.WithinRange(t, done, begin, time.Now())
		use, ok := s.StageUse()
		require.True(t, ok)
		assert.Positive(t, worked)
		assert.LessOrEqual(t, float64(worked), slices.Max(use.Busy)*float64(done.Sub(begin)), "a share of the time of the step")
		worked, done = s.DeviceTime(s.Step() - 1)
		assert.Zero(t, worked)
		assert.True(t, done.IsZero())
	}
}
