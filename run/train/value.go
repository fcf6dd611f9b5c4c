package train

import (
	"context"
	"errors"
	"fmt"

	"gputrain/state"
)

// begins tells whether the run begins with a value.
func (c Config) begins() bool { return c.Value != nil && *c.Value != (state.Value{}) }

// begun is the step of the value that the run begins with; 0 without one.
func (c Config) begun() int64 {
	if !c.begins() {
		return 0
	}
	f, _ := c.Value.Fields() // withValue has looked
	return f.Step
}

// taken are the bytes that the value has of a device already.
func (c Config) taken() uint64 {
	if !c.begins() {
		return 0
	}
	params, optimizer, _ := c.Value.Size()
	return params + optimizer
}

// withValue completes the configuration by the value that the run begins with.
func (c Config) withValue() (Config, error) {
	if c.Value != nil && c.Ranks != nil && c.Ranks.Size() > 1 {
		return c, fmt.Errorf("train: config: value: found one beside %d ranks, wanted one process: Save it, and begin with its weights", c.Ranks.Size())
	}
	if !c.begins() {
		return c, nil
	}
	f, err := c.Value.Fields()
	switch {
	case err != nil:
		return c, fmt.Errorf("train: config: value: %w", err)
	case c.Params != nil || c.From != "":
		return c, errors.New("train: config: value: found one beside Params or From, wanted one place to begin at")
	case f.Step > c.Steps:
		return c, fmt.Errorf("train: config: value: is at step %d, wanted %d steps at most: With gives it another step", f.Step, c.Steps)
	}
	job, err := c.Value.Job(c.State)
	if err != nil {
		return c, fmt.Errorf("train: config: value: %w", err)
	}
	c.State = job.Config
	return c, nil
}

// dropValue gives back what a run was to begin with that goes on from a checkpoint, before that is loaded.
func (t *opening) dropValue() {
	if t.config.begins() {
		t.say("what it was given to begin with is released: %s", *t.config.Value)
		t.config.Value.Release()
	}
}

// leave hands the state at the end to the caller, who wants it.
func (t *trainer) leave(ctx context.Context) error {
	if t.config.Value == nil || t.state == nil {
		return nil
	}
	v, err := t.state.Value(context.WithoutCancel(ctx))
	if err != nil {
		return fmt.Errorf("train: value: %w", err)
	}
	*t.config.Value = v
	return nil
}
