package scaling_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/cmd/gputrain/lab/scaling"
)

// Every part of a step, worked out by hand.
func TestStep(t *testing.T) {
	job := scaling.Job{
		Microbatches: 8, Elements: 1e9,
		Passes: func(n int) (float64, float64) { return 3 * float64(n), 0.25 },
		Update: func(ranks int) float64 { return 2 / float64(ranks) },
		Share:  func(ranks int) float64 { return 0.3 },
		Memory: func(ranks int, sharded bool) (uint64, error) {
			if sharded {
				return uint64(100 + 100/ranks), nil
			}
			return 200, nil
		},
	}
	speeds := scaling.Speeds{Network: 1e9, Message: 1e-6, Copy: 10e9, Add: 8e9, Bucket: 4e6}
	on := func(ranks int, sharded bool) scaling.Step {
		s, err := job.On(ranks, sharded, speeds)
		require.NoError(t, err)
		return s
	}
	alone := on(1, true)
	assert.Equal(t, scaling.Step{Ranks: 1, Microbatches: 8, Passes: 24, Bubble: 0.25, Update: 2, Seconds: 26, Efficiency: 1, Memory: 200}, alone)

	// 4 GB in 1000 buckets: three quarters of them to others, and three times a quarter of sums; 6 messages a bucket.
	four := on(4, false)
	assert.InDelta(t, 6e9, four.Sent, 1)
	assert.InDelta(t, 6+0.006, four.Sum, 1e-9)
	assert.InDelta(t, 6, four.Passes, 0)
	assert.InDelta(t, 6+6.006+2, four.Seconds, 1e-9)
	assert.InDelta(t, 6.006/14.006, four.Transfer, 1e-9)
	assert.InDelta(t, 26/14.006/4, four.Efficiency, 1e-9)

	// One rank updates 1.2 GB, of which it adds up 1, and the others 2.8/3 each. It sends 3 GB of partial sums, and then 1.2 GB of parameters and 2 of
	// others'; it gets 3 GB of partial sums and totals of 0.2. A message goes to each other for each of 1000 buckets, and of its own 300.
	divided := on(4, true)
	assert.InDelta(t, 3e9+3.2e9, divided.Sent, 1)
	assert.InDelta(t, 3.2+0.0039, divided.Sum, 1e-9)
	assert.InDelta(t, 3.2+0.0039, divided.Gather, 1e-9)
	assert.InDelta(t, 0.5, divided.Update, 0)
	assert.EqualValues(t, 125, divided.Memory)

	// Where the network is fast, the host's additions are what takes time, or the way to the device.
	speeds.Network = 1e12
	assert.InDelta(t, 0.5, on(4, false).Sum, 1e-9)
	assert.InDelta(t, 0.5, on(4, true).Sum, 1e-9)
	speeds.Add = 1e12
	assert.InDelta(t, 0.4, on(4, false).Sum, 1e-9)
	assert.InDelta(t, 0.4-0.28/3, on(4, true).Gather, 1e-9)

	// More ranks than microbatches: some have none, and partial sums are as many as microbatches.
	many := on(16, false)
	assert.Equal(t, 1, many.Microbatches)
	assert.InDelta(t, 3, many.Passes, 0)
}

func TestParseNetwork(t *testing.T) {
	for text, want := range map[string]float64{"10Gbit": 1.25e9, "2.5G": 312.5e6, "500 Mbit/s": 62.5e6} {
		found, err := scaling.ParseNetwork(text)
		require.NoError(t, err)
		assert.InDelta(t, want, found, 1)
	}
	for _, bad := range []string{"", "fast", "10", "0Gbit", "10GB"} {
		_, err := scaling.ParseNetwork(bad)
		require.ErrorContains(t, err, "--network: found", bad)
	}
}
