package transport

import (
	"bytes"
	"context"
	"os"
	"slices"
	"sync"
)

// Local makes n ranks inside this process, for tests. Every call waits for its counterpart, so that what relies on messages being kept
// somewhere stands still here and not only on slow networks.
func Local(n int) []Ranks {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	w := &localWorld{host: host, letters: map[letterbox]chan letter{}, failed: make(chan struct{})}
	ranks := make([]Ranks, n)
	for i := range n {
		w.left = append(w.left, make(chan struct{}))
		ranks[i] = &local{world: w, rank: i}
	}
	return ranks
}

// localWorld is what all ranks of a process share.
type localWorld struct {
	host string

	mu      sync.Mutex
	letters map[letterbox]chan letter
	left    []chan struct{} // closed when the rank closes
	round   *round          // the call of all ranks under way
	failure *Error
	failed  chan struct{} // closed when there is a failure
}

type letterbox struct {
	from, to int
	tag      Tag
}

// letter is a message whose sender waits.
type letter struct {
	b     []byte
	taken chan struct{}
}

// round is a call that all ranks make.
type round struct {
	given   [][]byte
	came    []bool
	missing int
	all     chan struct{} // closed when none is missing
}

type local struct {
	world *localWorld
	rank  int
}

func (l *local) Rank() int       { return l.rank }
func (l *local) Size() int       { return len(l.world.left) }
func (l *local) Host(int) string { return l.world.host }

func (l *local) Send(ctx context.Context, to int, tag Tag, b []byte) error {
	if err := l.ready(ctx, "send", to, tag); err != nil {
		return err
	}
	taken := make(chan struct{})
	select {
	case l.world.route(l.rank, to, tag) <- letter{b, taken}:
		<-taken // at once: b may be reused then
		return nil
	case <-l.world.failed:
		return l.world.failure.During("send")
	case <-l.world.left[to]:
		return l.world.fail(l.blame("send", to, ErrLeft))
	case <-ctx.Done():
		return l.world.fail(ended(ctx, l, "send", to))
	}
}

func (l *local) Receive(ctx context.Context, from int, tag Tag, b []byte) error {
	if err := l.ready(ctx, "receive", from, tag); err != nil {
		return err
	}
	select {
	case m := <-l.world.route(from, l.rank, tag):
		defer close(m.taken)
		if len(m.b) != len(b) {
			return l.world.fail(l.blame("receive", from, WrongLength(len(m.b), len(b))))
		}
		copy(b, m.b)
		return nil
	case <-l.world.failed:
		return l.world.failure.During("receive")
	case <-l.world.left[from]:
		return l.world.fail(l.blame("receive", from, ErrLeft))
	case <-ctx.Done():
		return l.world.fail(ended(ctx, l, "receive", from))
	}
}

func (l *local) Gather(ctx context.Context, own []byte) ([][]byte, error) {
	if err := l.ready(ctx, "gather", -1, 0); err != nil {
		return nil, err
	}
	w := l.world
	w.mu.Lock()
	r := w.join(l, own)
	leaving, gone := w.leaver(r)
	w.mu.Unlock()
	if gone {
		return nil, w.fail(l.blame("gather", leaving, ErrLeft))
	}
	select {
	case <-r.all:
		return r.copies(), nil
	case <-w.failed:
		return nil, w.failure.During("gather")
	case <-ctx.Done():
		w.mu.Lock()
		awaited := slices.Index(r.came, false)
		w.mu.Unlock()
		if awaited < 0 { // they came as the context ended
			return r.copies(), nil
		}
		return nil, w.fail(ended(ctx, l, "gather", awaited))
	}
}

// copies is what all have given, for one rank to keep.
func (r *round) copies() [][]byte {
	all := make([][]byte, len(r.given))
	for i, b := range r.given {
		all[i] = bytes.Clone(b)
	}
	return all
}

// join comes to the round under way, or opens one. The caller holds mu.
func (w *localWorld) join(l *local, own []byte) *round {
	if w.round == nil {
		n := l.Size()
		w.round = &round{given: make([][]byte, n), came: make([]bool, n), missing: n, all: make(chan struct{})}
	}
	r := w.round
	r.given[l.rank], r.came[l.rank] = append([]byte{}, own...), true
	if r.missing--; r.missing == 0 {
		close(r.all)
		w.round = nil
	}
	return r
}

// leaver is a rank that has left and will not come to the round. The caller holds mu.
func (w *localWorld) leaver(r *round) (int, bool) {
	for i, left := range w.left {
		if !r.came[i] && isClosed(left) {
			return i, true
		}
	}
	return 0, false
}

// Reach finds those that have left: others are in this process.
func (l *local) Reach(context.Context) error {
	w := l.world
	if isClosed(w.failed) {
		return w.failure.During("reach")
	}
	for i, left := range w.left {
		if i != l.rank && isClosed(left) {
			return l.blame("reach", i, ErrLeft)
		}
	}
	return nil
}

func (l *local) Fail(err error) { l.world.fail(l.blame("fail", l.rank, err)) }

// Close does not wait: whoever still needs this rank fails.
func (l *local) Close() error {
	w := l.world
	w.mu.Lock()
	if !isClosed(w.left[l.rank]) {
		close(w.left[l.rank])
	}
	r := w.round
	awaited := r != nil && !r.came[l.rank]
	w.mu.Unlock()
	if awaited {
		w.fail(l.blame("gather", l.rank, ErrLeft))
	}
	return nil
}

// ready refuses a call that cannot be made. A call of all ranks has no peer.
func (l *local) ready(ctx context.Context, operation string, peer int, tag Tag) error {
	if peer >= 0 || operation == "send" || operation == "receive" {
		if err := CheckPeer(l, operation, peer, tag); err != nil {
			return err
		}
	}
	switch {
	case isClosed(l.world.failed):
		return l.world.failure.During(operation)
	case isClosed(l.world.left[l.rank]):
		return l.blame(operation, l.rank, ErrClosed)
	case ctx.Err() != nil:
		return l.world.fail(l.blame(operation, l.rank, context.Cause(ctx)))
	}
	return nil
}

func (l *local) blame(operation string, rank int, err error) *Error {
	return &Error{Operation: operation, Rank: rank, Host: l.Host(rank), By: l.rank, Err: err}
}

// fail ends the calls of all ranks, and returns the first failure as this operation meets it.
func (w *localWorld) fail(e *Error) *Error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.failure == nil {
		w.failure = e
		close(w.failed)
	}
	return w.failure.During(e.Operation)
}

func (w *localWorld) route(from, to int, tag Tag) chan letter {
	w.mu.Lock()
	defer w.mu.Unlock()
	r := letterbox{from, to, tag}
	if w.letters[r] == nil {
		w.letters[r] = make(chan letter)
	}
	return w.letters[r]
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
