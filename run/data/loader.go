package data

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"gputrain/internal/caught"
)

// State is a place in the endless sequence of windows: Position windows of epoch
// Epoch have been handed out. The zero value is the beginning.
type State struct {
	Epoch    uint64 `json:"epoch"`
	Position uint64 `json:"position"`
}

// MaxPrefetch is the most batches that are read ahead.
const MaxPrefetch = 4096

// LoaderConfig says how windows become batches.
type LoaderConfig struct {
	Context  int    // tokens a window
	Batch    int    // windows a batch
	Share    *Share // of each batch that is read and handed out; nil: all
	Seed     uint64 // of the order
	Prefetch int    // batches read ahead; 0 reads when asked
	State    State  // where to begin
	// Timeout is how long Next waits for a batch until it fails with a *TimeoutError; 0: as long as it takes.
	Timeout time.Duration
	// Slow, where there is one, is called by Next while it waits: after 10 seconds, 20, 40 and so on.
	Slow func(waited time.Duration)
}

// Share is a range of the rows of a batch.
type Share struct{ First, Rows int }

// errNone is what stands for a source that is not there.
var errNone = errors.New("found none, wanted one, such as a corpus has")

// errClosed is what Next returns after Close.
var errClosed = errors.New("data: loader is closed")

// Loader hands out the windows of a source in a shuffled order, for ever: epoch after
// epoch, each a new permutation of all windows. One goroutine may call Next.
type Loader struct {
	config  LoaderConfig
	walk    Walk
	state   State       // after the last batch handed out
	ahead   State       // after the last batch read
	queue   chan result // of batches read ahead
	asked   chan result // the batch that is being read where none is read ahead, else nil
	stop    context.CancelFunc
	stopped context.Context
	done    chan struct{}
	err     error // sticky
}

type result struct {
	batch Batch
	err   error
}

// NewLoader begins at config.State. It fails when the source is shorter than a
// window, or the state is not one of this source.
func NewLoader(source Source, config LoaderConfig) (*Loader, error) {
	if config.Context < 1 || config.Batch < 1 || config.Prefetch < 0 || config.Prefetch > MaxPrefetch || config.Timeout < 0 {
		return nil, fmt.Errorf("data: loader: context %d, batch %d, prefetch %d, timeout %v: want at least 1, 1, 0 (at most 4096), 0", config.Context, config.Batch, config.Prefetch, config.Timeout)
	}
	if source == nil {
		return nil, fmt.Errorf("data: loader: source: %w", errNone)
	}
	if config.Share == nil {
		config.Share = &Share{Rows: config.Batch}
	}
	if s := config.Share; s.First < 0 || s.Rows < 0 || s.First+s.Rows > config.Batch {
		return nil, fmt.Errorf("data: loader: share: %d rows from row %d on, want a range of the %d of a batch", s.Rows, s.First, config.Batch)
	}
	walk, err := source.Walk(config.Context, config.Seed)
	if err != nil {
		return nil, fmt.Errorf("data: loader: %w", err)
	}
	l := &Loader{config: config, walk: walk, state: config.State, ahead: config.State}
	if n := walk.Length(config.State.Epoch); config.State.Position >= n {
		return nil, fmt.Errorf("data: loader: state: position %d, want less than the %d windows of an epoch: the text or the context has changed", config.State.Position, n)
	}
	l.stopped, l.stop = context.WithCancel(context.Background())
	if config.Prefetch > 0 {
		l.queue = make(chan result, config.Prefetch-1) // one more is held by the goroutine
		l.done = make(chan struct{})
		go l.prefetch()
	}
	return l, nil
}

// State is where the next batch begins.
func (l *Loader) State() State { return l.state }

// Next returns the next batch. A slow disk never ends the data: Next waits, says so to Slow, and fails after Timeout; ctx ends the
// waiting, not the reading, so that a later Next loses nothing. An error of reading, or of waiting too long, is final.
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
	queue := l.queue
	if queue == nil {
		if l.asked == nil {
			asked := make(chan result, 1)
			l.asked = asked
			go func() { asked <- l.read() }()
		}
		queue = l.asked
	}
	r, err := l.wait(ctx, queue)
	if err != nil {
		return Batch{}, err
	}
	l.asked = nil
	if r.err != nil {
		l.err = r.err
		return Batch{}, r.err
	}
	l.state = r.batch.State
	return r.batch, nil
}

func (l *Loader) prefetch() {
	defer close(l.done)
	for {
		r := l.read()
		select {
		case l.queue <- r:
		case <-l.stopped.Done():
			return
		}
		if r.err != nil {
			return
		}
	}
}

// read makes the batch that begins at l.ahead and moves l.ahead behind it.
func (l *Loader) read() (r result) {
	if err := caught.Do(func() error { r = l.make(); return nil }); err != nil {
		r.err = err
	}
	return r
}

func (l *Loader) make() result {
	share := l.config.Share
	b := newBatch(share.Rows, l.config.Context)
	s := l.ahead
	for row := range l.config.Batch {
		if own := row - share.First; own >= 0 && own < share.Rows {
			if err := l.walk.Fill(&b, own, s); err != nil {
				return result{err: fmt.Errorf("data: loader: epoch %d, position %d: %w", s.Epoch, s.Position, err)}
			}
		}
		if s.Position++; s.Position == l.walk.Length(s.Epoch) {
			s = State{Epoch: s.Epoch + 1}
		}
	}
	l.ahead, b.State, b.Epochs = s, s, l.epochs(s)
	return result{batch: b}
}

// epochs is how often the source has been gone through at s.
func (l *Loader) epochs(s State) float64 {
	n := l.walk.Length(s.Epoch)
	if n == math.MaxUint64 {
		return 0
	}
	return float64(s.Epoch) + float64(s.Position)/float64(n)
}
