package follow

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What is kept of points is compared with all of them.
func TestExtremes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var extremes Extremes[int]
	for range 300 {
		var finite, other []int
		values := make([]float64, random.IntN(9))
		for i := range values {
			values[i] = float64(random.IntN(5))
			if random.IntN(6) == 0 {
				values[i] = [3]float64{math.NaN(), math.Inf(1), math.Inf(-1)}[random.IntN(3)]
			}
			if math.IsNaN(values[i]) || math.IsInf(values[i], 0) {
				other = append(other, i)
			} else {
				finite = append(finite, i)
			}
			extremes.Add(i, values[i])
		}
		var kept, bad []int
		var heights, all []float64
		for _, p := range extremes.Take(nil) {
			if p.Finite() {
				kept, heights = append(kept, p.At), append(heights, p.Value)
				require.Equal(t, values[p.At], p.Value)
			} else {
				bad = append(bad, p.At)
			}
		}
		require.Equal(t, other[:min(len(other), 1)], bad)
		if len(finite) == 0 {
			require.Empty(t, kept)
			continue
		}
		for _, i := range finite {
			all = append(all, values[i])
		}
		require.LessOrEqual(t, len(kept), 4)
		require.True(t, slices.IsSorted(kept) && len(slices.Compact(slices.Clone(kept))) == len(kept), "%v", kept)
		require.Equal(t, []int{finite[0], finite[len(finite)-1]}, []int{kept[0], kept[len(kept)-1]})
		require.Equal(t, slices.Min(all), slices.Min(heights))
		require.Equal(t, slices.Max(all), slices.Max(heights))
	}
	assert.Empty(t, extremes.Take(nil))
}
