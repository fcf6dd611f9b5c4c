package state

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
	"gputrain/model"
)

// A state whose products round their operands to f16 learns other bits than one in f32, the same whatever it computes again and nearly the same whatever the
// loss is scaled by; with a scale that no gradient stands, updates are left out.
func TestRoundedProducts(t *testing.T) {
	dev := gputest.Device(t)
	c := tinyConfig(t)
	exact := train(t, create(t, dev, c), 2)
	c.RoundProducts = true
	steps := func(scale float64) []Metrics {
		s := create(t, dev, c)
		s.SetScale(scale)
		return train(t, s, 2)
	}
	want := steps(1 << 14)
	for _, c.Recompute = range model.Recomputes {
		assert.Equal(t, want, steps(1<<14), c.Recompute)
	}
	assert.NotEqual(t, exact[1].Loss, want[1].Loss)
	assert.InDelta(t, exact[1].Loss, want[1].Loss, 1e-3, "rounding errors")
	assert.InEpsilon(t, exact[0].GradNorm, want[0].GradNorm, 1e-2, "gradients are not scaled where an update sees them")
	assert.Equal(t, want, steps(1<<13), "a power of two rounds nothing that is in range")
	small := steps(math.Ldexp(1, -16))
	assert.Greater(t, math.Abs(small[0].GradNorm/want[0].GradNorm-1), 0.1, "f16 has too few numbers for gradients this small")
	large := steps(math.Ldexp(1, 40))
	for _, m := range large {
		assert.False(t, m.Finite)
	}
	assert.EqualValues(t, 2, large[1].Skipped)
}

// Adapters on a frozen base in nf4 train with rounded products too.
func TestRoundedProductsOfFrozen(t *testing.T) {
	dev := gputest.Device(t)
	c := tinyConfig(t)
	c.Frozen = matching(c.Definition, "wte", "h.1.")
	c.RoundProducts = true
	s := create(t, dev, c)
	s.SetScale(1 << 14)
	m := train(t, s, 2)
	require.True(t, m[1].Finite)
	assert.NotEqual(t, m[0].Loss, m[1].Loss)
}
