package state

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The steps are those of a counter that takes microbatch after microbatch.
func TestSumStepsAreThoseOfACounter(t *testing.T) {
	for microbatches := 1; microbatches <= 70; microbatches++ {
		for replicas := 1; replicas <= 5; replicas++ {
			for rank := range replicas {
				share := Share(microbatches, rank, replicas)
				steps := sumSteps{nodes: share.Nodes(microbatches)}
				counter, kinds, trees := counter{Microbatches: microbatches}, map[sumStep]like{}, 0
				for i := range share.Count {
					held := len(counter.Held)
					want := sumStep{held, counter.Add(Span{share.First + i, 1}), i == share.Count-1}
					require.Equal(t, want, steps.of(i), "%d of %v of %d", i, share, microbatches)
					if had, ok := kinds[want]; ok {
						kinds[want] = like{had.count + 1, had.first}
					} else {
						kinds[want] = like{1, i}
					}
					trees = max(trees, held)
				}
				require.Equal(t, kinds, steps.kinds(), "%v of %d", share, microbatches)
				require.Equal(t, trees, steps.trees())
				require.Equal(t, counter.Held, append([]Span(nil), steps.nodes...))
			}
		}
	}
	many := sumSteps{nodes: Share(1e9, 1, 3).Nodes(1e9)}
	all := 0
	for _, l := range many.kinds() {
		all += l.count
	}
	assert.Equal(t, Share(1e9, 1, 3).Count, all)
	assert.LessOrEqual(t, many.trees(), 2*30)
	assert.Less(t, len(many.kinds()), 30*30)
}
