package train

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
	"gputrain/state"
	"gputrain/state/checkpoint"
)

func TestIntervals(t *testing.T) {
	due := func(v intervals, last int64) (steps []int64) {
		for step := range last + 1 {
			if saveDueAt(v, step) {
				steps = append(steps, step)
			}
		}
		return steps
	}
	assert.Empty(t, due(Every(0), 20), "at the end only, which is the run's to know")
	assert.Equal(t, []int64{7, 14}, due(Every(7), 20))
	assert.Equal(t, []int64{2, 4, 6, 10, 15, 20}, due(intervals{{Every: 2, Until: 7}, {Every: 5}}, 21), "up to its end an interval decides alone")
	assert.Equal(t, []int64{3, 6, 8, 10}, due(intervals{{Every: 3, Until: 6}, {Every: 2, Until: 10}}, 30), "nothing beyond the last end")
	c := tinyRun(t, t.TempDir())
	c.SaveEvery = intervals{{Every: 5}, {Every: 6}}
	assert.ErrorContains(t, c.Validate(), "train: config: train.save_every: found [{every: 5}, {every: 6}], wanted an until in each interval but the last")
}

func checkpointNames(t *testing.T, dir string) []string {
	t.Helper()
	found, err := os.ReadDir(filepath.Join(dir, checkpointsDir))
	require.NoError(t, err)
	var names []string
	for _, f := range found {
		names = append(names, f.Name())
	}
	return names
}

// What a stop saves bridges the time until the next checkpoint: a run that was stopped at every third step keeps the checkpoints that one
// keeps which never was, and they have the same bytes.
func TestStopsLeaveNoCheckpoints(t *testing.T) {
	dev := gputest.Device(t)
	config := func(dir string) Config {
		c := tinyRun(t, dir)
		c.Keep, c.SaveEvery = 100, intervals{{Every: 2, Until: 4}, {Every: 4}}
		return c
	}
	whole := t.TempDir()
	ran(t, dev, config(whole))
	want := []string{checkpoint.DirName(2), checkpoint.DirName(4), checkpoint.DirName(8), checkpoint.DirName(12)}
	require.Equal(t, want, checkpointNames(t, whole))

	dir := t.TempDir()
	for at := int64(1); at < 12; at += 3 { // 1, 4, 7, 10
		ctx, hook := stopAt(StepBegin, at)
		c := config(dir)
		c.Hooks = []Hook{hook}
		_, err := Run(ctx, dev, c)
		require.ErrorIs(t, err, ErrStopped)
		record, err := checkpoint.ReadRecord(checkpoint.OS, filepath.Join(dir, checkpointsDir, checkpoint.DirName(newestStep(t, dir))))
		require.NoError(t, err)
		assert.Equal(t, !slices.Contains(want, checkpoint.DirName(record.Step)), record.Run.Temporary, "stopped at step %d", record.Step)
	}
	ran(t, dev, config(dir))
	require.Equal(t, want, checkpointNames(t, dir))
	for _, step := range []int64{2, 4, 8, 12} {
		assert.True(t, maps.Equal(checkpointFiles(t, whole, step), checkpointFiles(t, dir, step)), "step %d", step)
	}
}

// Temporary checkpoints come by time; each goes when the next is committed, and none is left at the end. They change nothing else.
func TestTemporaryByTime(t *testing.T) {
	dev := gputest.Device(t)
	want := undisturbed(t, dev)
	dir := t.TempDir()
	c := tinyRun(t, dir)
	c.SaveInterval = "0.000000001s"
	saved, most := []int64{}, 0
	c.Hooks = []Hook{HookFunc(func(_ context.Context, e Event) error {
		if e.Kind != Saved {
			return nil
		}
		saved = append(saved, e.Step)
		temporary := 0
		for _, name := range checkpointNames(t, dir) {
			if r, err := checkpoint.ReadRecord(checkpoint.OS, filepath.Join(dir, checkpointsDir, name)); err == nil && r.Run.Temporary {
				temporary++
			}
		}
		most = max(most, temporary)
		return nil
	})}
	c.SaveAsync = false
	ran(t, dev, c)
	assert.Equal(t, []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}, saved, "each step once, those of save_every among them")
	assert.Equal(t, 2, most, "the newest, and the best")
	assert.Equal(t, []string{checkpoint.DirName(9), checkpoint.DirName(12)}, checkpointNames(t, dir))
	require.Equal(t, want, outcomeOf(t, dir))

	c.SaveInterval, c.Fresh, saved = "1h", true, nil
	ran(t, dev, c)
	assert.Equal(t, []int64{3, 6, 9, 12}, saved, "an hour has not passed")
}

// slowDisk keeps every checkpoint waiting until it is let go, and counts those that are written at once.
type slowDisk struct {
	checkpoint.FileSystem
	begun chan string
	free  chan struct{}
}

func (s slowDisk) MkdirAll(dir string) error {
	if strings.HasSuffix(dir, ".tmp") {
		s.begun <- filepath.Base(dir)
		<-s.free
	}
	return s.FileSystem.MkdirAll(dir)
}

// Steps go on while a checkpoint is written, up to the next one, which waits for it.
func TestStepsGoOnWhileACheckpointIsWritten(t *testing.T) {
	disk := slowDisk{FileSystem: checkpoint.OS, begun: make(chan string, 8), free: make(chan struct{})}
	c := tinyRun(t, t.TempDir())
	c.State.FS = disk
	var order []string
	c.Hooks = []Hook{HookFunc(func(_ context.Context, e Event) error {
		switch {
		case e.Kind == Saved:
			order = append(order, filepath.Base(e.Checkpoint))
		case e.Kind == StepBegin && e.Step == 5:
			// Two steps since the first save began, and it is not done.
			assert.Equal(t, checkpoint.DirName(3)+".tmp", <-disk.begun)
			assert.Empty(t, order)
			go func() {
				time.Sleep(50 * time.Millisecond) // until the run waits, most likely
				assert.Empty(t, disk.begun, "one at a time")
				close(disk.free)
			}()
		case e.Kind == StepBegin && e.Step == 6:
			assert.Equal(t, []string{checkpoint.DirName(3)}, order, "the save of step 6 waits for that of step 3")
		}
		return nil
	})}
	ran(t, gputest.Device(t), c)
	assert.Equal(t, []string{checkpoint.DirName(3), checkpoint.DirName(6), checkpoint.DirName(9), checkpoint.DirName(12)}, order)
}

// failing refuses to make one checkpoint's directory.
type failing struct {
	checkpoint.FileSystem
	name string
}

func (f failing) MkdirAll(dir string) error {
	if filepath.Base(dir) == f.name+".tmp" {
		return errors.New("the disk is gone")
	}
	return f.FileSystem.MkdirAll(dir)
}

// An error of a save reaches the run, also one of the last save or of one that a stop, an error of another kind or a divergence overtakes.
func TestErrorsOfSavesAreNotLost(t *testing.T) {
	dev := gputest.Device(t)
	for name, step := range map[string]int64{"in between": 6, "the last": 12} {
		c := tinyRun(t, t.TempDir())
		c.State.FS = failing{checkpoint.OS, checkpoint.DirName(step)}
		result, err := Run(t.Context(), dev, c)
		require.ErrorContains(t, err, "the disk is gone", name)
		assert.Equal(t, kindCheckpoint, result.Reason, name)
		assert.Equal(t, 6, result.Reason.ExitCode(), name)
		assert.EqualValues(t, step-3, newestStep(t, c.Dir), name)
	}
	// That of a stop.
	stopping, hook := stopAt(StepBegin, 4)
	c := tinyRun(t, t.TempDir())
	c.State.FS, c.Hooks = failing{failing{checkpoint.OS, checkpoint.DirName(4)}, checkpoint.DirName(5)}, []Hook{hook}
	result, err := Run(stopping, dev, c)
	require.ErrorContains(t, err, "the disk is gone")
	assert.Equal(t, kindCheckpoint, result.Reason)
	assert.EqualValues(t, 3, newestStep(t, c.Dir))
	for name, hook := range map[string]func(cancel context.CancelCauseFunc) error{
		"a stop":          func(cancel context.CancelCauseFunc) error { cancel(errors.New("enough")); return nil },
		"another failure": func(context.CancelCauseFunc) error { return errors.New("no more") },
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		disk := slowDisk{FileSystem: failing{checkpoint.OS, checkpoint.DirName(3)}, begun: make(chan string, 8), free: make(chan struct{})}
		c := tinyRun(t, t.TempDir())
		c.State.FS = disk
		c.Hooks = []Hook{HookFunc(func(_ context.Context, e Event) error {
			if e.Kind != StepBegin || e.Step != 4 {
				return nil
			}
			go func() {
				time.Sleep(20 * time.Millisecond)
				close(disk.free)
			}()
			return hook(cancel)
		})}
		_, err := Run(ctx, dev, c)
		require.ErrorContains(t, err, "the disk is gone", name)
		require.ErrorIs(t, err, checkpoint.Err, name)
	}
}

// The checkpoint of the best evaluation stays, however old.
func TestBestIsKept(t *testing.T) {
	dev := gputest.Device(t)
	c := tinyRun(t, t.TempDir())
	c.SaveEvery, c.EvalEvery, c.Keep, c.KeepBest = Every(1), 1, 1, 3
	type measured struct {
		step int64
		loss float64
	}
	var evals []measured
	c.Hooks = []Hook{HookFunc(func(_ context.Context, e Event) error {
		if e.Kind == Evaluated {
			evals = append(evals, measured{e.Eval.Step, float64(e.Eval.Loss)})
		}
		if e.Kind == StepBegin && e.Step >= 6 { // from here on it gets worse
			p := e.State.(*state.TrainState).Params()
			return p.Write("ln_f.weight", slices.Repeat([]float32{20 * float32(e.Step)}, 16))
		}
		return nil
	})}
	ran(t, dev, c)
	slices.SortFunc(evals, func(a, b measured) int {
		if a.loss < b.loss {
			return -1
		}
		return 1
	})
	wanted := map[string]bool{checkpoint.DirName(12): true}
	for _, e := range evals[:3] {
		wanted[checkpoint.DirName(e.step)] = true
	}
	require.Less(t, evals[0].step, int64(7), "it did get worse")
	names := checkpointNames(t, c.Dir)
	assert.Len(t, names, len(wanted))
	for _, name := range names {
		assert.True(t, wanted[name], name)
	}
}
