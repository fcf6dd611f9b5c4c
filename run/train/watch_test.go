package train

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/internal/gputest"
	"gputrain/state"
)

// largest gives the largest magnitude of a tensor.
func largest(tensor buffers.Host) (map[string]float64, error) {
	most := 0.0
	for _, v := range tensor.Data {
		most = math.Max(most, math.Abs(float64(v)))
	}
	return map[string]float64{"largest": most, "rank": float64(len(tensor.Shape))}, nil
}

func TestWatchers(t *testing.T) {
	dev := gputest.Device(t)
	want := map[int64]map[string]Number{}
	note := HookFunc(func(ctx context.Context, e Event) error {
		if e.Kind != StepEnd || e.Step != 4 && e.Step != 8 && e.Step != 12 {
			return nil
		}
		params, grads := e.State.(*state.TrainState).Trees()
		found := map[string]Number{}
		data, err := params[0].Read(ctx, "wpe.weight")
		require.NoError(t, err)
		figures, _ := largest(buffers.Host{Data: data})
		found["size/params/wpe.weight/largest"], found["size/params/wpe.weight/rank"] = Number(figures["largest"]), 2
		data, err = grads[0].Read(ctx, "wpe.weight")
		require.NoError(t, err)
		figures, _ = largest(buffers.Host{Data: data})
		found["size/grads/wpe.weight/largest"], found["size/grads/wpe.weight/rank"] = Number(figures["largest"]), 2
		if e.Step == 12 {
			found["late/params/ln_f.bias/elements"] = 16
		}
		want[e.Step] = found
		return nil
	})
	watched := func(dir string) map[int64]map[string]Number {
		steps := stepsIn(t, dir)
		out := map[int64]map[string]Number{}
		for _, m := range steps {
			if m.Watched != nil {
				out[m.Step] = m.Watched
			}
		}
		return out
	}
	watchers := []Watcher{
		{Name: "size", Match: "wpe", Every: 4, Watch: largest},
		{Name: "late", Match: `^params/ln_f\.bias`, Watch: func(h buffers.Host) (map[string]float64, error) {
			return map[string]float64{"elements": float64(len(h.Data))}, nil
		}},
	}
	c := tinyHistograms(t, t.TempDir())
	c.HistogramEvery, c.LogEvery, c.Watchers, c.Hooks = 0, 5, watchers, []Hook{note}
	ran(t, dev, c)
	assert.Len(t, want, 3)
	assert.Equal(t, want, watched(c.Dir), "also of steps that are not logged otherwise")

	// A run that was stopped has the same, and an error ends one cleanly.
	stopped := tinyHistograms(t, t.TempDir())
	stopped.HistogramEvery, stopped.LogEvery = 0, 5
	wrong := errors.New("no more")
	calls := 0
	stopped.Watchers = append([]Watcher{{Name: "fails", Match: "^params/wpe", Every: 7, Watch: func(buffers.Host) (map[string]float64, error) {
		calls++
		return nil, wrong
	}}}, watchers...)
	result, err := Run(t.Context(), dev, stopped)
	require.ErrorIs(t, err, wrong)
	assert.ErrorContains(t, err, `watcher "fails": params/wpe.weight`)
	assert.EqualValues(t, 7, result.Step)
	assert.EqualValues(t, 7, newestStep(t, stopped.Dir), "saved")
	assert.Equal(t, 1, calls)
	stopped.Watchers = watchers
	ran(t, dev, stopped)
	assert.Equal(t, want, watched(stopped.Dir))
}

func TestWatchersThatCannotBeMeant(t *testing.T) {
	good := Watcher{Name: "a", Watch: largest}
	for wrong, list := range map[string][]Watcher{
		"found no name":        {{Watch: largest}},
		"found the name twice": {good, good},
		"found no function":    {{Name: "a"}},
		"every -1 updates":     {{Name: "a", Watch: largest, Every: -1}},
		"found no tensor":      {{Name: "a", Watch: largest, Match: "nothing"}},
	} {
		c := tinyHistograms(t, t.TempDir())
		c.Watchers = list
		err := c.Validate()
		assert.ErrorContains(t, err, wrong)
		assert.True(t, strings.HasPrefix(err.Error(), "train: config: watcher"), "%v", err)
	}
}
