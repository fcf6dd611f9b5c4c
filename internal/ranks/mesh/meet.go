package mesh

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// SetTimeout sets how long this rank waits for another beside what that is expected to take, where New did not know it yet.
func (m *Mesh) SetTimeout(d time.Duration) { m.config.Timeout = d }

// Expect sets how long another rank may be at work before it comes to where it is waited for; waits last as long, and the timeout.
func (m *Mesh) Expect(work time.Duration) { m.expected.Store(int64(work)) }

// Patience is how long this rank waits for another now.
func (m *Mesh) Patience() time.Duration { return m.config.Timeout + time.Duration(m.expected.Load()) }

// Unbounded makes waits last as long as all other ranks answer, whatever they are at, until after is called: what they do takes as long as it takes. A wait ends
// where one has failed or left, and where one has not answered for the timeout.
func (m *Mesh) Unbounded() (after func()) {
	m.reaches.Store(true)
	return func() { m.reaches.Store(false) }
}

// Close takes leave of the other ranks; after an error that they do not know of it does not wait for them.
func (m *Mesh) Close() error { return m.ranks.Close() }

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
func (m *Mesh) within(ctx context.Context, what string) (context.Context, context.CancelFunc) {
	if m.reaches.Load() {
		return m.whileReached(ctx, what)
	}
	limit := m.Patience()
	return context.WithTimeoutCause(ctx, limit, &WaitError{limit, what})
}

// whileReached is a context for a wait that ends once another rank has not answered for the timeout.
func (m *Mesh) whileReached(ctx context.Context, what string) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		answered := time.Now()
		again := time.NewTicker(max(m.config.Timeout/reachedAgain, time.Millisecond))
		defer again.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-again.C:
			}
			if m.ranks.Reach(ctx) == nil {
				answered = time.Now()
			} else if silent := time.Since(answered); silent > m.config.Timeout {
				cancel(&WaitError{silent.Round(time.Millisecond), what})
				return
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}

// reachedAgain is how often others are asked within the timeout: a machine that is at work may miss one or the other.
const reachedAgain = 10

// failed is an error of the transport, said by this rank; where the wait was too long that is what it says first.
func (m *Mesh) failed(ctx context.Context, what string, err error) error {
	var late *WaitError
	switch {
	case errors.As(err, &late):
	case errors.As(context.Cause(ctx), &late):
		err = fmt.Errorf("%w: %w", late, err)
	default:
		err = fmt.Errorf("%s: %w", what, err)
	}
	return fmt.Errorf("cluster: %s: %w", m.Name(m.rank), err)
}

// Gather gives every rank what all have given, in the order of their ranks. An error is a *PeerError where another rank has failed and said so
// instead.
func (m *Mesh) Gather(ctx context.Context, what string, own []byte) ([][]byte, error) {
	if m == nil {
		return [][]byte{own}, nil
	}
	return m.meet(ctx, message{what: what, payload: own})
}

// Tell is a Gather of values, which travel as JSON.
func Tell[T any](ctx context.Context, m *Mesh, what string, own T) ([]T, error) {
	raw, err := json.Marshal(own)
	if err != nil {
		return nil, fmt.Errorf("cluster: %s: %w", what, err)
	}
	texts, err := m.Gather(ctx, what, raw)
	if err != nil {
		return nil, err
	}
	all := make([]T, len(texts))
	for rank, text := range texts {
		if err := json.Unmarshal(text, &all[rank]); err != nil {
			return nil, fmt.Errorf("cluster: %s: %s: %w", m.Name(rank), what, err)
		}
	}
	return all, nil
}

// GatherRow is a Gather of all ranks that gives what those of this replica have given, in their order.
func (m *Mesh) GatherRow(ctx context.Context, what string, own []byte) ([][]byte, error) {
	all, err := m.Gather(ctx, what, own)
	if err != nil {
		return nil, err
	}
	row := m.Row()
	return all[row[0]:][:len(row)], nil
}

// Share gives every rank what rank 0 tells.
func Share[T any](ctx context.Context, m *Mesh, what string, own T) (T, error) {
	if !m.Leads() {
		own = *new(T)
	}
	all, err := Tell(ctx, m, what, own)
	if err != nil {
		return own, err
	}
	return all[0], nil
}

// Note sets what this rank tells the others beside, whenever all meet from now on.
func (m *Mesh) Note(b []byte) { m.note = b }

// Notes are those of all ranks when they met last, and Met is when that was.
func (m *Mesh) Notes() [][]byte { return m.notes }

// Met is when all ranks have met last.
func (m *Mesh) Met() time.Time { return m.met }

// meet exchanges messages. Where any rank is to end all learn the same reason.
func (m *Mesh) meet(ctx context.Context, own message) ([][]byte, error) {
	switch {
	case m.broken != nil:
		return nil, m.broken
	case m.ended != nil:
		return nil, m.ended
	}
	what := own.what + " of all ranks"
	waiting, done := m.within(context.WithoutCancel(ctx), what)
	defer done()
	own.note = m.note
	raw, err := m.ranks.Gather(waiting, own.bytes())
	if err != nil {
		m.broken = m.failed(waiting, what, err)
		return nil, m.broken
	}
	all := make([]message, len(raw))
	for rank, one := range raw {
		if all[rank], err = parse(one); err != nil {
			m.broken = fmt.Errorf("cluster: %s: %s: %w", m.Name(rank), own.what, err)
			return nil, m.broken
		}
		m.notes[rank] = all[rank].note
	}
	m.met = time.Now()
	if worst := worstOf(all); worst >= 0 {
		of := all[worst]
		peer := &PeerError{Rank: worst, Host: m.Host(worst), Text: of.text, Code: of.code, Weight: of.weight}
		if of.weight == Fatal {
			m.ended = peer
		}
		return nil, peer
	}
	out := make([][]byte, len(all))
	for rank, of := range all {
		if of.what != own.what {
			m.broken = fmt.Errorf("cluster: %s has come to %s, %s to %s: a bug of gputrain", m.Name(m.rank), own.what, m.Name(rank), of.what)
			return nil, m.broken
		}
		out[rank] = of.payload
	}
	return out, nil
}

// EndWith takes note of an error that all ranks have found alike, each by itself: they end with it.
func (m *Mesh) EndWith(err error) { m.ended = err }

// Together does what all ranks do at the same time, without meeting: after an error nothing else will succeed.
func (m *Mesh) Together(do func() error) error {
	if m.broken != nil {
		return m.broken
	}
	err := do()
	if err != nil {
		m.broken = err
	}
	return err
}
