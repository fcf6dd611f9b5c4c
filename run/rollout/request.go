package rollout

import (
	"context"
	"errors"
	"fmt"
)

// A Request asks for a completion. Its settings are as those of Config and Prompt of the same names.
type Request struct {
	Prompt      []int32
	Tokens      int
	Temperature float64
	TopK        int
	TopP, MinP  float64
	Penalty     float64
	Stop        []int32
	Ends        func(tokens []int32) bool // called by Run, between passes of the model
	Seed        uint64
	Number      uint64
	Sample      int
	Top         int // so many of the likeliest tokens are told with each token drawn
}

// row is that of a request, which a model of such a vocabulary has room for.
func (r Request) row(m Model, vocab int) (*row, error) {
	of := Config{
		Tokens: r.Tokens, Temperature: r.Temperature, TopK: r.TopK, TopP: r.TopP, MinP: r.MinP, Penalty: r.Penalty, Vocab: vocab, Stop: r.Stop, Ends: r.Ends, Rows: 1, Seed: r.Seed,
	}
	prompt := Prompt{Tokens: r.Prompt, Number: r.Number, Samples: 1}
	if err := errors.Join(of.check(), prompt.check(m.Window())); err != nil {
		return nil, err
	}
	own := of.row(prompt, 0, r.Sample, m.Window())
	own.top, own.shared = r.Top, &prefix{left: 1}
	if common, rest := own.needs(m.Paging()); common+rest > m.Paging().Blocks {
		return nil, own.tooLong(m.Paging())
	}
	return own, nil
}

// Each draws a completion of every request, as many at once as the model has rows, and tells each in the order of requests. The error that is told is that of one
// request: one that the model has no room for, or whose logits are no numbers. Any other ends it, as one of tell does.
func Each(ctx context.Context, m Model, vocab int, requests []Request, tell func(i int, c Completion, err error) error) error {
	if len(requests) == 0 {
		return nil
	}
	type result struct {
		Completion
		err  error
		over bool
	}
	b, results, next := newDrawing(m, len(requests)), make([]result, len(requests)), 0
	for i, r := range requests {
		own, err := r.row(m, vocab)
		if err != nil {
			results[i] = result{err: fmt.Errorf("rollout: %w", err), over: true}
			continue
		}
		own.Prompt = i
		b.waiting = append(b.waiting, own)
	}
	b.done = func(r *row, err error) error {
		if err != nil {
			err = fmt.Errorf("rollout: token %d: %w", len(r.Tokens), err)
		}
		results[r.Prompt] = result{r.Completion, err, true}
		return nil
	}
	for {
		for ; next < len(results) && results[next].over; next++ {
			if err := tell(next, results[next].Completion, results[next].err); err != nil {
				return err
			}
			results[next] = result{}
		}
		if next == len(results) {
			return nil
		}
		if err := b.goOn(ctx); err != nil {
			return fmt.Errorf("rollout: %w", err)
		}
	}
}
