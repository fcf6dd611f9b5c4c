package state

import (
	"context"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"slices"

	"gputrain/graph"
	"gputrain/model"
	"gputrain/run/data"
)

// ahead lays beside this replica's rows of an update what the objective finds of those of all replicas before the first backward pass.
func (s *TrainState) ahead(ctx context.Context, b data.Batch) (data.Batch, error) {
	a := s.job.Objective.Row().Ahead
	if a == nil {
		return b, nil
	}
	before, err := s.rowBefore(ctx, a, b)
	if err != nil {
		return b, err
	}
	rows, err := a.Rows(rowsOf(b), before)
	if err != nil {
		return b, err
	}
	own, err := s.look(ctx, rows)
	if err != nil {
		return b, err
	}
	all := own
	if s.job.joined() {
		var words []uint32
		for _, x := range own {
			words = append(words, math.Float32bits(x))
		}
		if words, err = s.gatherWords(ctx, words); err != nil {
			return b, err
		}
		all = nil
		for _, word := range words {
			all = append(all, math.Float32frombits(word))
		}
	}
	counts := slices.Repeat([]bool{true}, s.job.Batch*s.job.Microbatches)
	laid, memory := a.Lay(s.job.Objective.Numbers, model.Seen{Rows: eachOf(all, len(counts)), Counts: counts, Learning: true}, s.own.Memory)
	s.own.Memory = memory
	return besides(b, laid, s.job.Share().First*s.job.Batch, len(counts)), nil
}

// aheadOfEvaluation is ahead for an evaluation: of all of its rows, also those of other parts of it. Nothing of them is remembered, and where the loss goes on
// from what is remembered they are not looked at.
type aheadOfEvaluation struct {
	objective model.Objective
	memory    map[string]float64
	look      func(ctx context.Context, rows model.Rows) ([]float32, error)
}

func (s *TrainState) aheadOfEvaluation() aheadOfEvaluation {
	return aheadOfEvaluation{s.job.Objective.OfBatch(), s.own.Memory, s.look}
}

// lay lays what is found of the rows of an evaluation beside them.
func (s aheadOfEvaluation) lay(ctx context.Context, e *data.Evaluation) *data.Evaluation {
	a := s.objective.Row().Ahead
	if a == nil {
		return e
	}
	var all map[string][]float32
	return e.Laid(func(first int, b data.Batch) (data.Batch, error) {
		if all == nil {
			var err error
			if all, err = s.layWhole(ctx, *a, e.Whole()); err != nil {
				return b, err
			}
		}
		return besides(b, all, first, e.Whole().Batches()*b.Rows), nil
	})
}

// layWhole is what is laid beside the rows of a whole evaluation.
func (s aheadOfEvaluation) layWhole(ctx context.Context, a model.Ahead, e *data.Evaluation) (map[string][]float32, error) {
	var all []float32
	var counts []bool
	var before *model.Rows // that has a completion
	for i := range e.Batches() {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		if i == 0 && a.Mismatched {
			last, err := e.Batch(e.Batches() - 1)
			if err != nil {
				return nil, err
			}
			before = lastOf(last)
		}
		b, err := e.Batch(i)
		if err != nil {
			return nil, err
		}
		rows, err := a.Rows(rowsOf(b), before)
		if err != nil {
			return nil, err
		}
		for _, lengths := range a.Lengths(rowsOf(b)) {
			counts = append(counts, lengths[1] > 0)
		}
		found := make([]float32, 2*b.Rows) // of rows that are not looked at
		if a.Memory == nil {
			if found, err = s.look(context.WithoutCancel(ctx), rows); err != nil {
				return nil, err
			}
		}
		all, before = append(all, found...), lastOf(b)
	}
	laid, _ := a.Lay(s.objective.Numbers, model.Seen{Rows: eachOf(all, len(counts)), Counts: counts}, s.memory)
	return laid, nil
}

// lastOf is the last row of a batch that is no padding.
func lastOf(b data.Batch) *model.Rows {
	for row := b.Rows - 1; row > 0; row-- {
		if one := b.Part(data.Share{First: row, Rows: 1}); one.Count > 0 {
			return &model.Rows{Tokens: one.Tokens, Labels: one.Labels, Count: 1}
		}
	}
	one := b.Part(data.Share{Rows: 1})
	return &model.Rows{Tokens: one.Tokens, Labels: one.Labels, Count: 1}
}

// besides lays beside a batch what is its rows' of all, whose first row is so far from that of all.
func besides(b data.Batch, all map[string][]float32, first, rows int) data.Batch {
	own := maps.Clone(b.Beside)
	if own == nil {
		own = map[string][]float32{}
	}
	for name, values := range all {
		each := len(values) / rows
		own[name] = values[first*each : (first+b.Rows)*each]
	}
	b.Beside = own
	return b
}

// eachOf are the numbers of each of n rows.
func eachOf(all []float32, n int) [][]float32 {
	return slices.Collect(slices.Chunk(all, max(1, len(all)/max(1, n))))
}

// look is the pass over rows before an update: as many numbers of each as of any other.
func (s *TrainState) look(ctx context.Context, rows model.Rows) (all []float32, err error) {
	if s.job.Objective.ReadsReference(s.job.Definition) && rows.Beside[model.InputReference] == nil {
		return nil, fmt.Errorf("batch: found no log-probabilities by a reference, wanted those that %s looks at before an update", s.job.Objective.Loss)
	}
	found, err := s.lookAt(ctx, data.Batch{Rows: rows.Count, Tokens: rows.Tokens, Labels: rows.Labels, Beside: rows.Beside})
	all = slices.Concat(found...)
	return all[:len(all)/max(1, len(found)*s.job.Batch)*rows.Count], err
}

// LogProbs are the log-probabilities of all labels of a batch of any number of rows, by the parameters of the newest step, for an objective that reads them beside
// its rows (model.InputOld): 0 where there is no label. On several ranks each asks for rows of its own, those of one replica for the same.
func (s *TrainState) LogProbs(ctx context.Context, b data.Batch) (all []float32, err error) {
	if !s.job.Objective.ReadsOld() {
		return nil, fmt.Errorf("state: log-probabilities: found the loss %q, wanted one that reads them before its updates", s.job.Objective.Loss)
	}
	err = s.usable()
	if err == nil && (len(b.Tokens) != b.Rows*s.job.Sequence || len(b.Labels) != len(b.Tokens)) {
		err = fmt.Errorf("batch: %d rows, %d tokens, %d labels, want rows of %d tokens", b.Rows, len(b.Tokens), len(b.Labels), s.job.Sequence)
	}
	if err == nil {
		err = KnownTokens(s.job.Definition.Vocab(), b.Tokens...)
	}
	if err != nil {
		return nil, fmt.Errorf("state: log-probabilities: %w", err)
	}
	found, err := s.lookAt(context.WithoutCancel(ctx), b)
	if err != nil {
		return nil, fmt.Errorf("state: log-probabilities: %w", err)
	}
	all = slices.Concat(found...)[:len(b.Tokens)]
	for i, label := range b.Labels {
		if label == graph.IgnoreLabel {
			all[i] = 0
		}
	}
	return all, nil
}

// lookAt is what the pass before an update gives of rows, which it takes a microbatch at a time; rows that lack to the last one are added.
func (s *TrainState) lookAt(ctx context.Context, whole data.Batch) ([][]float32, error) {
	n, seq := s.job.Batch, len(whole.Tokens)/max(1, whole.Rows)
	o, _ := s.job.Objective.Ahead()
	var feeds []Feed
	for first := 0; first < whole.Rows; first += n {
		b := whole.Part(data.Share{First: first, Rows: min(n, whole.Rows-first)})
		if lacking := n - b.Rows; lacking > 0 {
			b.Rows, b.Tokens = n, slices.Concat(b.Tokens, make([]int32, lacking*seq))
			b.Labels = slices.Concat(b.Labels, slices.Repeat([]int32{graph.IgnoreLabel}, lacking*seq))
			for name, values := range b.Beside {
				b.Beside[name] = slices.Concat(values, make([]float32, lacking))
			}
		}
		f := FeedOf(o, b)
		f.DropoutKey = s.job.dropoutKey(s.own.Step, s.job.Share().First+len(feeds))
		feeds = append(feeds, f)
	}
	return s.passes.Look(ctx, feeds)
}

// rowBefore is the row before the first of this replica's share, which another has; nil where none has another.
func (s *TrainState) rowBefore(ctx context.Context, a *model.Ahead, b data.Batch) (*model.Rows, error) {
	if !a.Mismatched || !s.job.joined() {
		return nil, nil
	}
	var last []uint32
	if seq := s.job.Sequence; b.Rows > 0 {
		for _, id := range slices.Concat(b.Tokens[(b.Rows-1)*seq:], b.Labels[(b.Rows-1)*seq:]) {
			last = append(last, uint32(id))
		}
	}
	all, err := s.gatherWords(ctx, last)
	if err != nil {
		return nil, err
	}
	rank, replicas := s.job.replicas()
	at := 0 // replicas before this one that have rows
	for r := range rank {
		at += min(1, Share(s.job.Microbatches, r, replicas).Count)
	}
	var ids []int32
	n := 2 * s.job.Sequence
	for _, id := range all[(at*n+len(all)-n)%len(all):][:n] {
		ids = append(ids, int32(id))
	}
	return &model.Rows{Tokens: ids[:n/2], Labels: ids[n/2:], Count: 1}, nil
}

// gatherWords are those of all replicas, in the order of their rows.
func (s *TrainState) gatherWords(ctx context.Context, own []uint32) (all []uint32, err error) {
	var raw []byte
	if s.hasLosses() {
		for _, word := range own {
			raw = binary.LittleEndian.AppendUint32(raw, word)
		}
	}
	given, err := s.gather(ctx, raw)
	if err != nil {
		return nil, fmt.Errorf("reduce: rows ahead of an update: %w", err)
	}
	for word := range slices.Chunk(slices.Concat(given...), 4) {
		all = append(all, binary.LittleEndian.Uint32(word))
	}
	return all, nil
}

// Look makes the pass before an update; see forwardPasses.
func (m *passes) Look(ctx context.Context, feeds []Feed) (all [][]float32, err error) {
	o, _ := m.objective.Ahead()
	for _, f := range feeds {
		if err := m.prepareLook(ctx, f.Batch.Rows, len(f.Batch.Tokens)/f.Batch.Rows); err != nil {
			return nil, err
		}
		left, err := m.looker.once(ctx, f)
		if err != nil {
			return nil, err
		}
		all = append(all, ParseBatchLoss(left, o, 0).Rows)
	}
	return all, nil
}

func (m *passes) prepareLook(ctx context.Context, rows, sequence int) error {
	return m.prepare(ctx, &m.looker, batchShape{rows: rows, sequence: sequence}, "look", 1, func() (*model.Built, *graph.Value, error) {
		o, _ := m.objective.Ahead()
		return Evaluation(m.def, o, rows, sequence, false)
	})
}
