package pipeline_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/internal/schedule"
	"gputrain/pipeline"
)

// Stages whose submits are cut at every command learn the bits of one device, apart and on one device, in as many submits as they plan; what there was
// no room for at once is cut alike. They make nothing after the first step.
func TestCutSubmitsOnStages(t *testing.T) {
	limited := func(o *gpu.Options) { o.SubmitLimit = 1 }
	devices := fleet(t, 2, limited)
	c := steep(families(t)["gpt2"], "adamw", `{}`, 2, 3)
	with := batches(c, 3)
	want := alone(t, gputest.Device(t, func(o *gpu.Options) { o.SubmitLimit = -1 }), c, with)
	for name, home := range map[string][]*gpu.Device{"apart": devices, "on one": {devices[0], devices[0]}} {
		t.Run(name, func(t *testing.T) {
			p := order(t, c, schedule.OneForwardOneBackward, 2)
			dry, err := pipeline.Dry(t.Context(), p, home)
			require.NoError(t, err)
			planned := dry.Submits()
			s := create(t, home, p)
			defer s.Release()
			assert.Equal(t, planned, s.Submits(), "the plan on dry devices")
			got := learnt{metrics: learn(t, s, with[:2])}
			expected, distinct := map[*gpu.Device]int{}, map[*gpu.Device]gpu.Counters{}
			for i, d := range home {
				distinct[d] = d.Counters()
				expected[d] += len(planned[i])
				for _, p := range planned[i] {
					assert.LessOrEqual(t, p.Dispatches, 1)
				}
			}
			got.metrics = append(got.metrics, learn(t, s, with[2:])...)
			for d, before := range distinct {
				after := d.Counters()
				assert.Equal(t, []uint64{before.Pipelines, before.BindGroups, before.Buffers}, []uint64{after.Pipelines, after.BindGroups, after.Buffers})
				copied := int(after.Submits-before.Submits) - expected[d]
				assert.GreaterOrEqual(t, copied, 0)
				assert.LessOrEqual(t, copied, 1, "the copy of a tied head is read beside the programs")
			}
			got.params = readParams(t, s)
			sameBits(t, want, got)
		})
	}
}
