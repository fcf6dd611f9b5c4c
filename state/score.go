package state

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"gputrain/graph"
	"gputrain/model"
	"gputrain/run/data"
)

// Measure makes Evaluate give the loss of an objective in place of the loss of the next token. The head of the model has to suit it. memory is what the
// objective goes on from, as a checkpoint has it; nil: nothing.
func (m *Model) Measure(o model.Objective, memory map[string]float64) error {
	if err := o.Validate(); err != nil {
		return fmt.Errorf("state: measure: %w", err)
	}
	m.passes.evaluator.release()
	m.passes.evaluator, m.passes.objective = shaped{}, o
	m.forward = measuring{m.passes, aheadOfEvaluation{o.OfBatch(), memory, m.passes.look}}
	return nil
}

// measuring are the passes of a model whose evaluations are of an objective.
type measuring struct {
	*passes
	ahead aheadOfEvaluation
}

func (m measuring) Losses(ctx context.Context, e *data.Evaluation, yield func(BatchLoss) bool) error {
	return m.passes.Losses(ctx, m.ahead.lay(ctx, e), yield)
}

// look is the pass before an evaluation over all rows of a batch.
func (m *passes) look(ctx context.Context, rows model.Rows) ([]float32, error) {
	o, _ := m.objective.Ahead()
	found, err := m.Look(ctx, []Feed{FeedOf(o, data.Batch{Rows: rows.Count, Tokens: rows.Tokens, Labels: rows.Labels, Beside: rows.Beside})})
	return slices.Concat(found...), err
}

// Scores gives the output of a head other than logits for each row of tokens: scores or a vector. batch rows are computed at once; rows change each other's
// numbers by rounding alone. Rows that end in pad_token_id are computed as all others.
func (m *Model) Scores(ctx context.Context, rows [][]int32, batch int) ([][]float32, error) {
	if err := m.checkRows(rows, batch); err != nil {
		return nil, fmt.Errorf("state: scores: %w", err)
	}
	order := make([]int, len(rows))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(len(rows[a]), len(rows[b])) })
	out := make([][]float32, len(rows))
	for some := range slices.Chunk(order, max(1, batch)) {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		var together [][]int32
		for _, i := range some {
			together = append(together, rows[i])
		}
		found, err := m.passes.score(ctx, together, batch)
		if err != nil {
			return nil, fmt.Errorf("state: scores: %w", err)
		}
		for at, i := range some {
			out[i] = found[at]
		}
	}
	return out, nil
}

func (m *Model) checkRows(rows [][]int32, batch int) error {
	def := m.passes.def
	if model.HeadOf(def).Kind == "" {
		return fmt.Errorf("found a model of kind %s that gives logits of tokens, wanted one with scores or vectors", def.Kind())
	}
	if batch < 1 {
		return fmt.Errorf("batch: found %d, wanted 1 or more", batch)
	}
	for i, row := range rows {
		if len(row) < 1 || len(row) > def.Context() {
			return fmt.Errorf("row %d: found %d tokens, wanted 1 to the context %d", i, len(row), def.Context())
		}
		for at, token := range row {
			if token < 0 || int(token) >= def.Vocab() {
				return fmt.Errorf("row %d: token %d: found %d, wanted 0 to %d", i, at, token, def.Vocab()-1)
			}
		}
	}
	return nil
}

// leastScored is the length of the shortest program of Scores; others are twice as long, and so on.
const leastScored = 16

// ScoredTokens is the length of the program for rows of so many tokens, where the context of the model is no less.
func ScoredTokens(n int) int {
	seq := leastScored
	for seq < n {
		seq *= 2
	}
	return seq
}

// prepareScores makes the program for so many rows of a length.
func (m *passes) prepareScores(ctx context.Context, rows, seq int) error {
	return m.prepare(ctx, &m.scorer, batchShape{rows: rows, sequence: seq}, "scores", 1, func() (*model.Built, *graph.Value, error) {
		built, err := m.def.Build(rows, seq, model.Options{Logits: true})
		if err != nil {
			return nil, nil, err
		}
		return built, built.Logits, nil
	})
}

// score gives the outputs of the head for at most batch rows.
func (m *passes) score(ctx context.Context, rows [][]int32, batch int) ([][]float32, error) {
	longest := len(slices.MaxFunc(rows, func(a, b []int32) int { return cmp.Compare(len(a), len(b)) }))
	seq := min(ScoredTokens(longest), m.def.Context())
	if err := m.prepareScores(ctx, batch, seq); err != nil {
		return nil, err
	}
	b := data.Batch{Rows: batch, Tokens: make([]int32, batch*seq), Labels: slices.Repeat([]int32{graph.IgnoreLabel}, batch*seq)}
	for i, row := range rows {
		copy(b.Tokens[i*seq:], row)
		b.Labels[i*seq+len(row)-1] = 0
	}
	in := model.Ends(rowsOf(b))
	all, err := m.scorer.once(ctx, Feed{Batch: b, Rows: in.Ends, Floats: in.Floats})
	if err != nil {
		return nil, err
	}
	each, out := len(all)/batch, [][]float32{}
	for i := range rows {
		out = append(out, all[i*each:(i+1)*each])
	}
	return out, nil
}
