package compile

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/graph"
	"gputrain/internal/gputest"
)

// BenchmarkDelta is the forward and backward pass of the gated delta rule beside that of attention of as many heads of 128, and what both execute.
func BenchmarkDelta(b *testing.B) {
	const heads, dim = 2, 128
	d := gputest.Device(b)
	for _, t := range []int{256, 1024, 4096} {
		chunk := 16
		for chunk < 64 && 16*chunk < t {
			chunk *= 2
		}
		for name, values := range map[string]func(g *graph.Graph) []*graph.Value{
			"attention": func(g *graph.Graph) []*graph.Value {
				return checkedAttention(g, graph.Attention{Heads: heads, KVHeads: heads, HeadDim: dim, Causal: true}, 1, t)
			},
			"delta": func(g *graph.Graph) []*graph.Value {
				return checkedDelta(g, graph.GatedDelta{Heads: heads, KeyHeads: heads, KeyDim: dim, ValueDim: dim, Chunk: chunk}, 1, t)
			},
		} {
			b.Run(fmt.Sprintf("%s/%d", name, t), func(b *testing.B) {
				g := graph.New()
				var targets []Target
				for i, v := range values(g) {
					targets = append(targets, Target{Name: fmt.Sprint(i), Value: v})
				}
				p, err := New(b.Context(), d, g, Options{Targets: targets})
				require.NoError(b, err)
				defer p.Release()
				executed := int64(0)
				for _, n := range g.Nodes() {
					if slices.Contains([]string{"attention", "attention_grad", "gated_delta", "gated_delta_grad"}, n.Op.Kind()) {
						executed += n.Executed()
					}
				}
				b.ReportMetric(float64(executed)/1e9, "GFLOP")
				benchmarkProgram(b, d, p, float64(executed))
			})
		}
	}
}
