package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"gputrain/gpu"
	"gputrain/pipeline"
	"gputrain/state"
	"gputrain/train"
)

// The code tells the cause, whichever stage it came from.
func TestExitCodes(t *testing.T) {
	stage := func(err error) error {
		return fmt.Errorf("pipeline: step 3: %w", &pipeline.StageError{Stage: 1, Doing: "forward of part 1, microbatch 0", Err: err})
	}
	for want, errs := range map[int][]error{
		exitFailure:    {errors.New("x"), stage(gpu.ErrDeviceLost), stage(fmt.Errorf("%w: x", gpu.ErrTimeout)), stage(pipeline.ErrLinkClosed)},
		exitUsage:      {usageError{errors.New("x")}},
		exitStopped:    {fmt.Errorf("%w: signal", train.ErrStopped)},
		exitDiverged:   {&train.DivergedError{}},
		exitMemory:     {gpu.ErrOutOfMemory, stage(gpu.ErrOutOfMemory), stage(&gpu.LimitError{}), &pipeline.MemoryError{}},
		exitCheckpoint: {&state.SaveError{Err: errors.New("x")}, modelError{errors.New("x")}},
		exitNoAdapter:  {gpu.ErrNoAdapter},
	} {
		for _, err := range errs {
			assert.Equal(t, want, exitCode(err), "%v", err)
		}
	}
}
