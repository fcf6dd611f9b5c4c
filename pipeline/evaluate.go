package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"gputrain/buffers"
	"gputrain/buffers/array"
	"gputrain/graph/compile"
	"gputrain/internal/schedule"
	"gputrain/model"
	"gputrain/run/data"
	"gputrain/state"
)

// Losses computes the losses of an evaluation, several batches under way at once; see state.OnStages.
func (p *passes) Losses(ctx context.Context, e *data.Evaluation, yield func(state.BatchLoss) bool) error {
	for first := 0; first < e.Batches(); first += evaluated {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		losses, err := p.losses(context.WithoutCancel(ctx), e, first, min(first+evaluated, e.Batches()))
		if err != nil {
			return err
		}
		for _, loss := range losses {
			if !yield(loss) {
				return nil
			}
		}
	}
	return nil
}

// losses computes those of the batches from first to end, all under way at once.
func (p *passes) losses(ctx context.Context, e *data.Evaluation, first, end int) (losses []state.BatchLoss, err error) {
	if p.evaluation == nil {
		return nil, errors.New("the configuration has no evaluation")
	}
	l, c := p.evaluation, p.job.State
	var feeds []state.Feed
	for i := first; i < end; i++ {
		b, err := e.Batch(i)
		if err != nil {
			return nil, err
		}
		if b.Rows != c.Evaluation || len(b.Tokens) != b.Rows*c.Sequence {
			return nil, fmt.Errorf("batch %d: %d rows of %d tokens in all, want %d rows of %d", i, b.Rows, len(b.Tokens), c.Evaluation, c.Sequence)
		}
		if err := state.KnownTokens(c.Definition.Vocab(), b.Tokens...); err != nil {
			return nil, fmt.Errorf("batch %d: %w", i, err)
		}
		if b.Positions != nil && !c.Documents {
			return nil, fmt.Errorf("batch %d: positions of documents, want Config.Documents, or none", i)
		}
		feeds = append(feeds, state.FeedOf(c.Objective.OfBatch(), b))
	}
	return p.forward(ctx, l, c.Objective.OfBatch(), feeds)
}

// forward runs a line without gradients for what an objective reads of batches, all under way at once.
func (p *passes) forward(ctx context.Context, l *line, o model.Objective, feeds []state.Feed) (losses []state.BatchLoss, err error) {
	raw, err := p.result(ctx, l, schedule.ForwardOnly(len(p.stages), p.job.Assignment.Parts, len(feeds)), written(feeds))
	if err != nil {
		return nil, err
	}
	left := array.Decoded(buffers.F32, raw)
	size := int(l.results[0].size) / 4
	for i, f := range feeds {
		losses = append(losses, state.ParseBatchLoss(left[i*size:][:size:size], o, int(f.Counts.Of)))
	}
	return losses, nil
}

// Look makes the pass before an update, several batches under way at once; see state.OnStages.
func (p *passes) Look(ctx context.Context, feeds []state.Feed) (all [][]float32, err error) {
	o, _ := p.job.State.Objective.Ahead()
	for some := range slices.Chunk(feeds, evaluated) {
		found, err := p.forward(ctx, p.look, o, some)
		if err != nil {
			return nil, err
		}
		for _, f := range found {
			all = append(all, f.Rows)
		}
	}
	return all, nil
}

// Take takes a piece of a window in; see state.OnStages.
func (p *passes) Take(ctx context.Context, piece state.Piece) ([]float32, error) {
	l := p.continuing[piece.Pass()]
	if l == nil {
		return nil, fmt.Errorf("the configuration has no sampling by %s", piece.Pass())
	}
	raw, err := p.result(ctx, l, l.schedule, func(to *compile.Program, _ int) error { return piece.Feed().Write(to) })
	if err != nil {
		return nil, err
	}
	return array.Decoded(buffers.F32, raw[:4*piece.Results(p.job.State.Definition.Vocab())]), nil
}

// result runs a line without gradients and reads what it has made.
func (p *passes) result(ctx context.Context, l *line, order *schedule.Schedule, write feed) ([]byte, error) {
	if err := p.run(ctx, l, whole(order), write, nil, nil); err != nil {
		return nil, err
	}
	raw := make([]byte, l.results[0].buffer.Bytes())
	if !p.last.away {
		if err := p.last.device.Read(ctx, raw, l.results[0].buffer.All()); err != nil {
			p.broken = p.mesh.FailRow(p.last.failed("results", err))
			return nil, p.broken
		}
	}
	p.broken = p.mesh.FailRow(p.Among(ctx, "results", func(ctx context.Context) error { return p.spread(ctx, raw) }))
	return raw, p.broken
}

// spread gives what the rank of the last stage has to the other ranks of the pipeline.
func (p *passes) spread(ctx context.Context, raw []byte) error {
	if p.last.away {
		return p.mesh.Receive(ctx, p.mesh.Home(p.last.index), tagResults, raw)
	}
	for _, rank := range p.mesh.Row() {
		if rank == p.mesh.Rank() {
			continue
		}
		if err := p.mesh.Send(ctx, rank, tagResults, raw); err != nil {
			return err
		}
	}
	return nil
}
