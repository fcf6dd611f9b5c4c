package state

import (
	"fmt"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/state/checkpoint"
)

// Steps whose submits are cut at every command have the bits of steps of one submit a microbatch, leave out what is not finite, and go on from each
// other's checkpoints. They are the submits that Submits tells, and make nothing.
func TestCutStepsHaveTheSameBits(t *testing.T) {
	for _, accumulate := range []int{1, 3} {
		c := tinyConfig(t)
		c.Microbatches = accumulate
		dirs := map[bool]string{}
		run := func(cut bool) (metrics, params string) {
			dev := gputest.Device(t, func(o *gpu.Options) {
				if o.SubmitLimit = -1; cut {
					o.SubmitLimit = 1
				}
			})
			s := create(t, dev, c)
			var all []Metrics
			step := func() {
				before := dev.Counters()
				m, err := s.TrainStep(t.Context(), tinyBatch(int(s.Step()), c.Batch*accumulate, true))
				require.NoError(t, err)
				all = append(all, m...)
				m, err = s.Drain(t.Context())
				require.NoError(t, err)
				all = append(all, m...)
				after := dev.Counters()
				assert.Equal(t, []uint64{before.Pipelines, before.BindGroups, before.Buffers}, []uint64{after.Pipelines, after.BindGroups, after.Buffers})
				submits := s.Submits()[0]
				assert.EqualValues(t, len(submits), after.Submits-before.Submits)
				dispatches := 0
				for _, p := range submits {
					assert.Equal(t, cut, p.Cut)
					dispatches += p.Dispatches
				}
				assert.EqualValues(t, dispatches, after.Dispatches-before.Dispatches)
				if cut {
					assert.Greater(t, len(submits), dispatches)
				} else {
					assert.Len(t, submits, accumulate)
				}
			}
			step()
			_, err := s.Rehearse(t.Context(), 1)
			require.NoError(t, err)
			_, measured := dev.Speed()
			assert.True(t, measured, "a rehearsal tells the device how fast it is")
			step()
			dirs[cut] = filepath.Join(t.TempDir(), checkpoint.DirName(s.Step()))
			require.NoError(t, s.Save(t.Context(), dirs[cut], checkpoint.Run{}))
			step()
			other, _, err := Load(t.Context(), dev, c, dirs[false])
			require.NoError(t, err)
			t.Cleanup(other.Release)
			s = other
			step()
			for _, p := range c.Definition.Params() {
				data, err := s.Params().Read(t.Context(), p.Path)
				require.NoError(t, err)
				params += fmt.Sprint(p.Path, data)
			}
			bad, err := s.Params().Read(t.Context(), "wpe.weight")
			require.NoError(t, err)
			bad[3] = float32(math.NaN())
			require.NoError(t, s.Params().Write("wpe.weight", bad))
			step()
			assert.False(t, all[len(all)-1].Finite)
			after, err := s.Params().Read(t.Context(), "wte.weight")
			require.NoError(t, err)
			return fmt.Sprintf("%+v", all), params + fmt.Sprint(after)
		}
		metrics, params := run(false)
		cutMetrics, cutParams := run(true)
		assert.Equal(t, metrics, cutMetrics)
		assert.Equal(t, params, cutParams)
	}
}

// A plan without a device counts what it takes on cards of other speeds.
func TestSubmitsOfAPlan(t *testing.T) {
	c := tinyConfig(t)
	c.Microbatches = 2
	a := gpu.Adapter{Index: -1, Name: "none", Type: "discrete", Limits: gpu.DefaultLimits()}
	fast := gpu.Speed{FLOPS: 1e12, BytesPerSecond: 1e12}
	flops, err := jobOf(t, c).FLOPs()
	require.NoError(t, err)
	operations := 0.0
	for _, n := range flops {
		operations += float64(n)
	}
	limit := time.Second / 2
	slow := gpu.Speed{FLOPS: operations / limit.Seconds() / 10, BytesPerSecond: 1e12} // an update takes ten times the limit
	dev := gpu.DryOf(a, a.Limits)
	s, err := Dry(t.Context(), jobOf(t, c), dev)
	require.NoError(t, err)
	submits := func(speed gpu.Speed, limit time.Duration) []gpu.Planned {
		dev.Assume(speed, limit)
		return s.Submits()[0]
	}
	assert.Len(t, submits(fast, limit), 2, "one a microbatch")
	cut := submits(slow, limit)
	assert.Greater(t, len(cut), 10)
	for _, p := range cut {
		assert.LessOrEqual(t, p.Takes, limit, p.Longest)
	}
	assert.Len(t, submits(slow, -1), 2)
}
