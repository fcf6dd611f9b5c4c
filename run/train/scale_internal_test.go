package train

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"gputrain/state"
	"gputrain/state/checkpoint"
)

// The scale is halved once for the steps that overflow at it, however many are in flight, doubled after enough good ones, and depends on no step that may
// still be in flight.
func TestScale(t *testing.T) {
	var s *checkpoint.Scale
	exponents := map[int64]int{}
	finite := func(step int64, e int) bool { return e <= 12 && step != 40 }
	for step := int64(1); step <= 40+doubledAfter+guardLag; step++ {
		e := scaleOf(s, step).Exponent
		exponents[step] = e
		before := s
		s = scaled(s, state.Metrics{Step: step, Finite: finite(step, e)})
		if before != nil {
			assert.Equal(t, e, scaleOf(before, step).Exponent, "what a checkpoint has is not changed")
		}
	}
	for step, want := range map[int64]int{1: 14, 3: 14, 4: 13, 6: 13, 7: 12, 40: 12, 42: 12, 43: 11, 40 + doubledAfter + 2: 11, 40 + doubledAfter + 3: 12} {
		assert.Equal(t, want, exponents[step], "step %d", step)
	}
	for step := int64(1); step <= 100; step++ {
		s = scaled(s, state.Metrics{Step: 5000 + step})
	}
	assert.Equal(t, 0, scaleOf(s, 6000).Exponent, "1 is the least")
}

// A gradient that overflows is the scale's doing while the loss is finite and the scale can be halved.
func TestOverflows(t *testing.T) {
	assert.True(t, overflows(state.Metrics{Loss: 2}, 2))
	assert.False(t, overflows(state.Metrics{Loss: 2, Finite: true}, 2))
	assert.False(t, overflows(state.Metrics{Loss: 2}, 1))
	assert.False(t, overflows(state.Metrics{Loss: math.NaN()}, 2))
	assert.False(t, overflows(state.Metrics{Loss: 2}, 0), "products of f32")
}
