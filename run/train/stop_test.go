package train

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/run/data"
	"gputrain/state"
	"gputrain/state/checkpoint"
)

func TestTimeLimit(t *testing.T) {
	dev := gputest.Device(t)
	want := undisturbed(t, dev)
	c := tinyRun(t, t.TempDir())
	c.TimeLimit = "0.000000001s" // has passed before a kernel is compiled
	result, err := Run(t.Context(), dev, c)
	require.ErrorIs(t, err, ErrStopped)
	assert.Equal(t, kindTimeLimit, result.Reason)
	assert.Zero(t, result.Step)

	c.TimeLimit = "0.3s" // of which much passes between two steps
	c.Hooks = []Hook{on(StepBegin, 2, func(ctx context.Context, _ Event) error {
		<-ctx.Done()
		return nil
	})}
	result, err = Run(t.Context(), dev, c)
	var limit *TimeLimitError
	require.ErrorAs(t, err, &limit)
	require.ErrorIs(t, err, ErrStopped)
	assert.ErrorContains(t, err, "train: stopped: time limit of 300ms")
	assert.Equal(t, kindTimeLimit, result.Reason)
	assert.Equal(t, 3, result.Reason.ExitCode())
	assert.Equal(t, result.Step, newestStep(t, c.Dir))
	c.TimeLimit, c.Hooks = "", nil
	ran(t, dev, c)
	assert.Equal(t, want, outcomeOf(t, c.Dir))
}

// A mistake is never taken for the end of a run, whether or not somebody wants to stop it.
func TestKinds(t *testing.T) {
	over, cancel := context.WithCancelCause(context.Background())
	cancel(errors.New("enough"))
	late, release := context.WithTimeoutCause(context.Background(), 0, &TimeLimitError{Limit: time.Hour})
	defer release()
	for _, c := range []struct {
		ctx  context.Context
		err  error
		want Kind
		code int
	}{
		{t.Context(), nil, kindDone, 0},
		{t.Context(), errors.New("a mistake"), kindFailed, 1},
		{over, errors.New("a mistake"), kindFailed, 1},
		{late, errors.New("a mistake"), kindFailed, 1},
		{t.Context(), context.Canceled, kindFailed, 1},
		{over, fmt.Errorf("evaluate: %w", context.Canceled), KindStopped, 3},
		{over, context.Cause(over), KindStopped, 3},
		{over, context.DeadlineExceeded, kindFailed, 1},
		{late, fmt.Errorf("evaluate: %w", context.DeadlineExceeded), kindTimeLimit, 3},
		{late, context.Cause(late), kindTimeLimit, 3},
		{over, &DivergedError{}, kindDiverged, 4},
		{over, &state.MemoryError{}, kindMemory, 5},
		{over, &gpu.LimitError{}, kindMemory, 5},
		{over, &checkpoint.SaveError{Err: errors.New("full")}, kindCheckpoint, 6},
		{over, fmt.Errorf("step 3: %w", gpu.ErrDeviceLost), KindDeviceLost, 1},
		// A disk without room, whatever was to be written: tokens of a text, a report.
		{over, fmt.Errorf("data: %w", &data.CacheError{Err: syscall.ENOSPC}), kindCheckpoint, 6},
		{over, fmt.Errorf("train: write: %w", &os.PathError{Op: "write", Path: "report.md", Err: syscall.ENOSPC}), kindCheckpoint, 6},
		{over, &data.CacheError{Err: syscall.ENOTDIR}, kindFailed, 1},
	} {
		err := c.err
		if stop := stopOf(c.ctx, err); stop != nil {
			err = stop
		}
		kind := KindOf(err)
		assert.Equal(t, c.want, kind, "%v", c.err)
		assert.Equal(t, c.code, kind.ExitCode(), "%v", c.err)
	}
}

// What a launcher starts again: deaths by a signal, lost ranks, and what has no code of its own. All else would only come again.
func TestWhatMayGoOn(t *testing.T) {
	var again []int
	for code := -1; code < 12; code++ {
		if MayGoOn(code) {
			again = append(again, code)
		}
	}
	assert.Equal(t, []int{1, 9, 10, 11}, again)
	assert.True(t, MayGoOn(128+9))
}

// What a kind is called stands in reports and in sessions.jsonl.
func TestKindsAreCalled(t *testing.T) {
	assert.Equal(t, "[done error stopped time limit diverged out of memory checkpoint problem error error error device lost error]",
		fmt.Sprint([]Kind{kindDone, KindUsage, KindStopped, kindTimeLimit, kindDiverged, kindMemory, kindCheckpoint, kindNoAdapter, KindBug, KindRankLost, KindDeviceLost, kindFailed}))
}
