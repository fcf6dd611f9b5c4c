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
	"gputrain/state"
)

// Stages on adapters of different kinds come to what one device does, but for the rounding of their arithmetic, whichever of them comes first.
func TestMixedPipeline(t *testing.T) {
	devices := gputest.Mixed(t)
	c := config(tiny(t), "sgd", 3)
	with := batches(c, 4)
	want := alone(t, devices[0], c, with)
	for first := range devices {
		turned := append(append([]*gpu.Device{}, devices[first:]...), devices[:first]...)
		t.Run("first "+turned[0].Adapter().String(), func(t *testing.T) {
			requireClose(t, want, together(t, turned, pipeline.Config{State: c, Assignment: assignment(t, c, len(turned), 1)}, with))
		})
	}
	t.Run("interleaved", func(t *testing.T) {
		two := devices[len(devices)-2:]
		requireClose(t, want, together(t, two, pipeline.Config{State: c, Assignment: assignment(t, c, 2, 2), Schedule: schedule.Interleaved}, with))
	})
}

// requireClose wants the same numbers but for rounding.
func requireClose(t *testing.T, want, got learnt) {
	t.Helper()
	require.Len(t, got.metrics, len(want.metrics))
	require.Len(t, got.params, len(want.params))
	require.Empty(t, apart(want, got), "not within rounding")
}

// apart names the first number that is not within rounding, "" for none. A sum of n numbers of magnitude m is right within n m eps whatever its
// order; the longest here have 16 x 4 numbers and follow one another through four layers, there and back.
func apart(want, got learnt) string {
	const eps = 1.0 / (1 << 23)
	const tolerance = 64 * 8 * eps
	far := func(w, g, scale float64) bool { return !(math.Abs(w-g) <= tolerance*scale) }
	for i, w := range want.metrics {
		if g := got.metrics[i]; far(w.Loss, g.Loss, w.Loss) || far(w.GradNorm, g.GradNorm, w.GradNorm) {
			return fmt.Sprintf("step %d: loss %v and norm %v, want %v and %v", i+1, g.Loss, g.GradNorm, w.Loss, w.GradNorm)
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
	numbers := func() learnt {
		return learnt{[]state.Metrics{{Loss: 3, GradNorm: 0.5}, {Loss: 2, GradNorm: 0.25}}, map[string][]float32{"a": {1, -2, 0}, "b": {0}}}
	}
	want := numbers()
	require.Empty(t, apart(want, numbers()))
	near := numbers()
	near.metrics[1].Loss *= 1 + 1e-5
	near.params["a"][2] += 1e-5
	require.Empty(t, apart(want, near))
	for name, change := range map[string]func(*learnt){
		"step 2: loss":  func(r *learnt) { r.metrics[1].Loss *= 1 + 1e-4 },
		"step 1: loss":  func(r *learnt) { r.metrics[0].GradNorm = math.NaN() },
		"a element 0":   func(r *learnt) { r.params["a"][0] += 2e-4 },
		"a element 2: ": func(r *learnt) { r.params["a"][2] = float32(math.NaN()) },
		"b element 0":   func(r *learnt) { r.params["b"][0] = 1e-20 },
	} {
		changed := numbers()
		change(&changed)
		require.Contains(t, apart(want, changed), name)
	}
}
