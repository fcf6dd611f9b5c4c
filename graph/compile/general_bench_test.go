package compile

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/graph"
	"gputrain/internal/gputest"
)

// BenchmarkGeneral records each kernel 20 times in one submit; bytes are those that must move: operands and results once.
func BenchmarkGeneral(b *testing.B) {
	d := gputest.Device(b)
	for _, s := range [][]int{{1024, 128}, {1024, 768}, {1024, 4096}} {
		size := 4 * graph.Elements(s)
		width := s[1]
		for _, k := range []struct {
			name  string
			moves int // of size bytes
			build func(g *graph.Graph) *graph.Value
		}{
			{"add_bias", 2, func(g *graph.Graph) *graph.Value { return g.Add(x(g, "a", s...), x(g, "b", width)) }},
			{"add", 3, func(g *graph.Graph) *graph.Value { return g.Add(x(g, "a", s...), x(g, "b", s...)) }},
			{"gelu_tanh", 2, func(g *graph.Graph) *graph.Value { return g.Apply("gelu_tanh", x(g, "a", s...)) }},
			{"gelu_tanh_grad", 3, func(g *graph.Graph) *graph.Value { return g.Apply("gelu_tanh_grad", x(g, "a", s...), x(g, "b", s...)) }},
			{"dropout", 2, func(g *graph.Graph) *graph.Value {
				return g.Dropout(x(g, "a", s...), g.Input("key", graph.Type{Shape: []int{2}, DType: 3}), 0.1, 1)
			}},
			{"layer_norm", 2, func(g *graph.Graph) *graph.Value {
				return g.LayerNorm(x(g, "a", s...), x(g, "w", width), x(g, "b", width), 1e-5)
			}},
			{"layer_norm_grad", 3, func(g *graph.Graph) *graph.Value {
				return g.Append(graph.LayerNormGrad{}, x(g, "a", s...), x(g, "w", width), x(g, "s", s[0], 2), x(g, "dy", s...)).Outputs[0]
			}},
			{"norm_gamma_grad", 2, func(g *graph.Graph) *graph.Value {
				return g.Append(graph.NormGammaGrad{}, x(g, "a", s...), x(g, "s", s[0], 2), x(g, "dy", s...)).Outputs[0]
			}},
			{"bias_grad", 1, func(g *graph.Graph) *graph.Value { return g.Sum(x(g, "a", s...), 0) }},
			{"sum", 1, func(g *graph.Graph) *graph.Value { return g.Sum(x(g, "a", s...)) }},
			{"softmax", 2, func(g *graph.Graph) *graph.Value { return g.Softmax(x(g, "a", s...)) }},
			{"transpose", 2, func(g *graph.Graph) *graph.Value { return g.Transpose(x(g, "a", s...), 1, 0) }},
		} {
			for _, cpu := range []bool{true, false} {
				if !cpu && k.name != "layer_norm" && k.name != "layer_norm_grad" && k.name != "softmax" {
					continue
				}
				b.Run(fmt.Sprintf("%s/%v/cpu=%v", k.name, s, cpu), func(b *testing.B) {
					g := graph.New()
					p, err := newFor(context.Background(), d, g, Options{Targets: []Target{{Name: "v", Value: k.build(g)}}}, limitsAs(d, cpu))
					require.NoError(b, err)
					defer p.Release()
					rec := d.Record("bench")
					for range 20 {
						p.Record(rec)
					}
					program, err := rec.Program(b.Context())
					require.NoError(b, err)
					defer program.Release()
					for b.Loop() {
						require.NoError(b, program.Submit(b.Context()))
						require.NoError(b, d.Wait(b.Context()))
					}
					b.ReportMetric(float64(20*k.moves*size*b.N)/b.Elapsed().Seconds()/1e9, "GB/s")
					b.ReportMetric(b.Elapsed().Seconds()*1e6/float64(20*b.N), "us/run")
				})
			}
		}
	}
}
