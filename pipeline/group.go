package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"gputrain/gpu"
	"gputrain/internal/caught"
)

// StageError says which stage a run failed at.
type StageError struct {
	Stage   int
	Where   string // the rank and host of a stage, where a pipeline lies on several: "rank 1 on host b"
	Adapter string
	Doing   string // what it was about: "forward of part 1, microbatch 3"
	Err     error
}

// Error names stage and adapter.
func (e *StageError) Error() string {
	return fmt.Sprintf("%s: %s: %v", stageName(e.Stage, e.Where, e.Adapter), e.Doing, e.Err)
}

// Unwrap is the cause: gpu.ErrDeviceLost, gpu.ErrTimeout, gpu.ErrOutOfMemory and others.
func (e *StageError) Unwrap() error { return e.Err }

func (s *stage) failed(doing string, err error) error {
	var already *StageError
	if err == nil || errors.As(err, &already) {
		return err
	}
	return &StageError{Stage: s.index, Where: s.where, Adapter: s.device.Adapter().String(), Doing: doing, Err: err}
}

// graceTime is how long the goroutines of a run that has failed are waited for. What has not come back by then is inside a driver.
const graceTime = 20 * time.Second

// group is the goroutines of one run: the first error ends the others, and so does it when none of them gets on.
type group struct {
	ctx      context.Context
	cancel   context.CancelCauseFunc
	wg       sync.WaitGroup
	patience time.Duration // with a group that stands still, and that of its devices beside
	grace    time.Duration // with one that has failed
	moves    atomic.Int64  // counts whatever shows that it gets on
	tasks    []*task
}

// task is one goroutine of a group.
type task struct {
	stage *stage
	doing string
	ended atomic.Bool
}

func newGroup(ctx context.Context, patience time.Duration) *group {
	g := &group{patience: patience, grace: graceTime}
	g.ctx, g.cancel = context.WithCancelCause(ctx)
	return g
}

// do runs f on a goroutine of its own; stage and doing are what its error is told with.
func (g *group) do(s *stage, doing string, f func() error) {
	t := &task{stage: s, doing: doing}
	g.tasks = append(g.tasks, t)
	g.wg.Go(func() {
		if err := caught.Do(f); err != nil {
			g.cancel(s.failed(doing, err))
		}
		t.ended.Store(true)
		g.moved()
	})
}

// moved says that the group gets on.
func (g *group) moved() { g.moves.Add(1) }

// wait waits for all and returns the first error. A group that stands still for longer than its patience has failed: culprit tells of whom all
// the others wait for in the end, nil where it cannot. After a failure wake is called, to end waits that the context does not; goroutines
// that have not ended in the time of grace are left, and the error is a *leftError.
func (g *group) wait(culprit func(late error) error, wake func()) error {
	ended := make(chan struct{})
	go func() {
		g.wg.Wait()
		close(ended)
	}()
	left := g.follow(ended, culprit)
	if left {
		wake()
		select {
		case <-ended:
			left = false
		case <-time.After(g.grace):
		}
	}
	err := context.Cause(g.ctx)
	g.cancel(nil)
	if left {
		return &leftError{err, ended}
	}
	return err
}

// follow waits until all have ended, or one has failed; then it is true.
func (g *group) follow(ended <-chan struct{}, culprit func(late error) error) bool {
	const looks = 16
	between := max(g.patience/looks, time.Millisecond)
	timer := time.NewTicker(between)
	defer timer.Stop()
	seen, still, patience := int64(-1), time.Duration(0), g.patience
	for {
		select {
		case <-ended:
			return false
		case <-g.ctx.Done():
			return true
		case <-timer.C:
		}
		if moves := g.moves.Load(); moves != seen {
			seen, still, patience = moves, 0, g.patience
			continue
		}
		still, patience = still+between, max(patience, g.patience+g.devicesPatience())
		if still >= patience {
			g.cancel(g.standstill(patience, culprit))
		}
	}
}

// devicesPatience is the most that any device has with what it was given.
func (g *group) devicesPatience() (most time.Duration) {
	for _, t := range g.tasks {
		if t.stage.device != nil {
			most = max(most, t.stage.device.Patience())
		}
	}
	return most
}

// standstill is the error of a group that does not get on.
func (g *group) standstill(patience time.Duration, culprit func(late error) error) error {
	late := fmt.Errorf("%w: nothing has got on for %s", gpu.ErrTimeout, patience)
	if err := culprit(late); err != nil {
		return err
	}
	for _, t := range g.tasks {
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
