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

// Draws lie in the interval of their column, with the kernels of processors and of GPUs, and the same ones come again.
func TestSample(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for _, hardware := range []bool{false, true} {
			k := sampleChecks[0]
			w := &twin{graph: graph.New(), hardware: hardware}
			w.values = k.Build(w.graph)
			w.feeds = k.feeds(w.graph)
			got, _ := w.run(t, d)
			again, _ := w.run(t, d)
			require.Equal(t, got, again)
			for i := range w.values {
				drawn := f32Data(&graph.Array{Data: got[fmt.Sprint("v", i)]})
				for j := range drawn {
					assert.LessOrEqual(t, k.Judge(w.feeds, i, j, drawn), 256*eps, "value %d, row %d: %v", i, j/2, drawn[j&^1:j|1+1])
				}
			}
		}
	})
}

// A row draws what it draws, whichever rows are beside it, of a vocabulary of many chunks.
func TestSampleOfManyColumns(t *testing.T) {
	const rows, columns = 5, 50257
	d, rng := gputest.Device(t), rand.New(rand.NewPCG(45, 46))
	for _, hardware := range []bool{false, true} {
		g := graph.New()
		v := g.Append(graph.Sample{}, g.Input("logits", graph.F32(rows, columns)), g.Input("uniforms", graph.F32(rows)), g.Input("temperatures", graph.F32(rows))).Outputs[0]
		w := &twin{graph: g, values: []*graph.Value{v}, feeds: map[string]*graph.Array{"temperatures": {Shape: []int{rows}, Data: []float64{0.75, 1, 0.75, 0, 0.5}}}, hardware: hardware}
		w.feed(rng)
		uniforms, logits, temperatures := w.feeds["uniforms"].Data, w.feeds["logits"].Data, w.feeds["temperatures"].Data
		for i := range uniforms {
			uniforms[i] = float64(rng.Float32())
		}
		got, _ := w.run(t, d)
		for r := range rows {
			off := graph.Sample{}.Off(logits[r*columns:(r+1)*columns], uniforms[r], temperatures[r], int(got["v0"][2*r]), got["v0"][2*r+1])
			assert.LessOrEqual(t, off, 64*eps, "row %d: %v", r, got["v0"][2*r:2*r+2])
		}
		for i := range logits[columns:] {
			logits[columns+i] = rng.NormFloat64()
		}
		beside, _ := w.run(t, d)
		require.Equal(t, got["v0"][:2], beside["v0"][:2])
		require.NotEqual(t, got["v0"][2:], beside["v0"][2:])
	}
}
