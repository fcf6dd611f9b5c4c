package state

import (
	"context"

	"gputrain/buffers"
	"gputrain/buffers/array"
	"gputrain/graph"
	"gputrain/model"
	"gputrain/run/data"
)

// Losses hands out the loss of each batch while the next one is under way; see forwardPasses.
func (m *passes) Losses(ctx context.Context, e *data.Evaluation, yield func(BatchLoss) bool) error {
	var counts []int // of the batches under way, two at most
	next := func() (BatchLoss, error) {
		raw, err := m.evaluator.ring.Next(context.WithoutCancel(ctx))
		if err != nil {
			return BatchLoss{}, err
		}
		count := counts[0]
		counts = counts[1:]
		return ParseBatchLoss(array.Decoded(buffers.F32, raw), m.objective, count), nil
	}
	defer func() { // the ring is empty for the next evaluation
		for len(counts) > 0 {
			if _, err := next(); err != nil {
				return
			}
		}
	}()
	await := func(under int) (more bool, err error) {
		for len(counts) > under {
			if loss, err := next(); err != nil || !yield(loss) {
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

// evaluate submits a batch, and counts what counts in it.
func (m *passes) evaluate(ctx context.Context, batch data.Batch) (count int, err error) {
	if err := m.prepareEvaluation(ctx, batch.Rows, len(batch.Tokens)/batch.Rows); err != nil {
		return 0, err
	}
	f := FeedOf(m.objective.OfBatch(), batch)
	if err := f.Write(m.evaluator.graph); err != nil {
		return 0, err
	}
	return int(f.Counts.Of), m.evaluator.run.Submit(context.WithoutCancel(ctx))
}

func (m *passes) prepareEvaluation(ctx context.Context, rows, sequence int) error {
	return m.prepare(ctx, &m.evaluator, batchShape{rows, sequence, m.documents}, "evaluation", 2, func() (*model.Built, *graph.Value, error) {
		return Evaluation(m.def, m.objective.OfBatch(), rows, sequence, m.documents)
	})
}

// Evaluation is the graph of a batch without gradients, and what ParseBatchLoss reads: the sum of the losses, behind it those of the objective, and behind
// these model.Built.Rows.
func Evaluation(def model.Definition, o model.Objective, batch, sequence int, documents bool) (*model.Built, *graph.Value, error) {
	built, err := def.Build(batch, sequence, model.Options{Loss: true, Training: o.Row().Drops, Documents: documents, Objective: o})
	if err != nil {
		return nil, nil, err
	}
	losses := built.LossSum
	if built.Sums != nil || built.Rows != nil {
		losses = built.Graph.Reshape(losses, 1)
	}
	for _, more := range []*graph.Value{built.Sums, built.Rows} {
		if more != nil {
			losses = built.Graph.Concat(0, losses, more)
		}
	}
	return built, losses, nil
}

// ParseBatchLoss reads what a batch of an evaluation of an objective has left.
func ParseBatchLoss(left []float32, o model.Objective, count int) BatchLoss {
	row := o.Row()
	behind := 1 + len(row.Sums)
	return BatchLoss{Sum: left[0], Tokens: count, Sums: left[1:behind:behind], Maxima: row.Maxima, Rows: left[behind:]}
}
