package compile

import (
	"math/rand/v2"
	"testing"

	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/internal/gputest"
)

func TestGatedDelta(t *testing.T) { runChecks(t, graph.GatedDelta{}) }

// Heads of published models: rows of a state take several turns of a workgroup, and a workgroup has some columns. For OpenGL the binding begins each shader with
// an initializer that names each element of workgroup memory, 2,016 in a chunk of 64 alone, whatever the width of heads. Mesa's compiler takes two minutes for
// these cases, which then pass (Mesa 22.3.6).
func TestGatedDeltaOfWideHeads(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		if d.Adapter().Backend == "gl" {
			t.Skip("skipped, OpenGL on the processor compiles it for minutes")
		}
		for _, op := range []graph.GatedDelta{
			{Heads: 2, KeyHeads: 1, KeyDim: 128, ValueDim: 128, Chunk: 64}, {Heads: 1, KeyHeads: 1, KeyDim: 256, ValueDim: 36, Chunk: 32, Documents: true},
		} {
			g := graph.New()
			w := &twin{graph: g, values: checkedDelta(g, op, 1, 70), feeds: map[string]*graph.Array{"positions": {Shape: []int{1, 70}, Data: checkedDocuments(1, 70)}}}
			w.feed(rand.New(rand.NewPCG(41, 42)))
			w.checkTwice(t, d, 2048*eps)
		}
	})
}
