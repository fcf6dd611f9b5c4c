package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/caught"
	"gputrain/internal/gputest"
	"gputrain/internal/ranks/transport"
	"gputrain/model"
	"gputrain/pipeline"
	"gputrain/run/setup"
	"gputrain/run/train"
	"gputrain/state"
	"gputrain/state/checkpoint"
)

// The code tells the cause, whichever stage it came from.
func TestExitCodes(t *testing.T) {
	stage := func(err error) error {
		return fmt.Errorf("pipeline: step 3: %w", &pipeline.StageError{Stage: 1, Doing: "forward of part 1, microbatch 0", Err: err})
	}
	for want, errs := range map[int][]error{
		1: {errors.New("x"), stage(gpu.ErrDeviceLost), stage(fmt.Errorf("%w: x", gpu.ErrTimeout)), stage(pipeline.ErrLinkClosed)},
		2: {
			usageError{errors.New("x")},
			&setup.UsageError{Err: errors.New("x")}, &train.DirError{Err: errors.New("x")}, &train.ChangedError{},
			&state.ProductError{},
		},
		3:   {fmt.Errorf("%w: signal", train.ErrStopped)},
		4:   {&train.DivergedError{}},
		5:   {gpu.ErrOutOfMemory, stage(gpu.ErrOutOfMemory), stage(&gpu.LimitError{}), &state.MemoryError{}},
		6:   {&checkpoint.SaveError{Err: errors.New("x")}, &setup.ModelError{Err: errors.New("x")}, &model.NotFiniteError{}, &train.GoneError{}},
		7:   {gpu.ErrNoAdapter},
		9:   {fmt.Errorf("reduce: %w", &transport.Error{Err: context.DeadlineExceeded})},
		137: {codeError(137)},
		8:   {&checkpoint.SaveError{Err: &caught.Panic{}}, stage(&caught.Panic{}), fmt.Errorf("%w: %w", train.ErrStopped, &caught.Panic{})},
	} {
		for _, err := range errs {
			assert.Equal(t, want, exitCode(err), "%v", err)
		}
	}
}

// A rank that mpirun ends, since another has died, has saved what it could. That nobody has asked the job to stop is what its code tells launch.
func TestExitCodeOfEndedRanks(t *testing.T) {
	for signal, codes := range map[os.Signal][2]int{syscall.SIGTERM: {3, 9}, os.Interrupt: {3, 3}} {
		err := fmt.Errorf("%w: %w", train.ErrStopped, &train.SignalError{Signal: signal})
		t.Setenv("GPUTRAIN_LAUNCH", "")
		assert.Equal(t, codes[0], exitCode(err), "%v, alone", signal)
		t.Setenv("GPUTRAIN_LAUNCH", "a directory")
		assert.Equal(t, codes[1], exitCode(err), "%v, launched", signal)
	}
}

// A run that is told to stop before its devices are open has stopped like any other.
func TestStoppedBeforeDevicesAreOpen(t *testing.T) {
	gputest.Adapters(t)
	text := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(text, []byte(strings.Repeat("a text. ", 1000)), 0o666))
	for _, stages := range []string{"1", "2"} {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(errors.New("signal terminated"))
		c := trainCmd{RunDir: filepath.Join(t.TempDir(), "run"), Progress: "none"}
		c.Set = []string{"data.text=" + text, "pipeline.stages=" + stages}
		err := c.Run(ctx)
		require.ErrorIs(t, err, train.ErrStopped, "stages: %s", stages)
		assert.Equal(t, 3, exitCode(err))
		assert.Equal(t, "train: stopped: signal terminated; no step has been made, so there was nothing to save", err.Error())
	}
}
