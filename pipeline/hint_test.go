package pipeline_test

import (
	"errors"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/internal/schedule"
	"gputrain/model"
	"gputrain/pipeline"
	"gputrain/state"
)

// What an error of memory advises is a figure that holds: with it the same stages fit, and without it they do not.
func TestMemoryErrorsAdviseWhatFits(t *testing.T) {
	dev := gputest.Device(t)
	c := order(t, steep(families(t)["gpt2 untied"], "sgd", `{}`, 4, 2), schedule.OneForwardOneBackward, 2)
	c.State.Accumulation = state.AccumulateSequence // more microbatches take no more room for sums
	total := func(c pipeline.Config) uint64 {
		n := uint64(0)
		for _, m := range planned(t, []*gpu.Device{dev, dev}, c) {
			n += m.Total()
		}
		return n
	}
	recomputed, smaller := c, c
	recomputed.State.Recompute = model.RecomputeLayers
	smaller.State.Batch, smaller.State.Microbatches = c.State.Batch/2, 2*c.State.Microbatches
	require.Less(t, total(recomputed), total(c))
	require.Less(t, total(smaller), total(c))
	for limit, says := range map[uint64]string{
		total(recomputed): "set train.recompute to layers: ",
		total(smaller):    "raise pipeline.microbatches 2 times ",
		1000:              "give one of the stages another adapter",
	} {
		if limit == total(smaller) && total(smaller) >= total(recomputed) {
			continue // the first would do
		}
		bound := gputest.Device(t, gputest.WithMemoryLimit(limit))
		_, err := pipeline.Create(t.Context(), []*gpu.Device{bound, bound}, c, nil)
		var e *state.MemoryError
		require.True(t, errors.As(err, &e), "%v", err)
		assert.ErrorContains(t, err, says)
		if limit > 1000 {
			assert.Regexp(t, regexp.MustCompile(`: [0-9.]+ [KM]iB instead of [0-9.]+ [KM]iB$`), err.Error())
		}
	}
}
