package compile

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/internal/gputest"
)

// reducedGraph is a sum and a maximum of one input over axes.
func reducedGraph(shape []int, axes ...int) *twin {
	g := graph.New()
	a := g.Input("a", graph.F32(shape...))
	return &twin{graph: g, hardware: true, values: []*graph.Value{g.Sum(a, axes...), g.Max(a, axes...)}}
}

// TestReduceGroups reduces by workgroups: rows and columns, quads and elements, in one level and in two, each with the same bits in two runs.
func TestReduceGroups(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for _, c := range gputest.Some(t, d, []struct {
			shape, axes []int
			dispatches  int // of both
		}{
			{[]int{300, 64}, []int{0}, 2},
			{[]int{9001, 8}, []int{0}, 4},
			{[]int{4099, 3}, []int{0}, 4},
			{[]int{3, 70, 20}, []int{1}, 2},
			{[]int{37, 516}, []int{1}, 2},
			{[]int{5, 40000}, []int{1}, 4},
			{[]int{7, 8191}, []int{1}, 4},
		}) {
			t.Run(fmt.Sprint(c.shape), func(t *testing.T) {
				w := reducedGraph(c.shape, c.axes...)
				w.feed(rand.New(rand.NewPCG(61, 62)))
				p := w.check(t, d, 64*eps)
				assert.Equal(t, c.dispatches, p.Plan().Dispatches)
				w.checkTwice(t, d, 64*eps)
			})
		}
	})
}

// What a card's sums of bias gradients take: one dispatch, of as many invocations as fill it where the rows allow it. Processors keep their two.
func TestReduceSplits(t *testing.T) {
	limits := gpu.DefaultLimits()
	c := &Compiler{limits: limits}
	split := func(length, results int) string {
		parts, lanes := c.reduceSplit(length, results, true)
		return fmt.Sprintf("%d parts of %d lanes", parts, lanes)
	}
	require.Equal(t, "1 parts of 64 lanes", split(4096, 192))
	c.limits.Multiprocessors, c.limits.MultiprocessorLanes = 132, 128
	require.Equal(t, "1 parts of 64 lanes", split(4096, 192))
	require.Equal(t, "5 parts of 64 lanes", split(8192, 192))
	require.Equal(t, "1 parts of 8 lanes", split(4096, 12565))
	require.Equal(t, "4 parts of 1 lanes", split(4096, 1<<17), "as many rows as one may add up")
	require.Equal(t, "1 parts of 1 lanes", split(7, 192))
	c.limits.Software = true
	require.Equal(t, "22 parts of 1 lanes", split(4096, 192))
}
