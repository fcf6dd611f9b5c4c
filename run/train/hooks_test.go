package train

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/state"
)

// on is a hook for one event.
func on(kind eventKind, step int64, do func(ctx context.Context, e Event) error) Hook {
	return HookFunc(func(ctx context.Context, e Event) error {
		if e.Kind == kind && e.Step == step {
			return do(ctx, e)
		}
		return nil
	})
}

func TestHooksAreCalledInOrder(t *testing.T) {
	var seen []string
	note := func(name string) Hook {
		return HookFunc(func(_ context.Context, e Event) error {
			if e.Kind != Stepped { // metrics come late
				seen = append(seen, fmt.Sprintf("%s%d@%d", name, e.Kind, e.Step))
			}
			assert.NotNil(t, e.State)
			return nil
		})
	}
	for every, evaluated := range map[int64][]eventKind{0: nil, 1: {Evaluating, Evaluated}, 9: {Evaluating, Evaluated}} {
		seen = nil
		c := tinyRun(t, t.TempDir())
		c.Steps, c.EvalEvery, c.SampleEvery = 1, every, 0
		c.Hooks = []Hook{note("a"), note("b")}
		ran(t, gputest.Device(t), c)
		var want []string
		at := func(step int, kinds ...eventKind) {
			for _, kind := range kinds {
				want = append(want, fmt.Sprintf("a%d@%d", kind, step), fmt.Sprintf("b%d@%d", kind, step))
			}
		}
		at(0, Started, StepBegin)
		at(1, slices.Concat([]eventKind{StepEnd}, evaluated, []eventKind{Sampled, Saved, Ended})...)
		assert.Equal(t, want, seen, every)
	}
}

func TestHooksMayReplaceMetrics(t *testing.T) {
	c := tinyRun(t, t.TempDir())
	c.Hooks = []Hook{
		HookFunc(func(_ context.Context, e Event) error {
			switch e.Kind {
			case Stepped:
				e.Metrics.Loss = Number(1000 + e.Metrics.Step)
			case Evaluated:
				e.Eval.Loss = 7
			case Sampled:
				e.Sample.Text = "mine"
			}
			return nil
		}),
		HookFunc(func(_ context.Context, e Event) error {
			if e.Kind == Stepped {
				assert.EqualValues(t, 1000+e.Metrics.Step, e.Metrics.Loss, "the second sees what the first has written")
			}
			return nil
		}),
	}
	result := ran(t, gputest.Device(t), c)
	steps, evals, err := ReadMetrics(c.Dir)
	require.NoError(t, err)
	assert.EqualValues(t, 1003, steps[2].Loss)
	assert.EqualValues(t, 7, evals[0].Loss)
	assert.Contains(t, outcomeOf(t, c.Dir).samples, `"mine"`)
	assert.Less(t, result.Loss, 6.0, "the run goes by what was measured")
	assert.NotEqual(t, 7.0, result.BestLoss)
}

// A state that is replaced by one loaded from a checkpoint of the same step changes no bit, and none of its metrics is lost.
func TestHooksMayReplaceTheState(t *testing.T) {
	dev := gputest.Device(t)
	want := undisturbed(t, dev)
	c := tinyRun(t, t.TempDir())
	c.Hooks = []Hook{on(StepBegin, 5, func(ctx context.Context, e Event) error { // whose metrics are not read
		return replaceByItsCopy(ctx, t, dev, e)
	})}
	ran(t, dev, c)
	assert.Equal(t, want, outcomeOf(t, c.Dir))

	c = tinyRun(t, t.TempDir())
	c.Hooks = []Hook{on(StepBegin, 4, func(ctx context.Context, e Event) error {
		assert.ErrorContains(t, e.Replace(ctx, nil), "found none")
		fresh, err := state.Create(ctx, dev, c.State)
		require.NoError(t, err)
		defer fresh.Release()
		return e.Replace(ctx, fresh)
	})}
	_, err := Run(t.Context(), dev, c)
	assert.ErrorContains(t, err, "found one of step 0, wanted step 4")
	assert.Error(t, Event{}.Replace(t.Context(), nil))
}

// What a hook ends is saved, and goes on as if nothing had been.
func TestHookErrorsEndTheRunCleanly(t *testing.T) {
	dev := gputest.Device(t)
	want := undisturbed(t, dev)
	wrong := errors.New("no more")
	for i, at := range []struct {
		kind eventKind
		step int64
	}{{StepBegin, 5}, {StepEnd, 5}, {Stepped, 6}, {Evaluating, 4}, {Evaluated, 4}, {Sampled, 6}, {Saved, 6}} {
		for k, cause := range []error{wrong, fmt.Errorf("had enough: %w", ErrStopped)} {
			if testing.Short() && (i+k)%2 == 1 {
				continue
			}
			c := tinyRun(t, t.TempDir())
			var after []eventKind
			var ended Event
			c.Hooks = []Hook{
				on(at.kind, at.step, func(context.Context, Event) error { after = []eventKind{at.kind}; return cause }),
				HookFunc(func(_ context.Context, e Event) error {
					if after != nil {
						after = append(after, e.Kind)
					}
					ended = e
					return nil
				}),
			}
			result, err := Run(t.Context(), dev, c)
			require.ErrorIs(t, err, cause, "%v", at)
			reason := kindFailed
			if cause != wrong {
				reason = KindStopped
			}
			assert.Equal(t, reason, result.Reason)
			assert.Equal(t, []eventKind{at.kind, Ended}, after, "told of the end alone")
			assert.Equal(t, reason, ended.Reason)
			assert.ErrorIs(t, ended.Err, cause)
			assert.Equal(t, result.Step, newestStep(t, c.Dir), "saved")
			c.Hooks = nil
			ran(t, dev, c)
			assert.Equal(t, want, outcomeOf(t, c.Dir), "%v", at)
		}
	}
	c := tinyRun(t, t.TempDir())
	c.Hooks = []Hook{HookFunc(func(_ context.Context, e Event) error {
		if e.Kind == Ended {
			return wrong
		}
		return nil
	})}
	result, err := Run(t.Context(), dev, c)
	assert.ErrorIs(t, err, wrong)
	assert.Equal(t, kindFailed, result.Reason)
	assert.EqualValues(t, 12, newestStep(t, c.Dir))
}

// A state of another model is refused: the run could not go on from its checkpoints.
func TestHooksMayNotReplaceTheModel(t *testing.T) {
	dev := gputest.Device(t)
	c := tinyRun(t, t.TempDir())
	c.Hooks = []Hook{on(Started, 0, func(ctx context.Context, e Event) (err error) {
		config := e.State.(*state.TrainState).Config()
		config.Definition, err = model.NewGPT2(model.GPT2Config{Layers: 2, Heads: 2, Width: 16, Vocab: 256, Context: 16})
		require.NoError(t, err)
		other, err := state.Create(ctx, dev, config)
		require.NoError(t, err)
		defer other.Release()
		return e.Replace(ctx, other)
	})}
	_, err := Run(t.Context(), dev, c)
	require.ErrorContains(t, err, "another model")

	// The tokens that its answers end with make a model no other one.
	c.Dir, c.State.Ends = t.TempDir(), []int32{1, 2}
	c.Hooks = []Hook{on(Started, 0, func(ctx context.Context, e Event) error {
		config := e.State.(*state.TrainState).Config()
		raw, err := model.ConfigEnding(config.Definition, "F32", config.Ends)
		require.NoError(t, err)
		config.Definition, err = model.ParseConfig(raw) // as a checkpoint has it
		require.NoError(t, err)
		other, err := state.Create(ctx, dev, config)
		require.NoError(t, err)
		return e.Replace(ctx, other)
	})}
	ran(t, dev, c)
	c.Hooks = []Hook{nil}
	_, err = Run(t.Context(), dev, c)
	require.ErrorContains(t, err, "hook 0: found none")
}
