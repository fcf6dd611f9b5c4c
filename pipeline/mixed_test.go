package pipeline_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/gpu/gputest"
	"gputrain/pipeline"
)

// Stages on adapters of different kinds come to what one device does, but for the rounding of their arithmetic, whichever of them comes first.
func TestMixedPipeline(t *testing.T) {
	devices := gputest.Mixed(t)
	c := config(tiny(t), "sgd", 3)
	const steps = 4
	want := unpipelined(t, devices[0], c, steps)
	for first := range devices {
		turned := append(append([]*gpu.Device{}, devices[first:]...), devices[:first]...)
		t.Run("first "+turned[0].Adapter().String(), func(t *testing.T) {
			got := pipelined(t, turned, pipeline.Config{State: c, Assignment: assignment(t, c, len(turned), 1)}, steps)
			requireClose(t, want, got)
		})
	}
	t.Run("interleaved", func(t *testing.T) {
		two := devices[len(devices)-2:]
		got := pipelined(t, two, pipeline.Config{State: c, Assignment: assignment(t, c, 2, 2), Schedule: pipeline.Interleaved}, steps)
		requireClose(t, want, got)
	})
}

// requireClose wants the same numbers but for rounding. A sum of n numbers of magnitude m is right within n m eps whatever its order; the
// longest here have 16 x 4 numbers and follow one another through four layers, there and back.
func requireClose(t *testing.T, want, got trained) {
	t.Helper()
	const eps = 1.0 / (1 << 23)
	const tolerance = 64 * 8 * eps
	near := func(what string, w, g, scale float64) {
		if !(math.Abs(w-g) <= tolerance*scale) {
			require.Failf(t, "not within rounding", "%s: %v, want %v", what, g, w)
		}
	}
	require.Len(t, got.losses, len(want.losses))
	for i := range want.losses {
		near("loss", want.losses[i], got.losses[i], want.losses[i])
		near("norm", want.norms[i], got.norms[i], want.norms[i])
	}
	require.Len(t, got.params, len(want.params))
	for path, w := range want.params {
		largest := 0.0
		for _, x := range w {
			largest = max(largest, math.Abs(float64(x)))
		}
		require.Len(t, got.params[path], len(w), path)
		for i := range w {
			near(path, float64(w[i]), float64(got.params[path][i]), largest)
		}
	}
}
