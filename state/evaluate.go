package state

import (
	"context"
	"encoding/binary"
	"math"

	"gputrain/data"
	"gputrain/graph/compile"
)

// Losses hands out the loss of each batch while the next one is under way; see Forward.
func (m *passes) Losses(ctx context.Context, e *data.Evaluation, yield func(sum float32, count int) bool) error {
	var counts []int // of the batches under way, two at most
	next := func() (float32, int, error) {
		raw, err := m.evaluator.ring.Next(context.WithoutCancel(ctx))
		if err != nil {
			return 0, 0, err
		}
		count := counts[0]
		counts = counts[1:]
		return math.Float32frombits(binary.LittleEndian.Uint32(raw)), count, nil
	}
	defer func() { // the ring is empty for the next evaluation
		for len(counts) > 0 {
			if _, _, err := next(); err != nil {
				return
			}
		}
	}()
	await := func(under int) (more bool, err error) {
		for len(counts) > under {
			if loss, count, err := next(); err != nil || !yield(loss, count) {
				return false, err
			}
		}
		return true, nil
	}
	for i := range e.Batches() {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		batch, err := e.Batch(i)
		if err != nil {
			return err
		}
		if batch.Positions != nil && !m.documents { // asks for another program, which takes the ring with it
			if more, err := await(0); !more {
				return err
			}
			m.documents = true
		}
		count, err := m.evaluate(ctx, batch)
		if err != nil {
			return err
		}
		counts = append(counts, count)
		if more, err := await(min(1, e.Batches()-1-i)); !more { // one may be under way while the next one is made
			return err
		}
	}
	return nil
}

// evaluate submits a batch, and counts its labels or pairs.
func (m *passes) evaluate(ctx context.Context, batch data.Batch) (count int, err error) {
	if err := m.prepareEvaluation(ctx, batch.Rows, len(batch.Tokens)/batch.Rows); err != nil {
		return 0, err
	}
	f, count := Feed{Batch: batch}, batch.Count
	if m.prefer != nil {
		in := m.prefer.Inputs(batch.Tokens, batch.Labels, batch.Rows)
		f.Pairs, f.LearnedScale, count = &in, learnedScale(in), in.Pairs
	}
	if err := f.Write(m.evaluator.graph); err != nil {
		return 0, err
	}
	return count, m.evaluator.run.Submit(context.WithoutCancel(ctx))
}

func (m *passes) prepareEvaluation(ctx context.Context, rows, sequence int) error {
	shape := evaluatorShape{rows, sequence, m.documents}
	if m.evaluator != nil && m.shape == shape {
		return nil
	}
	m.evaluator.release()
	m.evaluator = nil
	g, targets, err := evaluation(m.def, m.prefer, rows, sequence, m.documents)
	if err != nil {
		return err
	}
	m.evaluator, err = m.compile(ctx, lossTarget, 2, g, compile.Options{Label: "evaluation", Targets: targets})
	m.shape = shape
	return err
}

// evaluatorShape is what an evaluator was made for.
type evaluatorShape struct {
	rows, sequence int
	documents      bool
}
