package train

import (
	"context"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/internal/gputest"
	"gputrain/run/fit"
	"gputrain/state"
	"gputrain/state/checkpoint"
)

// countedTarget tells how the checkpoints of a run are taken, and has so much of the host free.
type countedTarget struct {
	oneDevice
	free  uint64
	taken *[]string
	held  *int // copies that are not released
}

func (c countedTarget) Plan(ctx context.Context, choices []state.Job, visit func(fit.Takes) (bool, error)) error {
	return c.oneDevice.Plan(ctx, choices, func(t fit.Takes) (bool, error) {
		t.Host.Free = c.free
		return visit(t)
	})
}

// takesOf is what a target plans for a run.
func takesOf(t *testing.T, on Target, c state.Config) (out fit.Takes) {
	job, err := state.NewJob(c)
	require.NoError(t, err)
	require.NoError(t, on.Plan(t.Context(), []state.Job{job}, func(found fit.Takes) (bool, error) {
		out = found
		return false, nil
	}))
	return out
}

func (c countedTarget) Create(ctx context.Context, s state.Config, params []buffers.Host) (State, error) {
	made, err := c.oneDevice.Create(ctx, s, params)
	return countedState{made.(*state.TrainState), c}, err
}

type countedState struct {
	*state.TrainState
	target countedTarget
}

func (c countedState) CopyToHost(ctx context.Context, run checkpoint.Run) (checkpoint.HostCopy, error) {
	*c.target.taken = append(*c.target.taken, "copied")
	if *c.target.held > 0 {
		*c.target.taken = append(*c.target.taken, "beside another")
	}
	out, err := c.TrainState.CopyToHost(ctx, run)
	*c.target.held++
	release := out.Release
	out.Release = func() {
		*c.target.held--
		release()
	}
	return out, err
}

func (c countedState) Stream(ctx context.Context, run checkpoint.Run, write func(checkpoint.HostCopy)) error {
	*c.target.taken = append(*c.target.taken, "streamed")
	return c.TrainState.Stream(ctx, run, write)
}

// A copy is taken where the plan has room for it, and only of one checkpoint at a time; else training waits, and says so once with both figures.
func TestCopiesAreTakenWhereTheyFit(t *testing.T) {
	dev := gputest.Device(t)
	c := tinyRun(t, "")
	wanted := takesOf(t, oneDevice{device: dev}, c.withDefaults().withRows(t.Context()).State).Host.Copy
	require.Greater(t, wanted, uint64(1000))
	var files []string
	for name, k := range map[string]struct {
		async bool
		free  uint64
		want  string
		said  int
	}{
		"room":    {true, wanted, "copied copied copied", 0},
		"unknown": {true, math.MaxUint64, "copied copied copied", 0},
		"no room": {true, wanted - 1, "streamed streamed streamed", 1},
		"waiting": {false, math.MaxUint64, "streamed streamed streamed", 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := tinyRun(t, t.TempDir())
			var out strings.Builder
			c.Output, c.Progress = &out, "plain"
			c.Steps, c.SaveEvery, c.SaveAsync = 6, Every(2), k.async
			var taken []string
			held := 0
			_, err := RunOn(t.Context(), countedTarget{oneDevice{device: dev}, k.free, &taken, &held}, c)
			require.NoError(t, err)
			assert.Equal(t, k.want, strings.Join(taken, " "))
			assert.Zero(t, held)
			assert.Equal(t, k.said, strings.Count(out.String(), "train.save_async: a copy of a checkpoint takes "), out.String())
			sum, err := checkpoint.Fingerprint(checkpoint.OS, c.Dir+"/checkpoints/step-00000006")
			require.NoError(t, err)
			files = append(files, sum)
			assert.Equal(t, files[0], sum, "the same bytes of files")
		})
	}
}
