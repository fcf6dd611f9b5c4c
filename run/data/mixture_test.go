package data

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSharesOfAMixture(t *testing.T) {
	for _, c := range []struct {
		weights []float64
		want    []int
	}{
		{[]float64{1, 1, 1}, []int{334, 333, 333}},
		{[]float64{0.7, 0.2, 0.1}, []int{700, 200, 100}},
		{[]float64{3, 1}, []int{750, 250}},
		{[]float64{1, 2, 3, 1}, []int{143, 286, 428, 143}}, // 142.86, 285.71, 428.57, 142.86
		{[]float64{999, 1}, []int{999, 1}},
		{[]float64{5}, []int{1000}},
	} {
		m, err := NewMixture(make3(len(c.weights)), c.weights, endRestart)
		require.NoError(t, err)
		assert.Equal(t, c.want, m.counts)
	}
	for want, weights := range map[string][]float64{
		"source 1: weight 0, want more":                       {1, 0},
		"source 0: weight NaN, want more":                     {math.NaN(), 1},
		"source 0: weight +Inf, want more":                    {math.Inf(1), 1},
		"source 1: weight 0.0001 of 1.0001: less than one of": {1, 0.0001},
	} {
		_, err := NewMixture(make3(2), weights, endRestart)
		require.ErrorContains(t, err, want)
	}
}

func make3(n int) (out []Source) {
	for range n {
		out = append(out, counting(29))
	}
	return out
}

// Blocks take their sources in an order of their own, which differs from epoch to epoch and from seed to seed, and every block has each as often.
func TestOrdersOfAMixture(t *testing.T) {
	m, err := NewMixture(make3(2), []float64{3, 1}, endRestart)
	require.NoError(t, err)
	order := func(seed, epoch, block uint64) []turn {
		w, err := m.Walk(8, seed)
		require.NoError(t, err)
		return w.(*mixtureWalk).turns(epoch, block)
	}
	first := order(7, 0, 0)
	assert.Equal(t, first, order(7, 0, 0))
	for name, other := range map[string][]turn{"seed": order(8, 0, 0), "epoch": order(7, 1, 0), "block": order(7, 0, 1)} {
		assert.NotEqual(t, first, other, name)
		assert.ElementsMatch(t, first, other, name)
	}
}
