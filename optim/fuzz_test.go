package optim

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/tests/frugal"
)

// FuzzConfig: a configuration that is accepted is written to one that is accepted as the same; a schedule that can be built stays between 0 and
// the highest of its rates.
func FuzzConfig(f *testing.F) {
	for i, name := range Names() {
		c, err := ParseConfig([]byte(`{"name":"` + name + `","options":{"schedule":{"type":"cosine","learning_rate":0.01,"warmup_steps":3,"steps":10,"exponent":2},"clip_grad":1}}`))
		require.NoError(f, err)
		c.Options.Schedule.Type = ScheduleNames()[i%len(ScheduleNames())]
		text, err := json.Marshal(c)
		require.NoError(f, err)
		f.Add(text)
	}
	f.Add([]byte(`{"name":"adamw","options":{"schedule":{"type":"polynomial","learning_rate":1,"learning_rate_end":2,"steps":9223372036854775807,"exponent":1e300}}}`))
	f.Add([]byte(`{"name":"quad","options":{"schedule":null,"weight_decay_mask":["[","x"],"rates":[{"pattern":"x","rate":2}]},"parameters":{"block_size":-1}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		frugal.Parse(t, len(text), func() {
			c, err := ParseConfig(text)
			if err != nil {
				return
			}
			written, err := json.Marshal(c)
			require.NoError(t, err)
			again, err := ParseConfig(written)
			require.NoError(t, err)
			twice, err := json.Marshal(again)
			require.NoError(t, err)
			require.Equal(t, string(written), string(twice))

			if _, err := c.Build(); err != nil {
				return
			}
			o := c.Options.Schedule
			rate, err := o.Build(c.Options.Numerics)
			require.NoError(t, err)
			most := max(o.LearningRate, o.end(), warmupBegin)
			if most > 1e300 {
				return // differences of such rates are not finite
			}
			for _, at := range []int64{0, 1, o.WarmupSteps - 1, o.WarmupSteps, o.WarmupSteps + 1, o.Steps / 2, o.Steps - 1, o.Steps, math.MaxInt64 - 1} {
				if at < 0 {
					continue
				}
				v := rate(at)
				require.True(t, v >= -1e-12*most && v <= most*(1+1e-12), "update %d: rate %g, wanted one from 0 to %g", at, v, most)
			}
		})
	})
}
