package state

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
)

// EvalResult is a loss on a text.
type EvalResult struct {
	Loss   float64 // nats a token, the mean over all tokens that count
	Tokens int64
}

// Evaluate computes the loss of the model on a text: the sum over all tokens that count, divided by their number, whatever the size of
// the batches. Between two batches it looks whether ctx is over.
func (m *Model) Evaluate(ctx context.Context, e *data.Evaluation) (EvalResult, error) {
	return LastResult(m.Evaluations(ctx, e))
}

// Evaluations is Evaluate as it goes: after each batch the result over all up to it (NaN while no token counts), so that the last one is that
// of the whole text. An error comes last. Who leaves the loop early ends the evaluation, and the model is as good as before.
func (m *Model) Evaluations(ctx context.Context, e *data.Evaluation) iter.Seq2[EvalResult, error] {
	return func(yield func(EvalResult, error) bool) {
		err := m.evaluate(ctx, e, func(r EvalResult) bool { return yield(r, nil) })
		if errors.Is(err, errEnough) {
			return
		}
		if cause := context.Cause(ctx); err != nil && cause != nil {
			err = cause // also where a compilation noticed it first
		}
		if err != nil {
			yield(EvalResult{}, fmt.Errorf("state: evaluate: %w", err))
		}
	}
}

// LastResult is what an evaluation comes to, or its error.
func LastResult(results iter.Seq2[EvalResult, error]) (last EvalResult, err error) {
	for last, err = range results {
		if err != nil {
			return EvalResult{}, err
		}
	}
	return last, nil
}

// ErrNoLabels says that a text has no token that counts in the loss.
var ErrNoLabels = errors.New("0 tokens count in the loss")

// errEnough says that nobody wants more results.
var errEnough = errors.New("enough")

// evaluate hands out the result after each batch, while the next one is under way.
func (m *Model) evaluate(ctx context.Context, e *data.Evaluation, yield func(EvalResult) bool) error {
	if e == nil {
		return errors.New("found no evaluation, wanted one of data.NewEvaluation")
	}
	var result EvalResult
	sum := 0.0
	var counts []int // of the batches under way, two at most
	read := func() error {
		raw, err := m.evaluator.ring.Next(context.WithoutCancel(ctx))
		if err != nil {
			return err
		}
		sum += float64(math.Float32frombits(binary.LittleEndian.Uint32(raw)))
		result.Tokens += int64(counts[0])
		result.Loss, counts = sum/float64(result.Tokens), counts[1:]
		return nil
	}
	tell := func() error {
		if err := read(); err != nil {
			return err
		}
		if !yield(result) {
			return errEnough
		}
		return nil
	}
	for i := range e.Batches() {
		batch, err := e.Batch(i)
		if err == nil {
			err = m.prepareEvaluation(ctx, batch.Rows, len(batch.Tokens)/batch.Rows)
		}
		if err == nil {
			err = m.submitEvaluation(ctx, batch)
		}
		if err == nil {
			if counts = append(counts, batch.Count); len(counts) == 2 {
				err = tell()
			}
		}
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			for len(counts) > 0 && read() == nil { // leave the ring empty for the next evaluation
				continue
			}
			return err
		}
	}
	if len(counts) > 0 {
		if err := tell(); err != nil {
			return err
		}
	}
	if result.Tokens == 0 {
		return ErrNoLabels
	}
	return nil
}

func (m *Model) submitEvaluation(ctx context.Context, batch data.Batch) error {
	if err := m.evaluator.graph.WriteInts(model.InputTokens, batch.Tokens); err != nil {
		return err
	}
	if err := m.evaluator.graph.WriteInts(model.InputLabels, batch.Labels); err != nil {
		return err
	}
	return m.evaluator.run.Submit(context.WithoutCancel(ctx))
}

func (m *Model) prepareEvaluation(ctx context.Context, rows, sequence int) error {
	if m.evaluator != nil && m.shape == [2]int{rows, sequence} {
		return nil
	}
	m.evaluator.release()
	m.evaluator = nil
	g, targets, err := evaluation(m.def, rows, sequence)
	if err != nil {
		return err
	}
	m.evaluator, err = m.forward(ctx, lossTarget, 2, g, graph.CompileOptions{Label: "evaluation", Targets: targets})
	m.shape = [2]int{rows, sequence}
	return err
}
