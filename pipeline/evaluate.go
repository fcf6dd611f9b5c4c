package pipeline

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"math"

	"gputrain/data"
	"gputrain/graph"
	"gputrain/model"
	"gputrain/state"
)

// Evaluate computes the loss of the model on a text, several batches under way at once; see state.Model. Between groups of batches it looks
// whether ctx is over.
func (s *State) Evaluate(ctx context.Context, e *data.Evaluation) (state.EvalResult, error) {
	return state.LastResult(s.Evaluations(ctx, e))
}

// Evaluations is Evaluate as it goes, a result after each batch; see state.Model.
func (s *State) Evaluations(ctx context.Context, e *data.Evaluation) iter.Seq2[state.EvalResult, error] {
	return func(yield func(state.EvalResult, error) bool) {
		var result state.EvalResult
		sum := 0.0
		fail := func(err error) { yield(state.EvalResult{}, fmt.Errorf("pipeline: evaluate: %w", err)) }
		for first := 0; first < e.Batches(); first += evaluated {
			if err := context.Cause(ctx); err != nil {
				fail(err)
				return
			}
			losses, counts, err := s.evaluate(context.WithoutCancel(ctx), e, first, min(first+evaluated, e.Batches()))
			if err != nil {
				fail(err)
				return
			}
			for i, loss := range losses {
				sum += float64(loss)
				result.Tokens += int64(counts[i])
				if result.Loss = sum / float64(result.Tokens); !yield(result, nil) {
					return
				}
			}
		}
		if result.Tokens == 0 {
			fail(state.ErrNoLabels)
		}
	}
}

// evaluate computes the losses of the batches from first to end, all under way at once, and tells how many tokens count in each.
func (s *State) evaluate(ctx context.Context, e *data.Evaluation, first, end int) (losses []float32, counts []int, err error) {
	if s.evaluation == nil {
		return nil, nil, errors.New("the configuration has no evaluation")
	}
	l := s.evaluation
	var batches []data.Batch
	for i := first; i < end; i++ {
		b, err := e.Batch(i)
		if err != nil {
			return nil, nil, err
		}
		if rows, sequence := s.config.State.Evaluation, s.config.State.Sequence; b.Rows != rows || len(b.Tokens) != rows*sequence {
			return nil, nil, fmt.Errorf("batch %d: %d rows of %d tokens in all, want %d rows of %d", i, b.Rows, len(b.Tokens), rows, sequence)
		}
		if err := s.config.known(b.Tokens); err != nil {
			return nil, nil, fmt.Errorf("batch %d: %w", i, err)
		}
		batches, counts = append(batches, b), append(counts, b.Count)
	}
	write := func(p *graph.Program, i int) error {
		for name := range p.Inputs() {
			ints := batches[i].Tokens
			if name == model.InputLabels {
				ints = batches[i].Labels
			}
			if err := p.WriteInts(name, ints); err != nil {
				return err
			}
		}
		return nil
	}
	if err := s.pass(ctx, l, ForwardOnly(len(s.stages), s.config.Assignment.Parts, len(batches)), write); err != nil {
		return nil, nil, err
	}
	raw := make([]byte, l.results[0].buffer.Bytes())
	if err := s.last.device.Read(ctx, raw, l.results[0].buffer.All()); err != nil {
		return nil, nil, s.last.failed("losses", err)
	}
	for i := range batches {
		losses = append(losses, math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])))
	}
	return losses, counts, nil
}
