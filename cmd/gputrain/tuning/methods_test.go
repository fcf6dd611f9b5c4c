package tuning

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestWeights has good rows weigh as much as bad ones, or up to a third more.
func TestWeights(t *testing.T) {
	for _, n := range [][2]int{{1, 1}, {4, 3}, {100, 75}, {3, 4}, {10, 9}, {1, 40}, {1000, 7}, {12345, 23456}, {7, 10}, {999, 1}} {
		good, bad := Weights(n[0], n[1])
		assert.Equal(t, 1.0, min(max(good, 1), max(bad, 1)))
		of := good * float64(n[0]) / (bad * float64(n[1]))
		assert.True(t, of >= 1 && of <= 4./3+1e-9, "%v: %v, %v: %v", n, good, bad, of)
	}
	good, bad := Weights(0, 5)
	assert.Equal(t, [2]float64{1, 1}, [2]float64{good, bad})
}

// TestMethods: an update has whole pairs, no row is cut, and the rate is a tenth of that of conversations.
func TestMethods(t *testing.T) {
	f := Facts{
		Model: Model{Parameters: 1e9, Width: 1024, Side: 256, Context: 2048, Stored: "f32"}, Machine: Machine{Memory: 1 << 40, Bases: []string{"f32"}},
		Good: 30, Bad: 90,
	}
	for i := range 400 {
		f.Lengths = append(f.Lengths, 20+i%50)
	}
	f.Lengths[7] = 700
	fits := func(Recipe) (bool, error) { return true, nil }
	plain, err := Choose(f, fits)
	require.NoError(t, err)
	for _, m := range Methods[1:] {
		of := f
		of.Method, of.Least = m, 900
		r, err := Choose(of, fits)
		require.NoError(t, err)
		assert.InDelta(t, plain.Rate/10, r.Rate, plain.Rate/1e3)
		assert.Equal(t, 960, r.Context)
		assert.Zero(t, r.Batch%m.Each)
		assert.GreaterOrEqual(t, r.Batch*r.Accumulate, m.Each*m.Least)
		run, err := Config(Given{Model: "m", Rows: []string{"d"}, Method: m}, &r, nil, nil)
		require.NoError(t, err)
		assert.Equal(t, m.Form, run.Objective().Row().Form)
		assert.Equal(t, m.Name, MethodOf(m.Form).Name)
	}
}
