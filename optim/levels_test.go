package optim

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"

	"gputrain/buffers"
)

// The nearest of all levels, searched one by one; halfway the one farther from 0.
func TestCodeIsOfTheNearestLevel(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, slot := range []Slot{{}, {Unsigned: true}} {
		l := slot.levels()
		for i, level := range l {
			assert.Equal(t, byte(i), l.code(float64(level)))
		}
		for range 5000 {
			x := math.Pow(10, -8*r.Float64())
			if !slot.Unsigned && r.IntN(2) == 0 {
				x = -x
			}
			least := math.Inf(1)
			for _, level := range l {
				least = min(least, math.Abs(float64(level)-x))
			}
			assert.Equal(t, least, math.Abs(float64(l[l.code(x)])-x), "%g", x)
		}
	}
	odd := levels{0: -2, 1: -1, 255: 3}
	for i := range 253 {
		odd[2+i] = float32(i) / 1024
	}
	assert.Equal(t, byte(0), odd.code(-1.5))
	assert.Equal(t, byte(3), odd.code(0.5/1024))
}

// Maxima are by block; one too small for f32's normal numbers is 0, and so is the block.
func TestEncode(t *testing.T) {
	x := make([]float64, 520)
	x[3], x[4], x[300], x[519] = 2, -2, 1e-39, -8
	c := (&Slot{}).levels().encode(x)
	assert.Equal(t, []float64{2, 0, 8}, c.maxima)
	assert.Equal(t, []byte{127, 255, 0}, []byte{c.codes[0], c.codes[3], c.codes[4]})
	assert.Equal(t, []float64{2, -2 * 0.992968738079071, 0}, []float64{x[3], x[4], x[300]})
	assert.True(t, Slot{DType: buffers.U8}.inCodes(buffers.Leaf{Shape: []int{64, 64}}))
	assert.False(t, Slot{DType: buffers.U8}.inCodes(buffers.Leaf{Shape: []int{4095}}))
}
