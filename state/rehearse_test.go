package state

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
)

// A rehearsal, before the first step or between steps in flight, changes no bit of what follows, and no step costs more for it.
func TestRehearsalChangesNothing(t *testing.T) {
	for _, accumulate := range []int{1, 3} {
		c := tinyConfig(t)
		c.Microbatches = accumulate
		run := func(rehearse bool) (metrics []Metrics, params map[string][]float32, counted gpu.Counters) {
			dev := gputest.Device(t)
			s := create(t, dev, c)
			for range 3 {
				if rehearse {
					took, err := s.Rehearse(t.Context(), 2)
					require.NoError(t, err)
					assert.Positive(t, took)
				}
				before := dev.Counters()
				m, err := s.TrainStep(t.Context(), tinyBatch(int(s.Step()), c.Batch*accumulate, true))
				require.NoError(t, err)
				metrics = append(metrics, m...)
				after := dev.Counters()
				counted.Dispatches += after.Dispatches - before.Dispatches
				counted.Submits += after.Submits - before.Submits
			}
			m, err := s.Drain(t.Context())
			require.NoError(t, err)
			params = map[string][]float32{}
			for _, p := range c.Definition.Params() {
				params[p.Path], err = s.Params().Read(t.Context(), p.Path)
				require.NoError(t, err)
			}
			return append(metrics, m...), params, counted
		}
		metrics, params, counted := run(false)
		rehearsedMetrics, rehearsedParams, rehearsedCounted := run(true)
		require.Len(t, metrics, 3)
		assert.Equal(t, metrics, rehearsedMetrics)
		assert.Equal(t, params, rehearsedParams)
		assert.Equal(t, counted, rehearsedCounted)
	}
}
