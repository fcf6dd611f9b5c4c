package model

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/graph"
)

// TestMismatchedRows has each prompt with the completion of the row before, around rows without one, and at the border of a share.
func TestMismatchedRows(t *testing.T) {
	const x = graph.IgnoreLabel
	rows := Rows{
		Count: 4,
		Tokens: []int32{
			1, 2, 3, 0, 0, // 1 2 | 3 4, of which 4 alone and 3 are learned
			5, 6, 7, 8, 0, // 5 | 6 7 8 9, of which 7 is not learned
			0, 0, 0, 0, 0,
			10, 11, 12, 13, 0, // 10 11 12 13 | 14
		},
		Labels: []int32{
			x, 3, 4, x, x,
			6, x, 8, 9, x,
			x, x, x, x, x,
			x, x, x, 14, x,
		},
	}
	a := Objective{Loss: "kto"}.Row().Ahead
	_, err := a.Rows(rows, nil)
	require.ErrorContains(t, err, "batch: row 3: found 8 tokens of its prompt and the completion of the row before it, wanted at most 6")
	rows.Tokens[15], rows.Tokens[16], rows.Labels[16], rows.Labels[18] = 10, 0, x, x
	rows.Labels[15] = 14 // 10 | 14
	got, err := a.Rows(rows, nil)
	require.NoError(t, err)
	assert.Equal(t, []int32{1, 2, 0, 0, 0, 5, 3, 0, 0, 0, 0, 0, 0, 0, 0, 10, 6, 7, 8, 0}, got.Tokens)
	assert.Equal(t, []int32{x, 14, x, x, x, 3, 4, x, x, x, x, x, x, x, x, 6, x, 8, 9, x}, got.Labels)
	before := Rows{Count: 1, Tokens: []int32{20, 21, 22, 0, 0}, Labels: []int32{x, x, 23, x, x}}
	got, err = a.Rows(rows, &before)
	require.NoError(t, err)
	assert.Equal(t, []int32{x, 23, x, x, x}, got.Labels[:5])
	assert.Equal(t, []int32{6, x, 8, 9, x}, got.Labels[15:])
}

// TestLay has what follows from the log-probabilities of all rows.
func TestLay(t *testing.T) {
	seen := Seen{Rows: [][]float32{{-1, -2}, {-2, -5}, {9, 0}, {-3, -1}}, Counts: []bool{true, true, false, true}, Learning: true}
	numbers := map[string]float64{"beta": 0.5}
	lay := func(loss string, seen Seen, memory map[string]float64) ([]float32, map[string]float64) {
		laid, memory := Objective{Loss: loss}.Row().Ahead.Lay(numbers, seen, memory)
		require.Len(t, laid, 1)
		for _, values := range laid {
			return values, memory
		}
		return nil, nil
	}
	z0, memory := lay("kto", seen, nil)
	assert.InDeltaSlice(t, []float32{2. / 3, 2. / 3, 2. / 3, 2. / 3}, z0, 1e-6)
	assert.Nil(t, memory)
	lower := seen
	lower.Rows = [][]float32{{-9, -2}, {-9, -5}, {9, 0}, {-9, -1}}
	z0, _ = lay("kto", lower, nil)
	assert.Zero(t, z0[0])

	delta, first := lay("bco", seen, nil)
	assert.InDelta(t, 1./3, delta[0], 1e-6)
	assert.Equal(t, map[string]float64{"mean": 1. / 3, "count": 3}, first)
	_, second := lay("bco", lower, first)
	assert.InDelta(t, (1.+0.5*(-7-4-8))/6, second["mean"], 1e-12)
	assert.Equal(t, map[string]float64{"mean": 1. / 3, "count": 3}, first, "what was remembered before is left")
	lower.Learning = false
	delta, same := lay("bco", lower, first)
	assert.InDelta(t, 1./3, delta[0], 1e-6)
	assert.Equal(t, first, same)
	lower.Learning, lower.Rows = true, [][]float32{{float32(math.NaN()), -2}, {0, -5}, {0, 0}, {0, -1}}
	delta, same = lay("bco", lower, first)
	assert.True(t, math.IsNaN(float64(delta[0])), "the update is then left out")
	assert.Equal(t, first, same)

	pairs := Seen{Rows: [][]float32{{5, 1}, {1, 0}, {2, 3}, {2, 0}, {9, 2}, {8, 0}}, Counts: []bool{true, true, true, true, true, true}}
	matched, _ := lay("aot", pairs, nil) // q 4 0 1, p 1 3 2
	assert.Equal(t, []float32{3, 0, 1, 0, 2, 0}, matched)
	matched, _ = lay("aot_unpaired", pairs, nil) // chosen 4 -1 7, rejected 1 2 8
	assert.Equal(t, []float32{2, -1, 1, 4, 8, 7}, matched)
}

// TestFiguresOfClasses has no figure of a class without rows, and tells the losses of rows all the same.
func TestFiguresOfClasses(t *testing.T) {
	kto := Objective{Loss: "kto"}.Row()
	all := kto.Figures([]float64{0.25, 0.5, -0.3, -2, -3, 0.1})
	assert.InDeltaMapValues(t, map[string]float64{
		"good": 0.25, "rewards_chosen": 2, "rewards_rejected": -0.4, "margin": 2.4, "logps_chosen": -8, "logps_rejected": -4, "kl": 0.1,
	}, all, 1e-12)
	bad := kto.Figures([]float64{0, 0, -0.3, 0, -3, 0.1})
	assert.Equal(t, map[string]float64{"good": 0, "rewards_rejected": -0.3, "logps_rejected": -3, "kl": 0.1}, bad)
	for _, figures := range []map[string]float64{all, bad} {
		assert.Equal(t, "kto", Telling(figures).Name)
	}
	assert.Equal(t, "bco", Telling(Objective{Loss: "bco"}.Row().Figures(make([]float64, 6))).Name)
	assert.Equal(t, "pairs", Telling(Objective{Loss: "ipo"}.Row().Figures(make([]float64, 5))).Counts)
	assert.Empty(t, Telling(map[string]float64{"good": 1, "else": 2}).Name)
}
