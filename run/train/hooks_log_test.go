package train

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
	"gputrain/state/checkpoint"
)

// logHook is a hook that keeps a log.
type logHook struct {
	HookFunc
	sync func() error
}

func (h logHook) Sync() error { return h.sync() }

// A hook learns which steps have a line, and of histograms before they have: it may change them.
func TestHooksMayKeepLogs(t *testing.T) {
	c := tinyHistograms(t, t.TempDir())
	c.LogEvery = 5
	c.Watchers = []Watcher{{Name: "w", Match: "^params/wpe", Every: 4, Watch: largest}}
	var written []int64
	var counted []Histogram
	c.Hooks = []Hook{HookFunc(func(_ context.Context, e Event) error {
		if e.Written {
			assert.Equal(t, Stepped, e.Kind)
			written = append(written, e.Metrics.Step)
		}
		if e.Kind == Counted {
			e.Histograms[0].Name = "mine"
		}
		counted = append(counted, e.Histograms...)
		return nil
	})}
	ran(t, gputest.Device(t), c)
	steps := stepsIn(t, c.Dir)
	var lines []int64
	for _, m := range steps {
		lines = append(lines, m.Step)
	}
	assert.Equal(t, []int64{4, 5, 8, 10, 12}, lines)
	assert.Equal(t, lines, written)
	assert.Equal(t, histogramLines(t, c.Dir), counted)
	names := func(step int64) (n int) {
		for _, h := range counted {
			if h.Step == step && h.Name == "mine" {
				n++
			}
		}
		return n
	}
	assert.Equal(t, []int{1, 1, 1}, []int{names(5), names(10), names(12)})
}

// What a hook has been told of a step is durable before the checkpoint of the step is one, and what it cannot keep, no checkpoint knows.
func TestLogsOfHooksAreDurableFirst(t *testing.T) {
	c := tinyRun(t, t.TempDir())
	var seen, synced atomic.Int64
	h := logHook{sync: func() error { synced.Store(seen.Load()); return nil }}
	h.HookFunc = func(_ context.Context, e Event) error {
		switch e.Kind {
		case Stepped:
			seen.Store(e.Metrics.Step)
		case Saved:
			assert.GreaterOrEqual(t, synced.Load(), e.Step)
		}
		return nil
	}
	c.Hooks = []Hook{h}
	ran(t, gputest.Device(t), c)
	assert.EqualValues(t, 12, synced.Load())

	c = tinyRun(t, t.TempDir())
	full := errors.New("no space left on device")
	c.Hooks = []Hook{logHook{func(context.Context, Event) error { return nil }, func() error { return full }}}
	result, err := Run(t.Context(), gputest.Device(t), c)
	require.ErrorIs(t, err, full)
	require.ErrorIs(t, err, checkpoint.Err)
	assert.Equal(t, kindCheckpoint, result.Reason)
	kept, err := checkpoint.Store{FS: checkpoint.OS, Dir: filepath.Join(c.Dir, checkpointsDir)}.Steps()
	require.NoError(t, err)
	assert.Empty(t, kept)
}

// Histograms under way when the state is replaced are told of after the hook that replaces it, and none is lost.
func TestReplacingTheStateKeepsHistograms(t *testing.T) {
	dev := gputest.Device(t)
	c := tinyHistograms(t, t.TempDir())
	ran(t, dev, c)
	want := histogramText(t, c.Dir)

	c = tinyHistograms(t, t.TempDir())
	inside := false
	var told []int64
	c.Hooks = []Hook{HookFunc(func(ctx context.Context, e Event) error {
		assert.False(t, inside, "kind %d inside an event", e.Kind)
		if e.Kind == Counted {
			told = append(told, e.Histograms[0].Step)
		}
		if e.Kind != StepBegin || e.Step != 5 {
			return nil
		}
		inside = true
		defer func() { inside = false }()
		return replaceByItsCopy(ctx, t, dev, e)
	})}
	ran(t, dev, c)
	assert.Equal(t, want, histogramText(t, c.Dir))
	assert.Equal(t, []int64{5, 10, 12}, slices.Compact(told))
}
