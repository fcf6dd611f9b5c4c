package train

import (
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/internal/ranks/mesh"
	"gputrain/internal/ranks/transport"
	"gputrain/run/data"
	"gputrain/state"
)

// onStages runs c on n ranks in one process, where each two have a stage each of one model, with what change makes of configuration and target.
func onStages(t *testing.T, dev *gpu.Device, n int, c Config, change func(rank int, c *Config, target *pipelined) (Target, context.Context)) (results []Result, errs []error) {
	t.Helper()
	results, errs = make([]Result, n), make([]error, n)
	cut := twoStages(t, c.State)
	var all sync.WaitGroup
	for rank, ranks := range transport.Local(n) {
		c, target := c, pipelined{config: cut}
		c.Ranks = mesh.New(ranks, mesh.Config{Timeout: 30 * time.Second, Code: func(err error) int { return KindOf(err).ExitCode() }})
		require.NoError(t, c.Ranks.Divide([]int{0, 1}))
		target.devices = []*gpu.Device{gpu.DryOf(dev.Adapter(), dev.Limits()), gpu.DryOf(dev.Adapter(), dev.Limits())}
		target.devices[rank%2] = dev
		var on Target = target
		ctx := t.Context()
		if change != nil {
			on, ctx = change(rank, &c, &target)
		}
		all.Go(func() {
			results[rank], errs[rank] = RunOn(ctx, on, c)
			errs[rank] = errors.Join(errs[rank], c.Ranks.Close())
		})
	}
	all.Wait()
	return results, errs
}

// A run whose stages are on ranks of their own, first twice on four, which divide the update, and then once on two, leaves what it leaves on one device.
// It is stopped on the way by one rank, which has a stage of the second replica, and by rank 0 while only it knows of a signal and all draw a sample.
func TestStagesOnSeveralRanks(t *testing.T) {
	dev := gputest.Device(t)
	want := undisturbed(t, dev)
	c := tinyRun(t, t.TempDir())
	ctx, cancel := context.WithCancelCause(t.Context())
	results, errs := onStages(t, dev, 4, c, func(rank int, c *Config, target *pipelined) (Target, context.Context) {
		c.State.ShardOptimizer = true
		if rank != 3 {
			return *target, t.Context()
		}
		c.Batches = batchesOf(*c, func(n int) error {
			if n == 5 {
				cancel(errors.New("a signal"))
			}
			return nil
		})
		return *target, ctx
	})
	for rank, err := range errs {
		require.ErrorIs(t, err, ErrStopped, "rank %d", rank)
		assert.ErrorContains(t, err, "a signal")
		assert.EqualValues(t, 4, results[rank].Step)
	}
	assert.ErrorContains(t, errs[0], "rank 3 on host ")
	require.EqualValues(t, 4, newestStep(t, c.Dir))

	stopped, hook := stopAt(StepEnd, 6)
	results, errs = onStages(t, dev, 2, c, func(rank int, c *Config, target *pipelined) (Target, context.Context) {
		if rank == 0 {
			c.Hooks = []Hook{hook}
			return *target, stopped
		}
		return *target, t.Context()
	})
	for rank, err := range errs {
		require.ErrorIs(t, err, ErrStopped, "rank %d", rank)
		assert.EqualValues(t, 4, results[rank].Resumed)
		assert.EqualValues(t, 6, results[rank].Step)
	}
	require.EqualValues(t, 6, newestStep(t, c.Dir))

	_, errs = onStages(t, dev, 2, c, nil)
	require.NoError(t, errors.Join(errs...))
	sameOutcome(t, want, outcomeOf(t, c.Dir))
	lines := stepsIn(t, c.Dir)
	assert.Len(t, lines[2].Cluster.PassesMS, 4)
	assert.Nil(t, lines[8].Cluster, "nothing is added up")
}

// unreadable is a target on which evaluations fail before they begin.
type unreadable struct{ pipelined }

func (u unreadable) Create(ctx context.Context, c state.Config, params []buffers.Host) (State, error) {
	s, err := u.pipelined.Create(ctx, c, params)
	return unreadableState{s}, err
}

type unreadableState struct{ State }

func (unreadableState) BatchLosses(context.Context, *data.Evaluation) ([]state.BatchLoss, error) {
	return nil, errors.New("a broken disk")
}

// A rank that cannot do its part of what a replica does together ends all, which are at it: by an error that names it.
func TestARankWithoutItsText(t *testing.T) {
	dev := gputest.Device(t)
	c := tinyRun(t, t.TempDir())
	c.Sample.Tokens = 0
	_, errs := onStages(t, dev, 2, c, func(rank int, _ *Config, target *pipelined) (Target, context.Context) {
		if rank == 1 {
			return unreadable{*target}, t.Context()
		}
		return *target, t.Context()
	})
	for rank, err := range errs {
		assert.ErrorContains(t, err, "a broken disk", "rank %d", rank)
	}
	assert.ErrorContains(t, errs[0], "rank 1 (")
	assert.EqualValues(t, 3, newestStep(t, c.Dir))
}

// Where no rank has all tensors, what wants all of them is refused before anything is trained.
func TestWatchersOfStagesOnRanks(t *testing.T) {
	dev := gputest.Device(t)
	c := tinyRun(t, t.TempDir())
	c.HistogramEvery = 5
	_, errs := onStages(t, dev, 2, c, nil)
	for rank, err := range errs {
		assert.ErrorContains(t, err, "histogram_every: 5, watchers: 0, wanted none where stages are on several ranks", "rank %d", rank)
	}
	assert.NoDirExists(t, filepath.Join(c.Dir, checkpointsDir))
}
