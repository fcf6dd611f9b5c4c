package data

import (
	"context"
	"errors"
	"fmt"
)

// Ignored is the label of positions that do not count.
const Ignored = -100

// Batch holds Rows windows of Context tokens each, row-major.
type Batch struct {
	Tokens []int32 // [Rows, Context]
	Labels []int32 // [Rows, Context]: the next token, or Ignored
	Rows   int
	Count  int   // labels that are not Ignored
	State  State // where the loader stands after this batch
}

// State is a place in the endless sequence of windows: Position windows of epoch
// Epoch have been handed out. The zero value is the beginning.
type State struct {
	Epoch    uint64 `json:"epoch"`
	Position uint64 `json:"position"`
}

// LoaderConfig says how windows become batches.
type LoaderConfig struct {
	Context  int    // tokens a window
	Batch    int    // windows a batch
	Seed     uint64 // of the order
	Prefetch int    // batches read ahead; 0 reads when asked
	State    State  // where to begin
}

// errClosed is what Next returns after Close.
var errClosed = errors.New("data: loader is closed")

// Loader hands out the windows of a text in a shuffled order, for ever: epoch after
// epoch, each a new permutation of all windows. In epoch e > 0 the windows begin up to
// a context later, so that they are cut elsewhere. One goroutine may call Next.
type Loader struct {
	tokens  *Tokens
	config  LoaderConfig
	windows uint64
	state   State // after the last batch handed out
	ahead   State // after the last batch read
	queue   chan result
	stop    context.CancelFunc
	stopped context.Context
	done    chan struct{}
	err     error // sticky
}

type result struct {
	batch Batch
	err   error
}

// NewLoader begins at config.State. It fails when the text is shorter than a
// window, or the state is not one of this text.
func NewLoader(tokens *Tokens, config LoaderConfig) (*Loader, error) {
	switch {
	case config.Context < 1 || config.Batch < 1 || config.Prefetch < 0:
		return nil, fmt.Errorf("data: loader: context %d, batch %d, prefetch %d: want at least 1, 1, 0", config.Context, config.Batch, config.Prefetch)
	case tokens.Len() <= int64(config.Context):
		return nil, fmt.Errorf("data: loader: %d tokens found, want at least %d (a context of %d and one more)", tokens.Len(), config.Context+1, config.Context)
	}
	l := &Loader{tokens: tokens, config: config, state: config.State, ahead: config.State}
	l.windows = uint64(tokens.Len()-1) / uint64(config.Context)
	if config.State.Position >= l.windows {
		return nil, fmt.Errorf("data: loader: state: position %d, want less than the %d windows of an epoch: the text or the context has changed", config.State.Position, l.windows)
	}
	l.stopped, l.stop = context.WithCancel(context.Background())
	if config.Prefetch > 0 {
		l.queue = make(chan result, config.Prefetch-1) // one more is held by the goroutine
		l.done = make(chan struct{})
		go l.prefetch()
	}
	return l, nil
}

// Windows is the number of windows in an epoch.
func (l *Loader) Windows() uint64 { return l.windows }

// State is where the next batch begins.
func (l *Loader) State() State { return l.state }

// Next returns the next batch. It waits as long as reading takes: a slow disk
// never ends the data; ctx ends the waiting. An error is final.
func (l *Loader) Next(ctx context.Context) (Batch, error) {
	if l.err != nil {
		return Batch{}, l.err
	}
	if l.stopped.Err() != nil {
		return Batch{}, errClosed
	}
	if err := ctx.Err(); err != nil {
		return Batch{}, err
	}
	var r result
	if l.queue == nil {
		r.batch, r.err = l.read()
	} else {
		select {
		case r = <-l.queue:
		case <-l.stopped.Done():
			return Batch{}, errClosed
		case <-ctx.Done():
			return Batch{}, ctx.Err()
		}
	}
	if r.err != nil {
		l.err = r.err
		return Batch{}, r.err
	}
	l.state = r.batch.State
	return r.batch, nil
}

// Close ends reading ahead and waits for it; Next then returns an error.
func (l *Loader) Close() {
	l.stop()
	if l.done != nil {
		<-l.done
	}
}

func (l *Loader) prefetch() {
	defer close(l.done)
	for {
		batch, err := l.read()
		select {
		case l.queue <- result{batch, err}:
		case <-l.stopped.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

// read makes the batch that begins at l.ahead and moves l.ahead behind it.
func (l *Loader) read() (Batch, error) {
	b := newBatch(l.config.Batch, l.config.Context)
	s := l.ahead
	for row := range l.config.Batch {
		if err := b.fill(l.tokens, row, l.start(s), l.config.Context); err != nil {
			return Batch{}, fmt.Errorf("data: loader: epoch %d, position %d: %w", s.Epoch, s.Position, err)
		}
		if s.Position++; s.Position == l.windows {
			s = State{Epoch: s.Epoch + 1}
		}
	}
	l.ahead, b.State = s, s
	return b, nil
}

// start returns the first token of the window at s.
func (l *Loader) start(s State) int64 {
	o := newOrder(l.windows, l.config.Seed, s.Epoch)
	size := int64(l.config.Context)
	start := int64(o.at(s.Position)) * size
	if s.Epoch > 0 {
		start += int64(mix(o.key) % uint64(size))
	}
	return min(start, l.tokens.Len()-size-1)
}

func newBatch(rows, size int) Batch {
	b := Batch{Tokens: make([]int32, rows*size), Labels: make([]int32, rows*size), Rows: rows}
	for i := range b.Labels {
		b.Labels[i] = Ignored
	}
	return b
}

// fill reads one window of n <= size labels that begins at token start into a row.
func (b *Batch) fill(tokens *Tokens, row int, start int64, n int) error {
	size := len(b.Tokens) / b.Rows
	window := make([]int32, n+1)
	if err := tokens.Read(window, start); err != nil {
		return err
	}
	copy(b.Tokens[row*size:], window[:n])
	copy(b.Labels[row*size:], window[1:])
	b.Count += n
	return nil
}
