package kron

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// refreshes counts the refreshes in updates first to last.
func refreshes(c Cadence, first, last int64) int {
	count := 0
	for n := first; n <= last; n++ {
		if c.Refreshes(n) {
			count++
		}
	}
	return count
}

func TestCadenceEvery(t *testing.T) {
	for _, every := range []int{0, 1} {
		assert.Equal(t, 250, refreshes(Cadence{Every: every}, 1, 250))
	}
	for n := int64(1); n < 100; n++ {
		assert.Equal(t, n%5 == 1, Cadence{Every: 5}.Refreshes(n), "update %d", n)
	}
	assert.Equal(t, 200/5+2, refreshes(Cadence{Every: 5}, 1, 200), "updates 100 and 200 balance")
	assert.Equal(t, 0.2, Cadence{Every: 5}.probability(7))
	assert.Equal(t, 1.0, Cadence{}.probability(7))
}

// TestCadenceAnneals compares rates with the published schedule, clip(exp(-0.001 (n - 500)), 0.03, 1).
func TestCadenceAnneals(t *testing.T) {
	c := DefaultCadence()
	assert.Equal(t, 1000, refreshes(c, 1, 1000), "the default refreshes always")
	c.Anneal = true
	assert.Equal(t, 500, refreshes(c, 1, 500))
	for n, want := range map[int64]float64{1: 1, 500: 1, 1500: 0.367879441, 2500: 0.135335283, 4000: 0.0301973834, 4007: 0.03, 1e9: 0.03} {
		assert.InDelta(t, want, c.probability(n), 1e-8, "update %d", n)
	}
	// The number of refreshes among n draws of probability p has a deviation of sqrt(sum p (1-p)); five of them are allowed. Of updates that balance,
	// one in a hundred, all refresh.
	for _, span := range [][2]int64{{501, 1500}, {1501, 2500}, {2501, 4000}, {10001, 110000}} {
		mean, variance := 0.0, 0.0
		for n := span[0]; n <= span[1]; n++ {
			p := c.probability(n)
			if balances(n) {
				p = 1
			}
			mean, variance = mean+p, variance+p*(1-p)
		}
		assert.InDelta(t, mean, refreshes(c, span[0], span[1]), 5*math.Sqrt(variance), "%v", span)
	}
	never := Cadence{Anneal: true, Decay: 1}
	assert.Equal(t, []bool{true, false, true}, []bool{never.Refreshes(1), never.Refreshes(99), never.Refreshes(100)})
}

// TestCadenceIsAFunctionOfTheUpdate: asked again, in another order, by another value, the answers are the same.
func TestCadenceIsAFunctionOfTheUpdate(t *testing.T) {
	c := DefaultCadence()
	c.Anneal = true
	raw, err := json.Marshal(c)
	require.NoError(t, err)
	var again Cadence
	require.NoError(t, json.Unmarshal(raw, &again))
	var first []bool
	for n := int64(1); n <= 3000; n++ {
		first = append(first, c.Refreshes(n))
	}
	for n := int64(3000); n >= 1; n-- {
		require.Equal(t, first[n-1], again.Refreshes(n))
	}
	assert.Contains(t, first[1000:], false)
	// Neighbours are independent: as many pairs of equal answers as p² + (1-p)² says.
	c.FlatStart, c.MinProbability, c.Decay = 0, 0.5, 1
	equal := 0
	for n := int64(2); n < 20000; n++ {
		if c.Refreshes(n) == c.Refreshes(n+1) {
			equal++
		}
	}
	assert.InDelta(t, 10000, equal, 5*math.Sqrt(20000*0.25))
}

func TestCadenceValidates(t *testing.T) {
	require.NoError(t, Cadence{}.Validate())
	require.NoError(t, DefaultCadence().Validate())
	for want, c := range map[string]Cadence{
		"kron: cadence: every: found -1, wanted 0 or more":                                             {Every: -1},
		"kron: cadence: every: found 3 with anneal, wanted one of the two: every 0 or 1, or no anneal": {Every: 3, Anneal: true},
		"kron: cadence: min_probability: found 1.5, wanted 0 to 1":                                     {MinProbability: 1.5},
		"kron: cadence: min_probability: found NaN, wanted 0 to 1":                                     {MinProbability: math.NaN()},
		"kron: cadence: decay: found -1, wanted 0 or more":                                             {Decay: -1},
		"kron: cadence: decay: found +Inf, wanted 0 or more":                                           {Decay: math.Inf(1)},
		"kron: cadence: flat_start: found -5, wanted 0 or more":                                        {FlatStart: -5},
	} {
		assert.EqualError(t, c.Validate(), want)
	}
}
