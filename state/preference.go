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

// pairBytes are those of model.Pairs.Sums.
var pairBytes = 4 * uint64(len(model.PairFigures))

// pairRoom is what the sums over the pairs of a step's microbatches take.
func (c Config) pairRoom() uint64 {
	if c.Preference == nil {
		return 0
	}
	return (pairBytes*uint64(c.losses()) + 15) / 16 * 16
}

// parsePairs reads the sums over the pairs of microbatches, of so many pairs that count.
func (c Config) parsePairs(raw []byte, count int64) (m PairMetrics) {
	if len(raw) == 0 {
		return m
	}
	to := []*float64{&m.RewardsChosen, &m.RewardsRejected, &m.Accuracy, &m.LogPsChosen, &m.LogPsRejected}
	for range c.losses() {
		for i, figure := range to {
			*figure += float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))) / float64(count)
		}
		raw = raw[pairBytes:]
	}
	return m
}

// learnedScale is model.InputLearnedScale.
func learnedScale(in model.PairInputs) float32 {
	return float32(float64(in.Pairs) / float64(max(1, in.Learned)))
}

// checkPreference refuses what an objective on pairs does not go with.
func (c Config) checkPreference() error {
	if c.Preference == nil {
		return nil
	}
	if err := c.Preference.Validate(); err != nil {
		return fmt.Errorf("state: config: %w", err)
	}
	switch {
	case c.Batch%2 != 0:
		return fmt.Errorf("state: config: preference: found batch %d, wanted an even number: a pair has two sequences", c.Batch)
	case c.Evaluation%2 != 0:
		return fmt.Errorf("state: config: preference: found evaluations of %d sequences, wanted an even number: a pair has two", c.Evaluation)
	case c.Documents:
		return errors.New("state: config: preference: found sequences of documents, wanted a sequence for each completion")
	case c.joined() || c.Mesh != nil:
		return errors.New("state: config: preference: found several ranks, wanted one")
	}
	return nil
}

// countPairs counts the pairs of a batch, each of which has labels in both of its rows.
func (c Config) countPairs(b data.Batch) (int64, error) {
	in := c.Preference.Inputs(b.Tokens, b.Labels, b.Rows)
	for pair, counts := range in.Counts {
		if counts == 0 {
			return 0, fmt.Errorf("batch: pair %d: found a completion without labels, wanted some in both", pair)
		}
	}
	return int64(in.Pairs), nil
}
