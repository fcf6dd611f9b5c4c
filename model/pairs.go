package model

import (
	"slices"

	"gputrain/graph"
)

// PairInputs are what a graph of a Preference reads besides the tokens of a batch.
type PairInputs struct {
	Labels  []int32   // [batch*seq]: those given, and for ORPO those of the prompts of chosen rows
	Weights []float32 // [batch*seq], of each label in the log-probability of its completion
	Counts  []float32 // [batch/2]: 1, or 0 for a pair that a row lacks the completion of
	Pairs   int       // that count
	Learned int       // labels of their chosen rows, which are those of ORPO's mean
}

// LearnedScale is InputLearnedScale of a step, or of an evaluation's batch, with so many pairs and so many labels of ORPO's mean.
func LearnedScale(pairs, learned int64) float32 {
	return float32(float64(pairs) / float64(max(1, learned)))
}

// Inputs are those of a batch of rows of tokens and labels: rows 2i and 2i+1 are the chosen and the rejected completion of pair i, each after its prompt. The
// labels are those of the completions; the others are graph.IgnoreLabel.
func (p Preference) Inputs(tokens, labels []int32, rows int) PairInputs {
	seq := len(tokens) / rows
	in := PairInputs{Labels: slices.Clone(labels), Weights: make([]float32, len(labels)), Counts: make([]float32, rows/2)}
	ignored := func(label int32) bool { return label == graph.IgnoreLabel }
	for pair := range in.Counts {
		var own [2]int // labels of the completions
		for side := range own {
			for _, label := range labels[(2*pair+side)*seq:][:seq] {
				if !ignored(label) {
					own[side]++
				}
			}
		}
		if own[0] == 0 || own[1] == 0 {
			for i := 2 * pair * seq; i < 2*(pair+1)*seq; i++ {
				in.Labels[i] = graph.IgnoreLabel
			}
			continue
		}
		in.Counts[pair], in.Pairs, in.Learned = 1, in.Pairs+1, in.Learned+own[0]
		for side, n := range own {
			from := (2*pair + side) * seq
			weight := 1.0
			if p.Averages() {
				weight = 1 / float64(n)
			}
			begun := false
			for i := from; i < from+seq; i++ {
				switch {
				case !ignored(labels[i]):
					in.Weights[i], begun = float32(weight), true
				case !begun && side == 0 && p.Loss == PreferORPO:
					in.Labels[i] = tokens[i+1]
					in.Learned++
				}
			}
		}
	}
	return in
}
