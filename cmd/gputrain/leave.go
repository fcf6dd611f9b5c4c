package main

import (
	"context"
	"sync/atomic"
	"time"

	"gputrain/train"
)

// leavePatience is how long a run that has made no step may take to end at a signal: with what it does to the end of a second.
const leavePatience = 800 * time.Millisecond

// leaveEarly calls leave where a run that is asked to end before its first step is still there after a time: in a driver, say, which nobody can break
// off. It has nothing that is not saved. begun tells that a step has begun; the run calls ended when it is over.
func leaveEarly(ctx context.Context, begun *atomic.Bool, patience time.Duration, leave func(err error)) (ended func()) {
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-over:
		case <-time.After(patience):
			if !begun.Load() {
				leave(train.Stopping(ctx, context.Cause(ctx)))
			}
		}
	})
	return func() {
		stop()
		close(over)
	}
}
