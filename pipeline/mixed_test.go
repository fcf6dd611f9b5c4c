package pipeline_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/internal/schedule"
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
		got := pipelined(t, two, pipeline.Config{State: c, Assignment: assignment(t, c, 2, 2), Schedule: schedule.Interleaved}, steps)
		requireClose(t, want, got)
	})
}

// requireClose wants the same numbers but for rounding.
func requireClose(t *testing.T, want, got trained) {
	t.Helper()
	require.Len(t, got.losses, len(want.losses))
	require.Len(t, got.params, len(want.params))
	require.Empty(t, apart(want, got), "not within rounding")
}

// apart names the first number that is not within rounding, "" for none. A sum of n numbers of magnitude m is right within n m eps whatever its
// order; the longest here have 16 x 4 numbers and follow one another through four layers, there and back.
func apart(want, got trained) string {
	const eps = 1.0 / (1 << 23)
	const tolerance = 64 * 8 * eps
	far := func(w, g, scale float64) bool { return !(math.Abs(w-g) <= tolerance*scale) }
	for i, w := range want.losses {
		if far(w, got.losses[i], w) || far(want.norms[i], got.norms[i], want.norms[i]) {
			return fmt.Sprintf("step %d: loss %v and norm %v, want %v and %v", i+1, got.losses[i], got.norms[i], w, want.norms[i])
		}
	}
	for path, w := range want.params {
		largest := 0.0
		for _, x := range w {
			largest = max(largest, math.Abs(float64(x)))
		}
		for i := range w {
			if g := got.params[path][i]; far(float64(w[i]), float64(g), largest) {
				return fmt.Sprintf("%s element %d: %v, want %v", path, i, g, w[i])
			}
		}
	}
	return ""
}

func TestApart(t *testing.T) {
	numbers := func() trained {
		return trained{[]float64{3, 2}, []float64{0.5, 0.25}, map[string][]float32{"a": {1, -2, 0}, "b": {0}}}
	}
	want := numbers()
	require.Empty(t, apart(want, numbers()))
	near := numbers()
	near.losses[1] *= 1 + 1e-5
	near.params["a"][2] += 1e-5
	require.Empty(t, apart(want, near))
	for name, change := range map[string]func(*trained){
		"step 2: loss":  func(r *trained) { r.losses[1] *= 1 + 1e-4 },
		"step 1: loss":  func(r *trained) { r.norms[0] = math.NaN() },
		"a element 0":   func(r *trained) { r.params["a"][0] += 2e-4 },
		"a element 2: ": func(r *trained) { r.params["a"][2] = float32(math.NaN()) },
		"b element 0":   func(r *trained) { r.params["b"][0] = 1e-20 },
	} {
		changed := numbers()
		change(&changed)
		require.Contains(t, apart(want, changed), name)
	}
}
