package model

import (
	"errors"
	"fmt"
	"slices"

	"gputrain/graph"
)

// PairBatch is a batch of pairs of token ids, as the inputs of a graph of a Preference have them: rows 2i and 2i+1 are the chosen and the rejected
// completion of pair i, each after its prompt, and what a row lacks is padding.
type PairBatch struct {
	Tokens, Labels []int32   // [batch, seq], [batch*seq]
	Weights        []float32 // [batch*seq], of each label in the log-probability of its completion
	Learned        int       // labels of chosen rows, which are those of ORPO's mean
}

// Pair is a prompt and two completions of it.
type Pair struct {
	Prompt   []int32 `json:"prompt"`
	Chosen   []int32 `json:"chosen"`
	Rejected []int32 `json:"rejected"`
}

var errShortPair = errors.New("found a prompt or a completion without tokens, wanted at least one in each")

// Length is that of the longer of the rows of a pair.
func (p Pair) Length() int { return len(p.Prompt) + max(len(p.Chosen), len(p.Rejected)) - 1 }

// Batch lays pairs into rows of seq tokens.
func (p Preference) Batch(pairs []Pair, seq int) (PairBatch, error) {
	n := 2 * len(pairs) * seq
	b := PairBatch{Tokens: make([]int32, n), Labels: slices.Repeat([]int32{graph.IgnoreLabel}, n), Weights: make([]float32, n)}
	for i, pair := range pairs {
		if len(pair.Prompt) == 0 || len(pair.Chosen) == 0 || len(pair.Rejected) == 0 {
			return b, fmt.Errorf("model: preference: pair %d: %w", i, errShortPair)
		}
		if pair.Length() > seq {
			return b, fmt.Errorf("model: preference: pair %d: found %d tokens and one to come, wanted at most %d", i, pair.Length(), seq)
		}
		for side, completion := range [][]int32{pair.Chosen, pair.Rejected} {
			at := (2*i + side) * seq
			all := slices.Concat(pair.Prompt, completion)
			copy(b.Tokens[at:], all[:len(all)-1])
			weight := 1.0
			if p.Averages() {
				weight /= float64(len(completion))
			}
			for j, label := range all[1:] {
				if own := j+1 >= len(pair.Prompt); own || side == 0 && p.Prompts() {
					b.Labels[at+j] = label
					if own {
						b.Weights[at+j] = float32(weight)
					}
					if side == 0 {
						b.Learned++
					}
				}
			}
		}
	}
	return b, nil
}
