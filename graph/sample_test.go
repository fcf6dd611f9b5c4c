package graph

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSample(t *testing.T) {
	logs := func(ps ...float64) []float64 {
		for i, p := range ps {
			ps[i] = math.Log(p) + 3
		}
		return ps
	}
	for _, c := range []struct {
		logits               []float64
		uniform, temperature float64
		column               int
		probability          float64
	}{
		{logs(0.1, 0.2, 0.7), 0, 1, 0, 0.1},
		{logs(0.1, 0.2, 0.7), 0.0999, 1, 0, 0.1},
		{logs(0.1, 0.2, 0.7), 0.1001, 1, 1, 0.2},
		{logs(0.1, 0.2, 0.7), 0.9999, 1, 2, 0.7},
		{logs(0.1, 0.2, 0.2), 0.15, 0.5, 1, 0.04 / 0.09},
		{logs(0.1, 0.4, 0.5), 0.2, 0, 2, 0.5},
		{logs(0.25, 0.25, 0.25, 0.25), 0.8, 0, 0, 0.25},
		{logs(0.25, 0.25, 0.25, 0.25), 0.8, 1, 3, 0.25},
		{logs(0, 1, 0), 0, 1, 1, 1},
		{logs(0, 1, 0), 1 - 1.0/(1<<24), 1, 1, 1},
	} {
		g := New()
		v := g.Append(Sample{}, g.Input("x", F32(1, len(c.logits))), g.Input("u", F32(1)), g.Input("t", F32(1))).Outputs[0]
		got, err := Eval(g, map[string]*Array{"x": {Shape: []int{1, len(c.logits)}, Data: c.logits}, "u": {Shape: []int{1}, Data: []float64{c.uniform}}, "t": {Shape: []int{1}, Data: []float64{c.temperature}}}, v)
		require.NoError(t, err)
		assert.InDeltaSlice(t, []float64{float64(c.column), math.Log(c.probability)}, got[0].Data, 1e-12, "%+v", c)
		off := func(column int, logProbability float64) float64 {
			return Sample{}.Off(c.logits, c.uniform, c.temperature, column, logProbability)
		}
		assert.InDelta(t, 0, off(c.column, math.Log(c.probability)), 1e-12)
		assert.Greater(t, off(c.column, math.Log(c.probability)+1e-3), 1e-4)
		for i := range c.logits { // another column is not near, by its own log-probability
			if i != c.column {
				assert.Greater(t, off(i, c.logits[i]-3), 1e-5)
			}
		}
		assert.True(t, math.IsNaN(off(c.column, math.NaN())))
	}
}
