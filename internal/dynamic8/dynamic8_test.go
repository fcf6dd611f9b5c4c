package dynamic8

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A nested maximum is as near as any level of the map would bring it.
func TestNest(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{1, 2, 256, 257, 700} {
		maxima := make([]float32, n)
		for i := range maxima {
			maxima[i] = float32(math.Abs(rng.NormFloat64()))
		}
		nested := Nest(maxima)
		require.Len(t, nested.Tops, (n+Group-1)/Group)
		for i, m := range maxima {
			least := math.Inf(1)
			for _, l := range Map {
				least = min(least, math.Abs(float64(NestedMaximum(l, nested.Tops[i/Group], nested.Offset))-float64(m)))
			}
			assert.InDelta(t, 0, math.Abs(float64(nested.Maximum(i))-float64(m))-least, 4e-7*float64(nested.Tops[i/Group]+nested.Offset), "%d of %d", i, n)
		}
	}
	same := Nest([]float32{3, 3, 3})
	assert.Equal(t, float32(3), same.Maximum(1), "no spread")
}

// The map has each power of ten from 1e-6 on in twice as many steps as the one before, with both signs, and 0 and 1.
func TestMap(t *testing.T) {
	assert.Zero(t, Map[zero])
	assert.Equal(t, float32(1), Map[255])
	for i, v := range Map[:255] {
		assert.Less(t, v, Map[i+1])
		assert.Equal(t, -Map[254-i], v)
	}
	at := zero + 1
	for exponent := range 7 {
		for i := range 1 << exponent {
			want := math.Pow10(exponent-6) * (0.1 + 0.9*(float64(i)+0.5)/float64(int(1)<<exponent))
			assert.InEpsilon(t, want, float64(Map[at]), 3e-7)
			at++
		}
	}
	assert.Equal(t, float32(1), Unsigned[255])
	at = 0
	assert.Zero(t, Unsigned[at])
	for exponent := range 7 {
		for i := range 2 << exponent {
			at++
			want := math.Pow10(exponent-6) * (0.1 + 0.9*(float64(i)+0.5)/float64(int(2)<<exponent))
			assert.InEpsilon(t, want, float64(Unsigned[at]), 3e-7)
		}
	}
	assert.Equal(t, 254, at)
}

// Numbers that bitsandbytes has printed of its map.
func TestMapAsPublished(t *testing.T) {
	for i, want := range map[int]float32{
		0: -0.992968738079071, 1: -0.9789062738418579, 62: -0.12109375, 63: -0.10703125596046448, 64: -0.09859374910593033, 125: -3.250000190746505e-06,
		126: -5.500000384017767e-07, 129: 3.250000190746505e-06, 132: 4.374999844003469e-05, 143: 0.001281249918974936, 159: 0.011406250298023224, 253: 0.9789062738418579,
	} {
		assert.Equal(t, want, Map[i], i)
	}
}
