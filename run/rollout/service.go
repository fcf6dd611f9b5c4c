package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// ErrBusy says that as many callers wait already as may.
var ErrBusy = errors.New("as many callers wait as may")

// ServiceConfig is a Service's.
type ServiceConfig struct {
	Vocab   int // tokens from this one on are never drawn; 0: all of the model may be
	Waiting int // callers beyond those that have a row, at most
}

// A Service draws completions for callers that come and go, as many at once as the model has rows; of none, one after the other. Who comes first begins first,
// once there are a row and blocks for the longest that the completion may become.
type Service struct {
	model  Model
	config ServiceConfig
	rows   int
	wake   chan struct{} // Run: someone has come

	mu      sync.Mutex
	arrived []*call
	open    int   // calls that have not ended
	err     error // once Run is over
}

// A Token is one that was drawn, with its log-probability and the likeliest ones in its place, the likeliest first.
type Token struct {
	ID      int32
	LogProb float32
	Top     []Likely
}

// Likely is a token that could have been drawn.
type Likely struct {
	ID      int32
	LogProb float32
}

// NewService serves callers once Run is called.
func NewService(m Model, c ServiceConfig) *Service {
	return &Service{model: m, config: c, rows: max(m.Paging().Rows, 1), wake: make(chan struct{}, 1)}
}

// call is a row that a caller waits for.
type call struct {
	row
	context context.Context // the call is over with it
	wake    chan struct{}   // the caller: there is more

	mu    sync.Mutex
	more  []Token // not yet read
	ended bool
	err   error
	over  bool // it counts no more; Service.mu guards it
}

// tell hands a token to the caller, who reads it in its own time.
func (c *call) tell(t Token) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.more = append(c.more, t)
	nudge(c.wake)
}

// read are the tokens since the last one read.
func (c *call) read() (more []Token, ended bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	more, c.more = c.more, nil
	return more, c.ended, c.err
}

// nudge wakes whoever waits for it, now or next.
func nudge(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// Complete draws a completion. each, if there is one, gets every token, in order, on the caller's goroutine: one that is slow holds up nobody, and an error of
// it ends the call. A call whose ctx is over frees its row and blocks before the next pass of the model. What comes back is what Draw draws for the same
// settings, of Generation 0, whoever else is served.
func (s *Service) Complete(ctx context.Context, r Request, each func(Token) error) (Completion, error) {
	ctx, leave := context.WithCancel(ctx)
	c, err := s.enter(ctx, r)
	if err == nil {
		err = c.follow(each)
		s.close(c)
	}
	leave()
	if err != nil {
		return Completion{}, fmt.Errorf("rollout: %w", err)
	}
	return c.Completion, nil
}

// enter puts a call behind those that wait.
func (s *Service) enter(ctx context.Context, r Request) (*call, error) {
	own, err := r.row(s.model, s.config.Vocab)
	if err != nil {
		return nil, err
	}
	c := &call{row: *own, context: ctx, wake: make(chan struct{}, 1)}
	c.call = c
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.err != nil:
		return nil, s.err
	case s.open >= s.rows+s.config.Waiting:
		return nil, fmt.Errorf("%w: %d", ErrBusy, s.config.Waiting)
	}
	s.open++
	s.arrived = append(s.arrived, c)
	nudge(s.wake)
	return c, nil
}

// follow hands tokens to each until the call has ended.
func (c *call) follow(each func(Token) error) error {
	for {
		more, ended, err := c.read()
		for _, t := range more {
			if err := context.Cause(c.context); err != nil {
				return err
			}
			if each == nil {
				break
			}
			if err := each(t); err != nil {
				return err
			}
		}
		if ended {
			return err
		}
		select {
		case <-c.wake:
		case <-c.context.Done():
			return context.Cause(c.context)
		}
	}
}

// Run serves callers until ctx is over or the model fails. Then all callers, those that come later among them, get that error.
func (s *Service) Run(ctx context.Context) error {
	b := newDrawing(s.model, s.rows)
	b.turns = true
	b.done = func(r *row, err error) error {
		if err != nil {
			err = fmt.Errorf("token %d: %w", len(r.Tokens), err)
		}
		s.end(r.call, err)
		return nil
	}
	for {
		s.refresh(b)
		if len(b.waiting)+b.alive == 0 {
			select {
			case <-s.wake:
				continue
			case <-ctx.Done():
			}
		}
		if err := b.goOn(ctx); err != nil {
			s.fail(b, err)
			return fmt.Errorf("rollout: %w", err)
		}
	}
}

// refresh takes in those who have come, and frees what those who have gone had.
func (s *Service) refresh(b *drawing) {
	s.mu.Lock()
	for _, c := range s.arrived {
		b.waiting = append(b.waiting, &c.row)
	}
	s.arrived = nil
	s.mu.Unlock()
	gone := func(r *row) bool { return r != nil && r.call.context.Err() != nil }
	b.waiting = slices.DeleteFunc(b.waiting, gone)
	for i, r := range b.rows {
		if gone(r) {
			b.end(i)
		}
	}
}

// end gives a caller what there is.
func (s *Service) end(c *call, err error) {
	s.close(c)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended, c.err = true, err
	nudge(c.wake)
}

// close makes room for another call.
func (s *Service) close(c *call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !c.over {
		c.over, s.open = true, s.open-1
	}
	s.arrived = slices.DeleteFunc(s.arrived, func(o *call) bool { return o == c })
}

// fail ends all calls.
func (s *Service) fail(b *drawing, err error) {
	s.mu.Lock()
	s.err = err
	s.mu.Unlock()
	s.refresh(b)
	for _, r := range slices.Concat(b.waiting, b.rows) {
		if r != nil {
			s.end(r.call, err)
		}
	}
}
