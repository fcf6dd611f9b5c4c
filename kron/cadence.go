package kron

import (
	"fmt"
	"math"

	"gputrain/buffers/prng"
)

// Cadence says in which updates the factors are refreshed; in the others they are only applied, two products instead of a refresh. It is a
// pure function of its fields and the number of the update: a resumed run and every stage of a pipeline decide alike.
//
// The first update always refreshes, and so does every one that balances the factors (balances).
type Cadence struct {
	Every          int     `json:"every" doc:"one update in this many refreshes the factors; 0 and 1: every update"`
	Anneal         bool    `json:"anneal" doc:"refresh at random instead, in update n with probability exp(-decay (n - flat_start)), at most 1"`
	MinProbability float64 `json:"min_probability" doc:"lowest probability, 0 to 1"`
	Decay          float64 `json:"decay" doc:"how fast the probability falls, per update"`
	FlatStart      int64   `json:"flat_start" doc:"updates before the probability falls"`
}

// DefaultCadence refreshes in every update. Its annealing, if chosen, is PSGD Kron's (kron_torch,
// precond_update_prob_schedule): 1 for 500 updates, 0.03 from update 4,007 on.
func DefaultCadence() Cadence {
	return Cadence{Every: 1, MinProbability: 0.03, Decay: 0.001, FlatStart: 500}
}

// Validate checks ranges.
func (c Cadence) Validate() error {
	switch {
	case c.Every < 0:
		return fmt.Errorf("kron: cadence: every: found %d, wanted 0 or more", c.Every)
	case c.Anneal && c.Every > 1:
		return fmt.Errorf("kron: cadence: every: found %d with anneal, wanted one of the two: every 0 or 1, or no anneal", c.Every)
	case !(c.MinProbability >= 0 && c.MinProbability <= 1):
		return fmt.Errorf("kron: cadence: min_probability: found %g, wanted 0 to 1", c.MinProbability)
	case !(c.Decay >= 0) || math.IsInf(c.Decay, 0):
		return fmt.Errorf("kron: cadence: decay: found %g, wanted 0 or more", c.Decay)
	case c.FlatStart < 0:
		return fmt.Errorf("kron: cadence: flat_start: found %d, wanted 0 or more", c.FlatStart)
	}
	return nil
}

// cadenceSeed seeds the draws that decide about a refresh; the blocks have the seeds 42 to 46.
const cadenceSeed = 47

// Refreshes tells whether update n, counted from 1, refreshes the factors.
func (c Cadence) Refreshes(n int64) bool {
	if n <= 1 || balances(n) {
		return true
	}
	if c.Anneal {
		return float64(prng.NewKey(cadenceSeed).Uniform(uint64(n))) < c.probability(n)
	}
	return (n-1)%int64(max(c.Every, 1)) == 0
}

// probability is the probability of a refresh in update n; without Anneal it is one over Every.
func (c Cadence) probability(n int64) float64 {
	if !c.Anneal {
		return 1 / float64(max(c.Every, 1))
	}
	return min(1, max(c.MinProbability, math.Exp(-c.Decay*float64(n-c.FlatStart))))
}
