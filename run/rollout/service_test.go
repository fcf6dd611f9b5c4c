package rollout

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
	"gputrain/state"
)

// serving is a service that runs until the test is over.
func serving(t *testing.T, m Model, c ServiceConfig) *Service {
	s := NewService(m, c)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	over := make(chan error)
	go func() { over <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		require.Error(t, <-over)
	})
	return s
}

// asked are requests of all kinds.
func asked(n, longest, vocab int) (out []Request) {
	for i := range n {
		r := Request{Prompt: text(1+i*7%(longest/2), i, vocab), Tokens: 2 + i*5%(longest/2), Seed: uint64(i) << 30, Number: uint64(i % 7), Sample: i % 3, Stop: []int32{int32(i % 9)}}
		switch i % 6 {
		case 1:
			r.Temperature = 1
		case 2:
			r.Temperature, r.TopK = .7, 9
		case 3:
			r.Temperature, r.TopP, r.Top = 1.5, .9, 3
		case 4:
			r.Temperature = .25
		case 5:
			r.Temperature, r.MinP = 1, .1
			r.Ends = func(tokens []int32) bool { return len(tokens) == 5 }
		}
		out = append(out, r)
	}
	return out
}

// want is what Draw draws for a request.
func want(t *testing.T, m Model, r Request) Completion {
	all, err := Draw(t.Context(), Config{
		Tokens: r.Tokens, Temperature: r.Temperature, TopK: r.TopK, TopP: r.TopP, MinP: r.MinP, Penalty: r.Penalty, Stop: r.Stop, Ends: r.Ends, Rows: 1, Seed: r.Seed,
	}, m, []Prompt{{r.Prompt, r.Number, r.Sample + 1}}, nil)
	require.NoError(t, err)
	return all[r.Sample]
}

// together asks for all at random times, and compares what some get with what it has to be.
func together(t *testing.T, s *Service, requests []Request, wanted map[int]Completion) {
	var all sync.WaitGroup
	rng := rand.New(rand.NewPCG(1, 2))
	for i, r := range requests {
		wait := time.Duration(rng.IntN(2000)) * time.Microsecond
		all.Go(func() {
			time.Sleep(wait)
			var told Completion
			found, err := s.Complete(t.Context(), r, func(token Token) error {
				told.Tokens, told.LogProbs = append(told.Tokens, token.ID), append(told.LogProbs, token.LogProb)
				return likely(r, token)
			})
			assert.NoError(t, err)
			if w, of := wanted[i]; of {
				assert.Equal(t, w, found, "request %d", i)
			}
			assert.Equal(t, found.Tokens, told.Tokens)
			assert.Equal(t, found.LogProbs, told.LogProbs)
		})
	}
	all.Wait()
}

// likely refuses likeliest tokens that are not what they must be.
func likely(r Request, token Token) error {
	down := slices.IsSortedFunc(token.Top, func(a, b Likely) int { return int(math.Copysign(1, float64(b.LogProb-a.LogProb))) })
	if len(token.Top) != r.Top || !down || r.Top > 0 && token.Top[0].LogProb < token.LogProb {
		return fmt.Errorf("likeliest %v of %v", token.Top, token)
	}
	for _, l := range token.Top {
		if l.ID == token.ID && l.LogProb != token.LogProb {
			return fmt.Errorf("%v is told as %v", token, l)
		}
	}
	return nil
}

// What a caller gets is what Draw draws for it alone, whoever else comes and goes.
func TestService(t *testing.T) {
	requests := asked(64, 30, vocab)
	wanted := map[int]Completion{}
	for i, r := range requests {
		wanted[i] = want(t, &fake{window: 30, logits: wild}, r)
	}
	for name, paging := range pagings {
		t.Run(name, func(t *testing.T) {
			together(t, serving(t, &fake{window: 30, logits: wild, paging: paging}, ServiceConfig{Waiting: 64}), requests, wanted)
		})
	}
}

// The same holds for a model on a device.
func TestServiceOnDevice(t *testing.T) {
	software := gputest.Device(t)
	l := software.Limits()
	l.Software = false
	for name, dev := range map[string][]gputest.Option{"processor": nil, "card": {gputest.WithLimits(l)}} {
		def := families(t)["qwen3_qknorm"]
		m := opened(t, gputest.Device(t, dev...), def, 16)
		requests := asked(64, 24, def.Vocab())
		wanted := map[int]Completion{}
		for i := 0; i < len(requests); i += 5 { // of every kind
			wanted[i] = want(t, m, requests[i])
		}
		t.Run(name, func(t *testing.T) { together(t, serving(t, m, ServiceConfig{Waiting: 64}), requests, wanted) })
	}
}

// Of many callers each gets its turn, in the order in which they come; one more than may wait is told so.
func TestServiceOrder(t *testing.T) {
	const callers = 300
	for name, paging := range pagings {
		rows := max(paging.Rows, 1)
		m := &fake{window: 30, logits: counting, paging: paging}
		s := NewService(m, ServiceConfig{Waiting: callers - rows})
		var order []int
		calls := make([]*call, callers)
		for i := range calls {
			var err error
			calls[i], err = s.enter(t.Context(), Request{Prompt: []int32{1, 2, 3}, Tokens: 3, Ends: func(tokens []int32) bool {
				if len(tokens) == 1 {
					order = append(order, i)
				}
				return false
			}})
			require.NoError(t, err)
		}
		_, err := s.Complete(t.Context(), Request{Prompt: []int32{1}, Tokens: 1}, nil)
		require.ErrorIs(t, err, ErrBusy)
		ctx, stop := context.WithCancel(t.Context())
		over := make(chan error)
		go func() { over <- s.Run(ctx) }()
		for _, c := range calls {
			require.NoError(t, c.follow(nil))
			require.Equal(t, []int32{4, 5, 6}, c.Tokens)
		}
		_, err = s.Complete(t.Context(), Request{Prompt: []int32{1}, Tokens: 1}, nil)
		require.NoError(t, err, "there is room again")
		stop()
		require.ErrorIs(t, <-over, context.Canceled)
		for at, i := range order {
			require.Less(t, max(at-i, i-at), rows, name)
		}
		require.Zero(t, s.open)
	}
}

// Callers that leave, wherever they are, give back what they have; one that is slow holds up nobody.
func TestServiceLeft(t *testing.T) {
	for name, paging := range pagings {
		t.Run(name, func(t *testing.T) {
			s := serving(t, &fake{window: 30, logits: counting, paging: paging}, ServiceConfig{Waiting: 200})
			long := Request{Prompt: make([]int32, 9), Tokens: 21}
			slow, drawn := make(chan struct{}), make(chan struct{})
			var all sync.WaitGroup
			all.Go(func() {
				n := 0
				found, err := s.Complete(t.Context(), long, func(Token) error {
					if n++; n == 1 {
						close(drawn)
						<-slow
					}
					return nil
				})
				assert.NoError(t, err)
				assert.Len(t, found.Tokens, 21)
			})
			<-drawn
			broken := errors.New("no reader")
			for i := range 100 {
				all.Go(func() {
					ctx, stop := context.WithCancel(t.Context())
					defer stop()
					if i%3 == 0 {
						stop()
					}
					n := 0
					_, err := s.Complete(ctx, long, func(Token) error {
						switch n++; {
						case n > i%9 && i%3 == 1:
							return broken
						case n > i%9:
							stop()
						}
						return nil
					})
					assert.True(t, errors.Is(err, broken) || errors.Is(err, context.Canceled), "%v", err)
				})
			}
			for range 8 {
				found, err := s.Complete(t.Context(), long, nil)
				require.NoError(t, err)
				require.Len(t, found.Tokens, 21)
			}
			ctx, stop := context.WithCancel(t.Context())
			longest := 0
			left := long
			left.Ends = func(tokens []int32) bool {
				if longest = len(tokens); longest == 2 {
					stop()
				}
				return false
			}
			_, err := s.Complete(ctx, left, nil)
			require.ErrorIs(t, err, context.Canceled)
			_, err = s.Complete(t.Context(), long, nil)
			require.NoError(t, err)
			require.Equal(t, 2, longest, "no pass is made for who has left")
			close(slow)
			all.Wait()
			assert.Zero(t, s.open)
		})
	}
}

// failing is a model whose passes fail after so many.
type failing struct {
	fake
	left int
}

var errFailed = errors.New("the device is gone")

func (f *failing) Advance(ctx context.Context, p state.Places) ([]float32, error) {
	if f.left--; f.left < 0 {
		return nil, errFailed
	}
	return f.fake.Advance(ctx, p)
}

func (f *failing) Draw(ctx context.Context, p state.Places) ([]int32, []float32, error) {
	if f.left--; f.left < 0 {
		return nil, nil, errFailed
	}
	return f.fake.Draw(ctx, p)
}

func TestServiceFails(t *testing.T) {
	m := &failing{fake{window: 30, logits: counting, paging: pagings["few"]}, 5}
	s := serving(t, m, ServiceConfig{Waiting: 20})
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			_, err := s.Complete(t.Context(), Request{Prompt: []int32{1}, Tokens: 25}, nil)
			assert.ErrorIs(t, err, errFailed)
		})
	}
	all.Wait()
	_, err := s.Complete(t.Context(), Request{Prompt: []int32{1}, Tokens: 25}, nil)
	require.ErrorIs(t, err, errFailed)
}

// A row whose logits are no numbers fails alone, and what can never be served is refused.
func TestServiceRefuses(t *testing.T) {
	m := &fake{window: 30, paging: pagings["short"], logits: func(c cell) []float32 {
		out := counting(c)
		if c.token == 48 {
			out[7] = float32(math.NaN())
		}
		return out
	}}
	big := *m
	big.window = 60
	known, longer := serving(t, m, ServiceConfig{Vocab: 50}), NewService(&big, ServiceConfig{})
	for says, r := range map[string]Request{
		"token 2: logit 7: NaN":  {Prompt: []int32{46}, Tokens: 4},
		"tokens 0":               {Prompt: []int32{46}},
		"top-p 2":                {Prompt: []int32{46}, Tokens: 1, TopP: 2},
		"0 tokens, want 1 to 29": {Tokens: 1},
		"37 positions, want at most the 36 of all": {Prompt: make([]int32, 9), Tokens: 29},
	} {
		s := known
		if says[0] == '3' {
			s = longer
		}
		_, err := s.Complete(t.Context(), r, nil)
		require.ErrorContains(t, err, says)
	}
}
