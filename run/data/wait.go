package data

import (
	"context"
	"fmt"
	"time"
)

// slowAfter is how long Next waits in silence.
const slowAfter = 10 * time.Second

// closeWait is how long Close waits for a read under way. A read that hangs is left to itself.
const closeWait = 2 * time.Second

// TimeoutError says that a batch, or what a file holds when it is opened, was not there in time: the disk or the network behind it hangs.
type TimeoutError struct {
	Waited time.Duration
	State  State  // where the batch begins
	File   string // that was being opened; "": a batch was wanted
}

// Error names the batch or the file, and the time.
func (e *TimeoutError) Error() string {
	if e.File != "" {
		return fmt.Sprintf("data: open %q: nothing read within %v: the file is not readable that fast, or not at all", e.File, e.Waited)
	}
	return fmt.Sprintf("data: loader: epoch %d, position %d: no batch within %v: the files are not readable that fast, or not at all", e.State.Epoch, e.State.Position, e.Waited)
}

// wait takes a result from queue, and nothing when ctx ends.
func (l *Loader) wait(ctx context.Context, queue <-chan result) (result, error) {
	select {
	case r := <-queue:
		return r, nil
	default:
	}
	began, slow := time.Now(), time.NewTimer(slowAfter)
	defer slow.Stop()
	var timeout <-chan time.Time
	if l.config.Timeout > 0 {
		timer := time.NewTimer(l.config.Timeout)
		defer timer.Stop()
		timeout = timer.C
	}
	for {
		select {
		case r := <-queue:
			return r, nil
		case <-l.stopped.Done():
			return result{}, errClosed
		case <-ctx.Done():
			return result{}, ctx.Err()
		case <-timeout:
			l.err = &TimeoutError{Waited: l.config.Timeout, State: l.state}
			return result{}, l.err
		case <-slow.C:
			waited := time.Since(began)
			if l.config.Slow != nil {
				l.config.Slow(waited)
			}
			slow.Reset(waited)
		}
	}
}

// Close ends reading ahead; Next then returns an error. It waits for a read under way, but not for one that hangs.
func (l *Loader) Close() {
	l.stop()
	if l.done == nil && l.asked == nil {
		return
	}
	late := time.NewTimer(closeWait)
	defer late.Stop()
	select {
	case <-l.done: // nil where nothing is read ahead
	case <-l.asked: // nil where nothing is being read
		l.asked = nil
	case <-late.C:
	}
}
