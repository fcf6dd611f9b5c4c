package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"gputrain/transport"
)

// DefaultTimeout is how long a rank waits for another, beside what that is expected to take.
const DefaultTimeout = 5 * time.Minute

// Config is how ranks treat each other.
type Config struct {
	Timeout time.Duration // 0: DefaultTimeout
	// Code is the exit code that belongs to an error, which all ranks end with; nil: 1.
	Code func(error) int
}

// Group is the ranks of a run, as one of them uses them. Its methods that take a context are called by all ranks in the same order, from one goroutine.
// They do not end with their context: a rank that is to stop says so where all meet.
type Group struct {
	ranks    transport.Ranks
	config   Config
	expected atomic.Int64 // nanoseconds that another rank may be at work before it comes
	ended    error        // what all ranks have agreed to end with at once
	agreed   bool         // all have come to the end, and know why
	broken   error        // a call that failed: no other will succeed
}

// New makes a group of ranks, which it closes.
func New(ranks transport.Ranks, c Config) *Group {
	if c.Timeout == 0 {
		c.Timeout = DefaultTimeout
	}
	if c.Code == nil {
		c.Code = func(error) int { return 1 }
	}
	return &Group{ranks: ranks, config: c}
}

// Rank is which of Size this one is.
func (g *Group) Rank() int { return g.ranks.Rank() }

// Size is how many ranks there are.
func (g *Group) Size() int { return g.ranks.Size() }

// Host names the machine of a rank.
func (g *Group) Host(rank int) string { return g.ranks.Host(rank) }

// SetTimeout sets how long this rank waits for another beside what that is expected to take, where New did not know it yet.
func (g *Group) SetTimeout(d time.Duration) { g.config.Timeout = d }

// Expect sets how long another rank may be at work before it comes to where it is waited for; waits last as long, and the timeout.
func (g *Group) Expect(work time.Duration) { g.expected.Store(int64(work)) }

// Patience is how long this rank waits for another now.
func (g *Group) Patience() time.Duration { return g.config.Timeout + time.Duration(g.expected.Load()) }

// Close takes leave of the other ranks; after an error that they do not know of it does not wait for them.
func (g *Group) Close() error { return g.ranks.Close() }

// name is a rank for people.
func (g *Group) name(rank int) string { return transport.Name(rank, g.Host(rank)) }

// A WaitError says how long was waited for other ranks, and for what.
type WaitError struct {
	Waited time.Duration
	For    string // "the gradients of rank 2 on host x"
}

// Error names what did not come.
func (e *WaitError) Error() string { return fmt.Sprintf("waited %v for %s", e.Waited, e.For) }

// Unwrap says that it is the end of a wait.
func (e *WaitError) Unwrap() error { return context.DeadlineExceeded }

// within is a context for a wait, which ends in any case.
func (g *Group) within(ctx context.Context, what string) (context.Context, context.CancelFunc) {
	limit := g.Patience()
	return context.WithTimeoutCause(ctx, limit, &WaitError{limit, what})
}

// failed is an error of the transport, said by this rank; where the wait was too long that is what it says first.
func (g *Group) failed(ctx context.Context, what string, err error) error {
	var late *WaitError
	switch {
	case errors.As(err, &late):
	case errors.As(context.Cause(ctx), &late):
		err = fmt.Errorf("%w: %w", late, err)
	default:
		err = fmt.Errorf("%s: %w", what, err)
	}
	return fmt.Errorf("cluster: %s: %w", g.name(g.Rank()), err)
}

// Send and Receive are those of the ranks, for messages whose waits the caller ends.

// Send gives b to another rank; see transport.Ranks.
func (g *Group) Send(ctx context.Context, to int, tag transport.Tag, b []byte) error {
	return g.ranks.Send(ctx, to, tag, b)
}

// Receive fills b with the oldest message of another rank; see transport.Ranks.
func (g *Group) Receive(ctx context.Context, from int, tag transport.Tag, b []byte) error {
	return g.ranks.Receive(ctx, from, tag, b)
}

// Gather gives every rank what all have given, in the order of their ranks. An error is a *PeerError where another rank has failed and said so
// instead.
func (g *Group) Gather(ctx context.Context, what string, own []byte) ([][]byte, error) {
	return g.meet(ctx, message{what: what, payload: own})
}

// Share gives every rank what rank 0 has.
func (g *Group) Share(ctx context.Context, what string, own []byte) ([]byte, error) {
	if g.Rank() != 0 {
		own = nil
	}
	all, err := g.Gather(ctx, what, own)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// meet exchanges messages. Where any rank is to end all learn the same reason.
func (g *Group) meet(ctx context.Context, own message) ([][]byte, error) {
	switch {
	case g.broken != nil:
		return nil, g.broken
	case g.ended != nil:
		return nil, g.ended
	}
	what := own.what + " of all ranks"
	waiting, done := g.within(context.WithoutCancel(ctx), what)
	defer done()
	raw, err := g.ranks.Gather(waiting, own.bytes())
	if err != nil {
		g.broken = g.failed(waiting, what, err)
		return nil, g.broken
	}
	all := make([]message, len(raw))
	for rank, one := range raw {
		if all[rank], err = parse(one); err != nil {
			g.broken = fmt.Errorf("cluster: %s: %s: %w", g.name(rank), own.what, err)
			return nil, g.broken
		}
	}
	if worst := worstOf(all); worst >= 0 {
		m := all[worst]
		peer := &PeerError{Rank: worst, Host: g.Host(worst), Text: m.text, Code: m.code, Weight: m.weight}
		if m.weight == Fatal {
			g.ended = peer
		}
		return nil, peer
	}
	out := make([][]byte, len(all))
	for rank, m := range all {
		if m.what != own.what {
			g.broken = fmt.Errorf("cluster: %s has come to %s, %s to %s: a bug of gputrain", g.name(g.Rank()), own.what, g.name(rank), m.what)
			return nil, g.broken
		}
		out[rank] = m.payload
	}
	return out, nil
}
