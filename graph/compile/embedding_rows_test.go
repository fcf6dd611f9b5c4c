package compile

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"

	"gputrain/graph"
	"gputrain/internal/gputest"
)

// TestRowsThatOccur: a GPU adds the gradient of an embedding to the rows that occur alone, to the numbers of Eval.
func TestRowsThatOccur(t *testing.T) {
	assert.Equal(t, []uint32{1, 3, 4, 4}, rowsThatOccur([]uint32{0, 0, 3, 3, 4}, 4))
	for _, width := range []int{5, 12} {
		g := graph.New()
		ids := checkedInts(g, "ids", 2, 7)
		w := &twin{graph: g, hardware: true, accumulate: true, leaves: map[string]*graph.Value{}}
		w.values = []*graph.Value{g.Embedding(g.Param("w", 90, width), ids)}
		w.leaves["w"] = g.Append(graph.EmbeddingGrad{Vocab: 90}, x(g, "dy", 2, 7, width), ids).Outputs[0]
		w.feeds = map[string]*graph.Array{"ids": (Check{Below: 9}).feeds(g)["ids"]}
		w.feed(rand.New(rand.NewPCG(5, 6)))
		p := w.check(t, gputest.Device(t), 64*eps)
		assert.Len(t, kernelsNamed(p, "embedding_grad"), 1)
	}
}
