package train

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/gputest"
)

// jolt multiplies a parameter for the length of some steps, on any number of stages: the loss of these is beyond all measure, and what comes after is not touched.
func jolt(t *testing.T, steps ...int64) Hook {
	const path = "ln_f.weight"
	var good []float32
	return HookFunc(func(ctx context.Context, e Event) error {
		if e.Kind != StepBegin && e.Kind != StepEnd || ctx.Err() != nil {
			return nil
		}
		params, _ := e.State.(treed).Trees()
		tree := params[slices.IndexFunc(params, func(tree *buffers.Tree) bool {
			_, ok := tree.Layout().Leaf(path)
			return ok
		})]
		switch {
		case e.Kind == StepEnd && good != nil:
			assert.NoError(t, tree.Write(path, good), "the update was left out, so that this is what was")
			good = nil
		case e.Kind == StepBegin && slices.Contains(steps, e.Step+1):
			var err error
			if good, err = tree.Read(ctx, path); err != nil {
				return err
			}
			bad := slices.Clone(good)
			for i := range bad {
				bad[i] *= 300
			}
			return tree.Write(path, bad)
		}
		return nil
	})
}

// A spike is left out on two stages as it is on one device: every file of the run is the same, and it is so when a run stops before the
// spike or behind it, and goes on cut otherwise.
func TestSpikesAreLeftOutOnStages(t *testing.T) {
	dev := gputest.Device(t)
	two := Pipelined([]*gpu.Device{dev, dev}, twoStages(t, tinyRun(t, t.TempDir()).State))
	run := func(dir string) Config {
		c := spiked(t, dir)
		c.Hooks = []Hook{jolt(t, 9)}
		return c
	}
	whole := run(t.TempDir())
	ran(t, dev, whole)
	want := leftBy(t, whole.Dir)

	staged := run(t.TempDir())
	_, err := RunOn(t.Context(), two, staged)
	require.NoError(t, err)
	steps := stepsIn(t, staged.Dir)
	for _, m := range steps {
		assert.Equal(t, m.Step == 9, m.LeftOut != "", "step %d: %s", m.Step, m.LeftOut)
		assert.Zero(t, m.Skipped, "it was finite")
	}
	assert.Contains(t, steps[8].LeftOut, "loss")
	requireSame(t, want, leftBy(t, staged.Dir))

	for stop, targets := range map[int64][2]Target{7: {oneDevice{device: dev}, two}, 10: {two, oneDevice{device: dev}}} {
		c := run(t.TempDir())
		ctx, hook := stopAt(StepBegin, stop)
		c.Hooks = append([]Hook{hook}, c.Hooks...)
		_, err := RunOn(ctx, targets[0], c)
		require.ErrorIs(t, err, ErrStopped)
		c.Hooks = []Hook{jolt(t, 9)}
		_, err = RunOn(t.Context(), targets[1], c)
		require.NoError(t, err)
		requireSame(t, want, leftBy(t, c.Dir))
	}
}
