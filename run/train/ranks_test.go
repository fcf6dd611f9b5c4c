package train

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
	"gputrain/internal/ranks/mesh"
	"gputrain/internal/ranks/transport"
	"gputrain/run/data"
	"gputrain/state/checkpoint"
)

// onRanks runs c on n ranks in one process, each with what change makes of it, and returns how each ended.
func onRanks(t *testing.T, dev *gpu.Device, n int, c Config, change func(rank int, c *Config) context.Context) (results []Result, errs []error) {
	t.Helper()
	return ranksOn(t, slices.Repeat([]Target{oneDevice{device: dev}}, n), c, change)
}

// ranksOn is onRanks on any targets, one for each rank.
func ranksOn(t *testing.T, targets []Target, c Config, change func(rank int, c *Config) context.Context) (results []Result, errs []error) {
	t.Helper()
	results, errs = make([]Result, len(targets)), make([]error, len(targets))
	var all sync.WaitGroup
	for rank, ranks := range transport.Local(len(targets)) {
		c := c
		c.Ranks = mesh.New(ranks, mesh.Config{Timeout: 30 * time.Second, Code: func(err error) int { return KindOf(err).ExitCode() }})
		ctx := t.Context()
		if change != nil {
			ctx = change(rank, &c)
		}
		all.Go(func() {
			results[rank], errs[rank] = RunOn(ctx, targets[rank], c)
			errs[rank] = errors.Join(errs[rank], c.Ranks.Close())
		})
	}
	all.Wait()
	return results, errs
}

// sameOutcome compares what two runs have left, without printing files.
func sameOutcome(t *testing.T, want, found outcome) {
	t.Helper()
	for name, text := range want.checkpoint {
		assert.True(t, text == found.checkpoint[name], "%s differs", name)
	}
	assert.Len(t, found.checkpoint, len(want.checkpoint))
	assert.Equal(t, want.metrics, found.metrics)
	assert.Equal(t, want.samples, found.samples)
	assert.Equal(t, want.rollouts, found.rollouts)
}

// batchesOf are a run's own batches, whole; before is called before each.
func batchesOf(c Config, before func(n int) error) func(data.State) (BatchSource, error) {
	return func(from data.State) (BatchSource, error) {
		l, err := data.NewLoader(c.Train, data.LoaderConfig{
			Context: c.State.Definition.Context(), Batch: c.State.Batch * c.State.Microbatches, Seed: c.State.Seed, State: from,
		})
		return &watched{Loader: l, before: before}, err
	}
}

type watched struct {
	*data.Loader
	n      int
	before func(n int) error
}

func (w *watched) Next(ctx context.Context) (data.Batch, error) {
	w.n++
	if err := w.before(w.n); err != nil {
		return data.Batch{}, err
	}
	return w.Loader.Next(ctx)
}

// A run that one of four ranks stops goes on alone, and then on three, of which one's data fails: all end at the same step for the same reason, and in the
// end nothing tells it from a run that was never disturbed.
func TestRanksMayChange(t *testing.T) {
	dev := gputest.Device(t)
	want := undisturbed(t, dev)
	c := tinyRun(t, t.TempDir())
	ctx, cancel := context.WithCancelCause(t.Context())
	results, errs := onRanks(t, dev, 4, c, func(rank int, c *Config) context.Context {
		if rank != 2 {
			return t.Context()
		}
		c.Batches = batchesOf(*c, func(n int) error {
			if n == 5 {
				cancel(errors.New("a signal"))
			}
			return nil
		})
		return ctx
	})
	for rank, err := range errs {
		require.ErrorIs(t, err, ErrStopped, "rank %d", rank)
		assert.ErrorContains(t, err, "a signal")
		assert.Equal(t, KindStopped, results[rank].Reason)
		assert.EqualValues(t, 4, results[rank].Step)
	}
	assert.ErrorContains(t, errs[0], "rank 2 on host ")
	assert.EqualValues(t, 4, newestStep(t, c.Dir))

	two := c
	two.Hooks = []Hook{on(StepEnd, 7, func(context.Context, Event) error { return ErrStopped })}
	_, err := Run(t.Context(), dev, two)
	require.ErrorIs(t, err, ErrStopped)
	assert.EqualValues(t, 7, newestStep(t, c.Dir))

	results, errs = onRanks(t, dev, 3, c, func(rank int, c *Config) context.Context {
		if rank == 1 {
			c.Batches = batchesOf(*c, func(n int) error {
				if n == 2 {
					return errors.New("a broken disk")
				}
				return nil
			})
		}
		return t.Context()
	})
	for rank, err := range errs {
		assert.ErrorContains(t, err, "a broken disk", "rank %d", rank)
		assert.Equal(t, kindFailed, results[rank].Reason)
	}
	assert.EqualValues(t, 8, newestStep(t, c.Dir), "what was reached is saved")

	_, errs = onRanks(t, dev, 3, c, nil)
	require.NoError(t, errors.Join(errs...))
	sameOutcome(t, want, outcomeOf(t, c.Dir))
}

// What rank 0 alone does may fail: a hook, a log, a save. All ranks end with its reason, and its code.
func TestRanksFailTogether(t *testing.T) {
	dev := gputest.Device(t)
	for name, of := range map[string]struct {
		change func(c *Config)
		text   string
		reason Kind
		saved  int64
	}{
		"a hook": {func(c *Config) {
			c.Hooks = []Hook{on(Evaluating, 4, func(context.Context, Event) error { return errors.New("no more") })}
		}, "train: hook: no more", kindFailed, 4},
		"a save":  {func(c *Config) { c.State.FS = noRename{checkpoint.OS} }, "no rename", kindCheckpoint, 0},
		"numbers": {func(c *Config) { c.State.Optimizer.Options.Schedule.LearningRate = 1e38 }, "train: diverged", kindDiverged, 3},
	} {
		t.Run(name, func(t *testing.T) {
			c := tinyRun(t, t.TempDir())
			if name == "numbers" {
				of.change(&c)
			}
			results, errs := onRanks(t, dev, 2, c, func(rank int, c *Config) context.Context {
				if rank == 0 && name != "numbers" {
					of.change(c)
				}
				return t.Context()
			})
			for rank, err := range errs {
				require.ErrorContains(t, err, of.text, "rank %d", rank)
				assert.Equal(t, of.reason, results[rank].Reason, "rank %d", rank)
			}
			if of.saved > 0 {
				assert.EqualValues(t, of.saved, newestStep(t, c.Dir))
			}
		})
	}
}

// noRename is a file system that can write and not commit.
type noRename struct{ checkpoint.FileSystem }

func (noRename) Rename(string, string) error { return errors.New("no rename") }

// Ranks that are not of one run, or do not see one directory, end before anything is trained, and name who differs.
func TestRanksMustAgree(t *testing.T) {
	dev := gputest.Device(t)
	defer func(n int) { probeTries = n }(probeTries)
	probeTries = 2
	other := t.TempDir()
	for text, change := range map[string]func(c *Config){
		"train.seed: found 12, wanted that of rank 0 on host ": func(c *Config) { c.State.Seed = 12 },
		"data (fingerprint of the text): found other, wanted ": func(c *Config) { c.Fingerprint = "other" },
		"does not find in " + other + " what rank 0 on host ":  func(c *Config) { c.Dir = other },
		"batch: 0, want at least 1":                            func(c *Config) { c.State.Batch = 0 },
		"histogram_every: 5, watchers: 0, wanted none":         func(c *Config) { c.State.ShardOptimizer, c.HistogramEvery = true, 5 },
	} {
		c := tinyRun(t, t.TempDir())
		_, errs := onRanks(t, dev, 3, c, func(rank int, c *Config) context.Context {
			if rank == 2 {
				change(c)
			}
			return t.Context()
		})
		for rank, err := range errs {
			require.ErrorContains(t, err, text, "rank %d", rank)
			if rank < 2 {
				assert.ErrorContains(t, err, "rank 2 on host ")
			}
		}
		assert.NoDirExists(t, filepath.Join(c.Dir, checkpointsDir))
	}
}

// A rank that is gone, or whose device is, ends the others in finite time, by an error that names it. What was saved stays.
func TestRanksThatAreLost(t *testing.T) {
	dev := gputest.Device(t)
	host, err := os.Hostname()
	require.NoError(t, err)
	there := regexp.QuoteMeta("rank 1 (" + host + "): ")
	for name, want := range map[string]string{
		"leaves": there + "it has left", "stands still": there + "it was waited for in vain",
		"loses its device": there + "state: step 6: [^\n]*device lost: adapter " + regexp.QuoteMeta(dev.Adapter().String()) + ": by a test$",
	} {
		t.Run(name, func(t *testing.T) {
			c := tinyRun(t, t.TempDir())
			c.Sample.Tokens = 0
			other, err := gpu.Open(t.Context(), dev.Adapter(), gpu.Options{})
			require.NoError(t, err)
			defer other.Release()
			over := make(chan struct{})
			errs := make([]error, 2)
			var all sync.WaitGroup
			for rank, ranks := range transport.Local(2) {
				c, on := c, dev
				g := mesh.New(ranks, mesh.Config{Timeout: time.Second})
				c.Ranks = g
				if rank == 1 {
					on = other
					c.Batches = batchesOf(c, func(n int) error {
						switch {
						case n < 6:
						case name == "leaves":
							return errors.Join(g.Close(), errors.New("has left"))
						case name == "loses its device":
							other.Lose("by a test")
						default:
							g.Expect(0)
							<-over
						}
						return nil
					})
				} else {
					c.Hooks = []Hook{HookFunc(func(_ context.Context, e Event) error {
						g.Expect(0) // not minutes
						return nil
					})}
				}
				all.Go(func() {
					if rank == 0 {
						defer close(over)
					}
					_, errs[rank] = Run(t.Context(), on, c)
					errs[rank] = errors.Join(errs[rank], g.Close())
				})
			}
			all.Wait()
			require.Error(t, errs[0])
			require.Regexp(t, want, errs[0].Error())
			assert.Error(t, errs[1])
			assert.NotErrorIs(t, errs[0], ErrStopped)
			assert.EqualValues(t, 3, newestStep(t, c.Dir))
		})
	}
}
