package nf4

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Each element gets the level with the least distance, found here by looking at all; of two the lower.
func TestQuantizeTakesTheNearestLevel(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 2, 63, 64, 65, 129, 1000} {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		codes, maxima := make([]byte, (n+1)/2), make([]float32, Blocks(n))
		Quantize(codes, maxima, x)
		for i, v := range x {
			top := float32(0)
			for _, w := range x[i/Block*Block : min(n, i/Block*Block+Block)] {
				top = max(top, float32(math.Abs(float64(w))))
			}
			require.Equal(t, top, maxima[i/Block])
			best := 0
			for level, l := range Levels {
				if math.Abs(float64(v)/float64(top)-float64(l)) < math.Abs(float64(v)/float64(top)-float64(Levels[best])) {
					best = level
				}
			}
			require.Equal(t, best, int(Code(codes, i)), "element %d of %d", i, n)
		}
		if n%2 == 1 {
			assert.Zero(t, codes[n/2]&15, "the place after the end")
		}
	}
}

func TestQuantizeOfHalvesAndZeros(t *testing.T) {
	x := make([]float32, Block)
	codes, maxima := make([]byte, Block/2), make([]float32, 1)
	Quantize(codes, maxima, x)
	for i := range x {
		require.Zero(t, Number(Code(codes, i), maxima[0]))
	}
	// The level after code 6 is 0, so that half of level 6 is the middle of both: it goes to the lower.
	x[0], x[1] = 2, Levels[6]
	Quantize(codes, maxima, x)
	assert.EqualValues(t, 15, Code(codes, 0))
	assert.EqualValues(t, 6, Code(codes, 1))
}
