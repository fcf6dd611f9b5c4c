package optim

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/internal/gputest"
)

// The last two of numpy.argsort(shape, kind="stable"), worked out by hand: of equal sides the later axis is the larger.
func TestLargestAxes(t *testing.T) {
	for _, c := range []struct{ shape, want []int }{
		{[]int{2, 3}, []int{1, 0}},
		{[]int{3, 2}, []int{0, 1}},
		{[]int{2, 2}, []int{1, 0}},
		{[]int{5, 3, 3}, []int{0, 2}},
		{[]int{3, 5, 3}, []int{1, 2}},
		{[]int{3, 3, 5}, []int{2, 1}},
		{[]int{4, 4, 4}, []int{2, 1}},
		{[]int{5, 5, 3}, []int{1, 0}},
		{[]int{1, 7, 7}, []int{2, 1}},
		{[]int{9, 1, 9, 2}, []int{2, 0}},
		{[]int{1, 2, 3, 4}, []int{3, 2}},
		{[]int{4, 3, 2, 1}, []int{0, 1}},
	} {
		first, second := largestAxes(c.shape)
		assert.Equal(t, c.want, []int{first, second}, c.shape)
	}
}

// The kernel of means that only hardware takes, on the adapters at hand.
func TestGroupedMeans(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		o := FactoredRMSOptions{MinDimSizeToFactor: 3, DecayRate: 0.8, Eps: 1e-30}
		tx := ScaleByFactoredRMS(o)
		require.NotNil(t, tx.elements[0].operator)
		tx.elements[0].operator = factoredRMS{o, true}
		r, err := follow(t.Context(), d, Chain(tx, Scale(-0.1)))
		require.NoError(t, err)
		assert.LessOrEqual(t, r.MaxError, 1e-5, r.Worst)
	})
}
