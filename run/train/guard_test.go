package train

import (
	"bytes"
	"math"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
	"gputrain/optim"
	"gputrain/state"
	"gputrain/state/checkpoint"
)

// Limits are made of exactly the last Window updates made up to three steps back, whatever is known of later ones.
func TestSpikeLimits(t *testing.T) {
	c := guard{SpikeConfig{Loss: 2, GradNorm: 3, Window: 4, Patience: 10}}
	var g *checkpoint.Guard
	feed := func(step int64, loss, norm float64) {
		before := g
		var kept checkpoint.Guard
		if before != nil {
			kept = *before
			kept.Loss = append([]float64(nil), before.Loss...)
		}
		g = c.after(g, state.Metrics{Step: step, Loss: loss, GradNorm: norm, Finite: true})
		if before != nil {
			assert.Equal(t, kept.Loss, before.Loss, "what a checkpoint may have is not touched")
		}
	}
	for step, loss := range []float64{1, 2, 3, 4} {
		assert.Equal(t, state.Limits{}, c.limits(g, int64(step)+1))
		feed(int64(step)+1, loss, 10)
	}
	assert.Equal(t, state.Limits{}, c.limits(g, 6), "step 4 is too near")
	// The losses 1, 2, 3, 4: mean 2.5, variance 5/3. Norms of 10 deviate by nothing, which counts as a hundredth.
	want := state.Limits{Loss: 2.5 + 2*math.Sqrt(5.0/3), GradNorm: 10 + 3*0.1}
	near := func(want, got state.Limits) {
		assert.InDelta(t, want.Loss, got.Loss, 1e-12)
		assert.InDelta(t, want.GradNorm, got.GradNorm, 1e-12)
		assert.Zero(t, got.UpdateNorm)
	}
	near(want, c.limits(g, 7))
	feed(5, 1000, 10)
	feed(6, -1000, 10)
	near(want, c.limits(g, 7))
	assert.Greater(t, c.limits(g, 8).Loss, 1000.0)
	assert.Len(t, g.Steps, 6)

	// What is left out does not count.
	last := *g
	g = c.after(g, state.Metrics{Step: 7, Loss: 1e9, Finite: true, Spikes: optim.SpikeLoss})
	g = c.after(g, state.Metrics{Step: 8, Loss: math.NaN()})
	assert.Equal(t, last.Loss, g.Loss)
	assert.EqualValues(t, 1, g.Spikes)
	assert.EqualValues(t, 1, g.InARow)
	feed(9, 1, 10)
	assert.Zero(t, g.InARow)
	assert.EqualValues(t, 1, g.Spikes)

	assert.Nil(t, guard{}.after(nil, state.Metrics{Finite: true}), "nothing is kept where nothing is asked for")
}

// spiked is tinyRun with limits on everything that no step of its own exceeds.
func spiked(t testing.TB, dir string) Config {
	c := tinyRun(t, dir)
	c.Spikes = SpikeConfig{Loss: 40, GradNorm: 40, UpdateNorm: 40, Window: 3, Patience: 2}
	return c
}

// A spike is left out on the device, said and logged as it was measured; a run that is stopped and goes on decides as one that is not.
func TestSpikesAreLeftOut(t *testing.T) {
	dev := gputest.Device(t)
	dir := t.TempDir()
	var out bytes.Buffer
	c := spiked(t, dir)
	c.Output, c.Hooks = &out, []Hook{jolt(t, 9)}
	ran(t, dev, c)
	steps := stepsIn(t, dir)
	for i, m := range steps {
		if i == 8 {
			continue
		}
		assert.Empty(t, m.LeftOut, "step %d", i+1)
		assert.NotZero(t, m.UpdateNorm)
	}
	assert.Contains(t, steps[8].LeftOut, "loss")
	assert.EqualValues(t, 1, steps[8].Spikes)
	assert.Greater(t, float64(steps[8].Loss), 10.0, "what was measured is logged")
	assert.EqualValues(t, 1, steps[11].Spikes)
	assert.Zero(t, steps[11].Skipped)
	assert.Contains(t, out.String(), "step 9: loss ")
	assert.Contains(t, out.String(), "the update is left out (1 in a row, 2 is the end)")
	record, err := checkpoint.ReadRecord(checkpoint.OS, filepath.Join(dir, checkpointsDir, checkpoint.DirName(12)))
	require.NoError(t, err)
	assert.EqualValues(t, 1, record.Run.Guard.Spikes)
	want := outcomeOf(t, dir)

	for _, stop := range []int64{2, 6, 7, 8, 9, 10} {
		dir := t.TempDir()
		c := spiked(t, dir)
		ctx, hook := stopAt(StepBegin, stop)
		c.Hooks = []Hook{hook, jolt(t, 9)}
		_, err := Run(ctx, dev, c)
		require.ErrorIs(t, err, ErrStopped)
		c.Hooks = []Hook{jolt(t, 9)}
		resumed := ran(t, dev, c)
		require.NotZero(t, resumed.Resumed)
		require.Equal(t, want, outcomeOf(t, dir), "stopped at step %d", stop)
	}
}

func TestSpikesInARowEndTheRun(t *testing.T) {
	c := spiked(t, t.TempDir())
	c.Hooks = []Hook{jolt(t, 8, 9)}
	result, err := Run(t.Context(), gputest.Device(t), c)
	var diverged *DivergedError
	require.ErrorAs(t, err, &diverged)
	assert.EqualValues(t, 9, diverged.Step)
	assert.EqualValues(t, 2, diverged.Skipped)
	assert.NotZero(t, diverged.Spikes&optim.SpikeLoss)
	assert.ErrorContains(t, err, "raise the spike limits")
	assert.Equal(t, 4, result.Reason.ExitCode())
	assert.EqualValues(t, 6, newestStep(t, c.Dir))
}
