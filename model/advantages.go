package model

import (
	"fmt"
	"math"
	"slices"
)

// Rewarding says how the rewards of completions become their advantages. A group is Group completions of one prompt, one behind the other.
type Rewarding struct {
	Group   int
	Weights []float64 // of each reward function
	// Scale is what differences from a group's mean are divided by: the deviation of the group (ScaleGroup, also ""), that of all (ScaleBatch), nothing
	// (ScaleNone). Apart (GDPO) scales the rewards of each function by their groups, and then their weighted sum by all; Scale does not count.
	Scale string
	Apart bool
}

// Values of Rewarding.Scale.
const (
	ScaleGroup = "group"
	ScaleBatch = "batch"
	ScaleNone  = "none"
)

// Advantages are what a batch of rewards comes to. What does not exist is NaN: a mean of nothing, a deviation of less than two.
type Advantages struct {
	Of                 []float64 // of each completion; 0 where no function said anything, or nobody else of the group has a reward
	Reward, Deviation  float64   // mean and deviation of the weighted sums of all completions
	Means, Deviations  []float64 // of each function, over what it said
	Flat               []bool    // of each completion: the deviation that Scale names is 0
	FlatShare, Silence float64   // shares of completions: of Flat ones, and of those without any reward
}

// scaleEps is added to deviations, and flat is what one of 0 may have by rounding.
const scaleEps, flat = 1e-4, 1e-8

// Advantages are those of completions, of each the rewards of all functions; NaN: the function said nothing. A reward of a completion is the weighted sum of
// what was said. Everything is computed here, over all groups, in float64: a group of equal rewards has the advantage 0 to the last bit.
//
//	group, batch, none  (R - mean of the group)/(deviation of the group, or of all, + 1e-4); R - mean of the group
//	Apart               y = sum of weight (x - mean of the group)/(deviation of the group + 1e-4); (y - mean of all)/(deviation of all + 1e-4)
//
// Deviations divide by one less than there are numbers. GRPO Shao et al. 2024 (arXiv:2402.03300); none Liu et al. 2025 (arXiv:2503.20783).
func (r Rewarding) Advantages(rewards [][]float64) (a Advantages, err error) {
	if err := r.check(rewards); err != nil {
		return a, err
	}
	n, functions := len(rewards), len(r.Weights)
	silent, level := 0, 0
	a = Advantages{Of: make([]float64, n), Flat: make([]bool, n)}
	sums := make([]float64, n)
	for i, row := range rewards {
		sums[i] = weighed(row, r.Weights)
		if math.IsNaN(sums[i]) {
			silent++
		}
	}
	a.Reward, a.Deviation = meanDeviation(sums)
	for f := range functions {
		mean, deviation := meanDeviation(column(rewards, f))
		a.Means, a.Deviations = append(a.Means, mean), append(a.Deviations, deviation)
	}
	divisors := make([]float64, n) // the deviation that each is divided by
	switch {
	case r.Apart:
		scaled := make([][]float64, n)
		for i := range scaled {
			scaled[i] = make([]float64, functions)
		}
		for f := range functions {
			for i, x := range r.centred(column(rewards, f), divisors) {
				scaled[i][f] = x / (number0(divisors[i]) + scaleEps)
			}
		}
		for i, row := range scaled {
			sums[i] = weighed(row, r.Weights)
		}
		mean, deviation := meanDeviation(sums)
		for i, y := range sums {
			a.Of[i], divisors[i] = y-mean, deviation
		}
	default:
		a.Of = r.centred(sums, divisors)
		if r.Scale == ScaleBatch {
			for i := range divisors {
				divisors[i] = a.Deviation
			}
		}
	}
	for i, deviation := range divisors {
		if a.Flat[i] = deviation <= flat; a.Flat[i] {
			level++
		}
		switch {
		case math.IsNaN(sums[i]):
			a.Of[i] = 0
		case r.Apart || r.Scale != ScaleNone:
			a.Of[i] /= number0(deviation) + scaleEps
		}
	}
	a.FlatShare, a.Silence = float64(level)/float64(n), float64(silent)/float64(n)
	return a, nil
}

func (r Rewarding) check(rewards [][]float64) error {
	if r.Group < 2 {
		return fmt.Errorf("model: advantages: found groups of %d, wanted at least 2 completions of a prompt", r.Group)
	}
	if len(rewards) == 0 || len(rewards)%r.Group != 0 {
		return fmt.Errorf("model: advantages: found %d completions, wanted whole groups of %d", len(rewards), r.Group)
	}
	if known := []string{"", ScaleGroup, ScaleBatch, ScaleNone}; !slices.Contains(known, r.Scale) {
		return fmt.Errorf("model: advantages: scale: found %q, wanted one of %q", r.Scale, known[1:])
	}
	for i, row := range rewards {
		if len(row) != len(r.Weights) || len(row) == 0 {
			return fmt.Errorf("model: advantages: row %d: found %d rewards, wanted one of each of %d functions", i, len(row), len(r.Weights))
		}
		for f, x := range row {
			if math.Abs(x) > largestReward || math.Abs(x*r.Weights[f]) > largestReward {
				return fmt.Errorf("model: advantages: row %d: function %d: found the reward %v, wanted at most %v, also times its weight", i, f, x, largestReward)
			}
		}
	}
	return nil
}

// largestReward bounds rewards, so that squares of their sums are finite.
const largestReward = 1e30

// centred are x less the means of their groups, whose deviations it leaves.
func (r Rewarding) centred(x, deviations []float64) []float64 {
	out := make([]float64, len(x))
	for from := 0; from < len(x); from += r.Group {
		mean, deviation := meanDeviation(x[from : from+r.Group])
		for i := from; i < from+r.Group; i++ {
			out[i], deviations[i] = x[i]-mean, deviation
		}
	}
	return out
}

// meanDeviation are mean and deviation of what is there; NaN for what does not exist.
func meanDeviation(x []float64) (mean, deviation float64) {
	low, high, k := math.Inf(1), math.Inf(-1), 0.0
	for _, v := range x {
		if !math.IsNaN(v) {
			low, high, k = min(low, v), max(high, v), k+1
			mean += v
		}
	}
	switch {
	case k == 0:
		return math.NaN(), math.NaN()
	case k == 1:
		return mean, math.NaN()
	case low == high: // what sums round is no difference
		return low, 0
	}
	mean /= k
	for _, v := range x {
		if !math.IsNaN(v) {
			deviation += (v - mean) * (v - mean)
		}
	}
	return mean, math.Sqrt(deviation / (k - 1))
}

// weighed is the weighted sum of what is there, NaN for nothing.
func weighed(x, weights []float64) float64 {
	sum, said := 0.0, false
	for i, v := range x {
		if !math.IsNaN(v) {
			sum, said = sum+weights[i]*v, true
		}
	}
	if !said {
		return math.NaN()
	}
	return sum
}

func column(rows [][]float64, i int) []float64 {
	out := make([]float64, len(rows))
	for row := range rows {
		out[row] = rows[row][i]
	}
	return out
}

// number0 is x, 0 for what does not exist.
func number0(x float64) float64 {
	if math.IsNaN(x) {
		return 0
	}
	return x
}
