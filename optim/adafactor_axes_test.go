package optim

import (
	"testing"

	"github.com/stretchr/testify/assert"
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
