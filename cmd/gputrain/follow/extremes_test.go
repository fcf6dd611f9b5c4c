package follow

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each bucket is compared with all of its points.
func TestExtremes(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		values := make([]float64, random.IntN(60))
		for i := range values {
			values[i] = float64(random.IntN(5))
			if random.IntN(6) == 0 {
				values[i] = [3]float64{math.NaN(), math.Inf(1), math.Inf(-1)}[random.IntN(3)]
			}
		}
		width := 1 + random.IntN(9)
		begin := random.IntN(len(values) + 1)
		next := begin
		for kept, bad := range Extremes(begin, len(values), func(i int) float64 { return float64(i / width) }, func(i int) float64 { return values[i] }) {
			var finite, other []int
			for from := next; next < len(values) && next/width == from/width; next++ {
				if v := values[next]; math.IsNaN(v) || math.IsInf(v, 0) {
					other = append(other, next)
				} else {
					finite = append(finite, next)
				}
			}
			require.Equal(t, slices.Min(append(other, len(values))), map[bool]int{true: bad, false: len(values)}[bad >= 0])
			require.Equal(t, len(finite) > 0, len(kept) > 0)
			if len(finite) == 0 {
				continue
			}
			of := func(indexes []int) (out []float64) {
				for _, i := range indexes {
					require.Contains(t, finite, i)
					out = append(out, values[i])
				}
				return out
			}
			require.LessOrEqual(t, len(kept), 4)
			require.True(t, slices.IsSortedFunc(kept, func(a, b int) int { return a - b }) && len(slices.Compact(slices.Clone(kept))) == len(kept), "%v", kept)
			require.Equal(t, []int{finite[0], finite[len(finite)-1]}, []int{kept[0], kept[len(kept)-1]})
			require.Equal(t, slices.Min(of(finite)), slices.Min(of(kept)))
			require.Equal(t, slices.Max(of(finite)), slices.Max(of(kept)))
		}
		require.Equal(t, len(values), next)
	}
	for kept := range Extremes(0, 10, func(i int) float64 { return float64(i) }, func(i int) float64 { return 0 }) {
		assert.Equal(t, []int{0}, kept)
		break
	}
}
