//go:build unix

package mpi

import (
	"context"
	"time"

	"gputrain/internal/ranks/transport"
)

// call is one under way.
type call struct {
	operation string
	awaits    int // a rank, or all
	number    int // of a call of all ranks, from 1 on
}

// all ranks are awaited.
const all = -1

// enter begins a call, which others can then ask for.
func (r *ranks) enter(ctx context.Context, operation string, awaits int) (*call, error) {
	r.mu.Lock()
	c := &call{operation: operation, awaits: awaits}
	failure, closing := r.failure, r.closing
	if failure == nil && !closing {
		if awaits == all {
			r.entered++
			c.number = r.entered
		}
		r.calls = append(r.calls, c)
	}
	r.mu.Unlock()
	switch {
	case failure != nil:
		return nil, failure.During(operation)
	case closing:
		return nil, r.blame(operation, r.rank, transport.ErrClosed)
	case ctx.Err() != nil:
		defer r.leave(c)
		return nil, r.fail(c, r.rank, context.Cause(ctx))
	}
	return c, nil
}

func (r *ranks) leave(c *call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, other := range r.calls {
		if other == c {
			r.calls = append(r.calls[:i], r.calls[i+1:]...)
			return
		}
	}
}

// leftPatience is how long a message of a rank that has left may be on its way.
var leftPatience = 2 * time.Second

// await waits for a request of a call.
func (r *ranks) await(ctx context.Context, c *call, over <-chan ended) (count int, err error) {
	var patience <-chan time.Time
	for {
		rank, leaving := r.gone(c)
		if rank >= 0 && patience == nil {
			patience = time.After(leftPatience)
		}
		select {
		case e := <-over:
			if e.err != nil {
				return 0, r.fail(c, c.awaits, e.err)
			}
			return e.count, nil
		case <-r.failed:
			return 0, r.failure.During(c.operation)
		case <-leaving:
		case <-patience:
			return 0, r.fail(c, rank, transport.ErrLeft)
		case <-ctx.Done():
			return 0, r.late(ctx, c)
		}
	}
}

// gone is a rank that a call awaits although it has left, or negative. The channel is closed when that may change.
func (r *ranks) gone(c *call) (rank int, leaving <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for rank, entered := range r.left {
		if c.awaits == rank || c.awaits == all && entered < c.number {
			return rank, r.leaving
		}
	}
	return -1, r.leaving
}

func (r *ranks) blame(operation string, rank int, err error) *transport.Error {
	return &transport.Error{Operation: operation, Rank: rank, Host: r.hosts[rank], By: r.rank, Err: err}
}

// fail ends all calls of all ranks. It returns the first failure, which may be another's.
func (r *ranks) fail(c *call, rank int, err error) error {
	if rank == all {
		rank = r.rank
	}
	e := r.blame(c.operation, rank, err)
	if first := r.set(e); first != e {
		return first.During(c.operation)
	}
	r.tell(e)
	return e
}

// set keeps the first failure.
func (r *ranks) set(e *transport.Error) *transport.Error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failure == nil {
		r.failure = e
		close(r.failed)
	}
	return r.failure
}
