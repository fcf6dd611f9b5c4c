package state

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"gputrain/data"
	"gputrain/model"
)

// PairMetrics are the means over the pairs of a step; zero without a Preference.
type PairMetrics struct {
	RewardsChosen, RewardsRejected float64
	Accuracy                       float64 // share of the pairs whose chosen completion has the greater reward
	LogPsChosen, LogPsRejected     float64
}

// Margin is by how much the chosen completions' rewards are greater.
func (p PairMetrics) Margin() float64 { return p.RewardsChosen - p.RewardsRejected }

// PairSums are model.Pairs.Sums of a batch.
type PairSums [len(model.PairFigures)]float32

const pairBytes = uint64(4 * len(PairSums{}))

// pairSums reads them.
func pairSums(raw []byte) (s PairSums) {
	for i := range s {
		s[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
	}
	return s
}

// add adds sums, divided by a number of pairs.
func (p *PairMetrics) add(s PairSums, count int64) {
	for i, to := range p.figures() {
		*to += float64(s[i]) / float64(count)
	}
}

// over is the mean of sums over so many pairs.
func (p PairMetrics) over(count int64) PairMetrics {
	for _, figure := range p.figures() {
		*figure /= float64(count)
	}
	return p
}

// figures are those of model.PairFigures.
func (p *PairMetrics) figures() [len(PairSums{})]*float64 {
	return [...]*float64{&p.RewardsChosen, &p.RewardsRejected, &p.Accuracy, &p.LogPsChosen, &p.LogPsRejected}
}

// pairRoom is what the sums over the pairs of a step's microbatches take.
func (j Job) pairRoom() uint64 {
	if j.Preference == nil {
		return 0
	}
	return (pairBytes*uint64(j.losses()) + 15) / 16 * 16
}

// parsePairs reads the sums over the pairs of microbatches, of so many pairs that count.
func (j Job) parsePairs(raw []byte, count int64) (m PairMetrics) {
	if len(raw) == 0 {
		return m
	}
	for range j.losses() {
		m.add(pairSums(raw), count)
		raw = raw[pairBytes:]
	}
	return m
}

// checkPreference refuses what an objective on pairs does not go with.
func (j Job) checkPreference() error {
	if j.Preference == nil {
		return nil
	}
	if err := j.Preference.Validate(); err != nil {
		return fmt.Errorf("state: config: %w", err)
	}
	switch {
	case j.Batch%2 != 0:
		return fmt.Errorf("state: config: preference: found batch %d, wanted an even number: a pair has two sequences", j.Batch)
	case j.Evaluation%2 != 0:
		return fmt.Errorf("state: config: preference: found evaluations of %d sequences, wanted an even number: a pair has two", j.Evaluation)
	case j.Documents:
		return errors.New("state: config: preference: found sequences of documents, wanted a sequence for each completion")
	}
	return nil
}

// countPairs counts the pairs of a batch, each of which has labels in both of its rows.
func (j Job) countPairs(b data.Batch) (counts, error) {
	in := j.Preference.Inputs(b.Tokens, b.Labels, b.Rows)
	for pair, count := range in.Counts {
		if count == 0 {
			return counts{}, fmt.Errorf("batch: pair %d: found a completion without labels, wanted some in both", pair)
		}
	}
	return counts{int64(in.Pairs), int64(in.Learned)}, nil
}
