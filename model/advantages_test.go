package model

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var silent = math.NaN()

// TestAdvantages has numbers worked out on paper: deviations over one less, rows about which nothing was said, groups of equal rewards.
func TestAdvantages(t *testing.T) {
	rewards := [][]float64{{1, 0}, {0, 0}, {1, silent}, {silent, silent}, {0.1, 0.2}, {0.1, 0.2}, {0.1, 0.2}, {0.1, 0.2}, {silent, 3}, {silent, silent}, {silent, silent}, {silent, silent}}
	third, deviation := 1.0/3, math.Sqrt(1.0/3) // of 1, 0 and 1
	a, err := Rewarding{Group: 4, Weights: []float64{1, 1}}.Advantages(rewards)
	require.NoError(t, err)
	want := []float64{third / (deviation + 1e-4), -2 * third / (deviation + 1e-4), third / (deviation + 1e-4), 0, 0, 0, 0, 0, 0, 0, 0, 0}
	assert.InDeltaSlice(t, want, a.Of, 1e-14)
	for _, of := range a.Of[3:] {
		assert.Zero(t, of, "to the last bit")
	}
	assert.Equal(t, []bool{false, false, false, false, true, true, true, true, false, false, false, false}, a.Flat)
	assert.InDelta(t, 1.0/3, a.FlatShare, 1e-15)
	assert.InDelta(t, 4.0/12, a.Silence, 1e-15)
	assert.InDelta(t, (1+0+1+4*0.3+3)/8, a.Reward, 1e-15)
	assert.InDelta(t, 2.4/7, a.Means[0], 1e-15)
	assert.InDelta(t, 3.8/7, a.Means[1], 1e-15)

	a, err = Rewarding{Group: 4, Weights: []float64{1, 1}, Scale: ScaleNone}.Advantages(rewards)
	require.NoError(t, err)
	assert.InDeltaSlice(t, []float64{third, -2 * third, third, 0, 0, 0, 0, 0, 0, 0, 0, 0}, a.Of, 1e-14)

	a, err = Rewarding{Group: 2, Weights: []float64{2}, Scale: ScaleBatch}.Advantages([][]float64{{1}, {2}, {5}, {silent}})
	require.NoError(t, err)
	deviation = math.Sqrt(52.0 / 3) // of 2, 4 and 10
	assert.InDeltaSlice(t, []float64{-1 / (deviation + 1e-4), 1 / (deviation + 1e-4), 0, 0}, a.Of, 1e-14)
	assert.Zero(t, a.FlatShare)

	// GDPO: 1 and -1 over a deviation of sqrt 2 for the first function, a weight of 3, nothing of the second, which was said once.
	a, err = Rewarding{Group: 2, Weights: []float64{3, 1}, Apart: true}.Advantages([][]float64{{4, 7}, {6, silent}})
	require.NoError(t, err)
	y := 3 / (math.Sqrt2 + 1e-4)
	assert.InDeltaSlice(t, []float64{-y / (y*math.Sqrt2 + 1e-4), y / (y*math.Sqrt2 + 1e-4)}, a.Of, 1e-14)

	a, err = Rewarding{Group: 2, Weights: []float64{1}}.Advantages([][]float64{{silent}, {silent}})
	require.NoError(t, err)
	assert.True(t, math.IsNaN(a.Reward) && math.IsNaN(a.Deviation) && math.IsNaN(a.Means[0]), "none exists")
	assert.Equal(t, []float64{0, 0}, a.Of)
}

// TestAdvantagesOfAnyGroups adds up to 0 in each group, whatever is moved or stretched.
func TestAdvantagesOfAnyGroups(t *testing.T) {
	random := rand.New(rand.NewPCG(81, 82))
	for range 50 {
		r := Rewarding{Group: 2 + random.IntN(5), Weights: []float64{random.NormFloat64(), random.NormFloat64()}, Scale: []string{ScaleGroup, ScaleBatch, ScaleNone}[random.IntN(3)]}
		var rewards, moved [][]float64
		for range 3 * r.Group {
			row := []float64{random.NormFloat64(), random.NormFloat64()}
			rewards, moved = append(rewards, row), append(moved, []float64{row[0] + 5, row[1] - 7})
		}
		a, err := r.Advantages(rewards)
		require.NoError(t, err)
		b, err := r.Advantages(moved)
		require.NoError(t, err)
		assert.InDeltaSlice(t, a.Of, b.Of, 1e-10)
		for from := 0; from < len(a.Of); from += r.Group {
			sum := 0.0
			for _, x := range a.Of[from : from+r.Group] {
				sum += x
			}
			assert.InDelta(t, 0, sum, 1e-9)
		}
	}
}

func TestAdvantagesRefuses(t *testing.T) {
	good := Rewarding{Group: 2, Weights: []float64{1}}
	for want, c := range map[string]struct {
		r       Rewarding
		rewards [][]float64
	}{
		"found groups of 1, wanted at least 2 completions of a prompt": {Rewarding{Group: 1, Weights: []float64{1}}, [][]float64{{1}}},
		"found 3 completions, wanted whole groups of 2":                {good, [][]float64{{1}, {1}, {1}}},
		"found 0 completions": {good, nil},
		"row 1: found 2 rewards, wanted one of each of 1 functions":      {good, [][]float64{{1}, {1, 2}}},
		"row 1: function 0: found the reward +Inf, wanted at most 1e+30": {good, [][]float64{{1}, {math.Inf(1)}}},
		"row 0: function 0: found the reward 10, wanted at most 1e+30":   {Rewarding{Group: 2, Weights: []float64{1e300}}, [][]float64{{10}, {1}}},
		`scale: found "std", wanted one of ["group" "batch" "none"]`:     {Rewarding{Group: 2, Weights: []float64{1}, Scale: "std"}, [][]float64{{1}, {1}}},
	} {
		_, err := c.r.Advantages(c.rewards)
		require.ErrorContains(t, err, want)
	}
}
