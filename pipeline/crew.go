package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"gputrain/gpu"
	"gputrain/shaders/caught"
)

// StageError says which stage a run failed at.
type StageError struct {
	Stage   int
	Adapter string
	Doing   string // what it was about: "forward of part 1, microbatch 3"
	Err     error
}

// Error names stage and adapter.
func (e *StageError) Error() string {
	return fmt.Sprintf("stage %d (%s): %s: %v", e.Stage, e.Adapter, e.Doing, e.Err)
}

// Unwrap is the cause: gpu.ErrDeviceLost, gpu.ErrTimeout, gpu.ErrOutOfMemory and others.
func (e *StageError) Unwrap() error { return e.Err }

func (s *stage) failed(doing string, err error) error {
	var already *StageError
	if err == nil || errors.As(err, &already) {
		return err
	}
	return &StageError{Stage: s.index, Adapter: s.device.Adapter().String(), Doing: doing, Err: err}
}

// graceTime is how long the goroutines of a run that has failed are waited for. What has not come back by then is inside a driver.
const graceTime = 20 * time.Second

// crew is the goroutines of one run: the first error ends the others, and so does it when none of them gets on.
type crew struct {
	ctx      context.Context
	cancel   context.CancelCauseFunc
	wg       sync.WaitGroup
	patience time.Duration // with a crew that stands still
	grace    time.Duration // with one that has failed
	moves    atomic.Int64  // counts whatever shows that it gets on
	tasks    []*task
}

// task is one goroutine of a crew.
type task struct {
	stage *stage
	doing string
	ended atomic.Bool
}

func newCrew(ctx context.Context, patience time.Duration) *crew {
	c := &crew{patience: patience, grace: graceTime}
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	return c
}

// do runs f on a goroutine of its own; stage and doing are what its error is told with.
func (c *crew) do(s *stage, doing string, f func() error) {
	t := &task{stage: s, doing: doing}
	c.tasks = append(c.tasks, t)
	c.wg.Go(func() {
		if err := caught.Do(f); err != nil {
			c.cancel(s.failed(doing, err))
		}
		t.ended.Store(true)
		c.moved()
	})
}

// moved says that the crew gets on.
func (c *crew) moved() { c.moves.Add(1) }

// wait waits for all and returns the first error. A crew that stands still for as long as its patience has failed: culprit tells of whom all
// the others wait for in the end, nil where it cannot. After a failure wake is called, to end waits that the context does not; goroutines
// that have not ended in the time of grace are left, and the error is a *leftError.
func (c *crew) wait(culprit func(late error) error, wake func()) error {
	ended := make(chan struct{})
	go func() {
		c.wg.Wait()
		close(ended)
	}()
	left := c.follow(ended, culprit)
	if left {
		wake()
		select {
		case <-ended:
			left = false
		case <-time.After(c.grace):
		}
	}
	err := context.Cause(c.ctx)
	c.cancel(nil)
	if left {
		return &leftError{err, ended}
	}
	return err
}

// follow waits until all have ended, or one has failed; then it is true.
func (c *crew) follow(ended <-chan struct{}, culprit func(late error) error) bool {
	const looks = 16
	timer := time.NewTicker(max(c.patience/looks, time.Millisecond))
	defer timer.Stop()
	seen, still := int64(-1), 0
	for {
		select {
		case <-ended:
			return false
		case <-c.ctx.Done():
			return true
		case <-timer.C:
		}
		if moves := c.moves.Load(); moves != seen {
			seen, still = moves, 0
		} else if still++; still >= looks {
			c.cancel(c.standstill(culprit))
		}
	}
}

// standstill is the error of a crew that does not get on.
func (c *crew) standstill(culprit func(late error) error) error {
	late := fmt.Errorf("%w: nothing has got on for %s", gpu.ErrTimeout, c.patience)
	if err := culprit(late); err != nil {
		return err
	}
	for _, t := range c.tasks {
		if !t.ended.Load() {
			return t.stage.failed(t.doing, late)
		}
	}
	return late
}

// leftError is the error of a run some of whose goroutines have not come back: what they use cannot be released before they have ended.
type leftError struct {
	error
	ended <-chan struct{}
}

func (e *leftError) Unwrap() error { return e.error }
