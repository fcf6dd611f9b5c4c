package gpu

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestCompareFindsOneFlippedElement(t *testing.T) {
	var r Result
	want := []float32{1, 4, 2}
	r.Compare("x", []float32{1, 4, 2}, want)
	assert.Zero(t, r)
	r.Compare("x", []float32{1, 4, 2.5}, want)
	assert.Equal(t, Result{MaxError: 0.125, Worst: "x[2]"}, r)
	short := r
	short.Compare("y", []float32{1, 4}, want)
	assert.Equal(t, Result{MaxError: math.Inf(1), Worst: "y[0]"}, short)
	r.Compare("x", []float32{float32(math.NaN()), 4, 2}, want)
	r.Compare("x", []float32{1, 4, 9}, want)
	assert.True(t, math.IsNaN(r.MaxError), "a NaN stays the worst")
}
