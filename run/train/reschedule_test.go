package train

import (
	"bytes"
	"context"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/optim"
	"gputrain/run/record"
	"gputrain/state/checkpoint"
)

// scheduled is a plain tiny run of so many steps.
func scheduled(t *testing.T, dir string, steps int64, s optim.ScheduleConfig) Config {
	t.Helper()
	c := tinyRun(t, dir)
	c.Validation, c.Sample = nil, SampleConfig{}
	s.Steps, c.Steps = steps, steps
	c.State.Optimizer.Options.Schedule = s
	return c
}

// onTargets runs a test on one device and on two stages.
func onTargets(t *testing.T, test func(t *testing.T, run func(context.Context, Config) (Result, error))) {
	dev := gputest.Device(t)
	t.Run("one device", func(t *testing.T) {
		test(t, func(ctx context.Context, c Config) (Result, error) { return Run(ctx, dev, c) })
	})
	t.Run("two stages", func(t *testing.T) {
		test(t, func(ctx context.Context, c Config) (Result, error) {
			return RunOn(ctx, Pipelined([]*gpu.Device{dev, dev}, twoStages(t, c.State)), c)
		})
	})
}

// checkpointFiles are the files of the checkpoint of a step.
func checkpointFiles(t *testing.T, dir string, step int64) map[string]string {
	t.Helper()
	return textsIn(t, filepath.Join(dir, checkpointsDir, checkpoint.DirName(step)))
}

// Where the rate does not depend on the total, a run that was meant to be short ends with the bytes of one that was meant to be long.
func TestARescheduledRunIsExact(t *testing.T) {
	constant := optim.ScheduleConfig{Type: "constant", LearningRate: 1e-2}
	onTargets(t, func(t *testing.T, run func(context.Context, Config) (Result, error)) {
		long, dir := t.TempDir(), t.TempDir()
		_, err := run(t.Context(), scheduled(t, long, 12, constant))
		require.NoError(t, err)
		_, err = run(t.Context(), scheduled(t, dir, 5, constant))
		require.NoError(t, err)
		c := scheduled(t, dir, 12, constant)
		c.Reschedule = true
		result, err := run(t.Context(), c)
		require.NoError(t, err)
		assert.EqualValues(t, 5, result.Resumed)
		assert.True(t, maps.Equal(checkpointFiles(t, long, 12), checkpointFiles(t, dir, 12)))
	})
}

// From the step of the change on the rates are those of the new schedule, however often the run is stopped, and the change is decided once.
func TestReschedule(t *testing.T) {
	onTargets(t, func(t *testing.T, run func(context.Context, Config) (Result, error)) {
		dir := t.TempDir()
		_, err := run(t.Context(), scheduled(t, dir, 6, optim.ScheduleConfig{Type: "linear", LearningRate: 6e-3, LearningRateEnd: new(0.0)}))
		require.NoError(t, err)
		var out bytes.Buffer
		again := func(ctx context.Context, change bool, hooks ...Hook) (Result, error) {
			c := scheduled(t, dir, 12, optim.ScheduleConfig{Type: "linear", LearningRate: 24e-3, LearningRateEnd: new(0.0)})
			c.Reschedule, c.Hooks, c.Output = change, hooks, &out
			return run(ctx, c)
		}
		_, err = again(t.Context(), false)
		var changed *ChangedError
		require.ErrorAs(t, err, &changed)
		assert.ErrorContains(t, err, "--reschedule")

		// Stopped before there is a checkpoint of the new schedule, the decision still stands.
		ctx, hook := stopAt(Started, 6)
		_, err = again(ctx, true, hook)
		require.ErrorIs(t, err, ErrStopped)
		decided := "rescheduled at step 6: optimizer.options.schedule.learning_rate 0.006 -> 0.024, optimizer.options.schedule.steps 6 -> 12, train.steps 6 -> 12"
		assert.Contains(t, out.String(), decided)
		ctx, hook = stopAt(StepBegin, 8)
		_, err = again(ctx, false, hook)
		require.ErrorIs(t, err, ErrStopped)
		_, err = again(t.Context(), false)
		require.NoError(t, err)
		assert.Equal(t, 1, bytes.Count(out.Bytes(), []byte("rescheduled")))
		for _, name := range []string{runFile, reportFile} {
			text := textAt(t, dir, name)
			assert.Equal(t, 1, strings.Count(text, decided), name)
		}
		steps := stepsIn(t, dir)
		require.Len(t, steps, 12)
		for i, m := range steps {
			want := 6e-3 * (1 - float64(i)/6)
			if i >= 6 {
				want = 24e-3 * (1 - float64(i)/12)
			}
			assert.InDelta(t, want, float64(m.LearningRate), 1e-12, "step %d", m.Step)
		}

		// Another seed is another run, and a checkpoint of the new schedule is of no other.
		c := scheduled(t, dir, 20, optim.ScheduleConfig{Type: "linear", LearningRate: 24e-3, LearningRateEnd: new(0.0)})
		c.Reschedule, c.State.Seed = true, 5
		_, err = run(t.Context(), c)
		require.ErrorAs(t, err, &changed)
		assert.Equal(t, "train.seed", changed.Key)
		c.Settings, c.State.Seed, c.Reschedule = []record.Setting{{Key: "note", Value: 1}}, 11, false
		writeSettings(t, dir, c.Settings)
		_, err = run(t.Context(), c)
		require.ErrorIs(t, err, checkpoint.ErrMismatch)
	})
}

func TestRescheduleNeedsARun(t *testing.T) {
	dev, dir := gputest.Device(t), t.TempDir()
	c := scheduled(t, dir, 6, optim.ScheduleConfig{Type: "linear", LearningRate: 6e-3, LearningRateEnd: new(0.0)})
	c.Reschedule = true
	_, err := Run(t.Context(), dev, c)
	assert.ErrorContains(t, err, "found no checkpoint, wanted a run to go on with")
	c.Fresh = true
	_, err = Run(t.Context(), dev, c)
	assert.ErrorContains(t, err, "fresh and reschedule")
}
