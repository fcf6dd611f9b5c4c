package compile

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/internal/gputest"
)

// TestAttentionOnCard holds the tiled kernels, as the card's registers and memory choose them, to the twin at the widths that models have.
func TestAttentionOnCard(t *testing.T) {
	d := gputest.Device(t)
	if d.Limits().Software {
		t.Skip("skipped, TestAttentionTiled is for software adapters")
	}
	for _, s := range []attentionCase{
		{b: 1, t: 300, heads: 2, kvHeads: 2, headDim: 64, packed: true, causal: true},
		{b: 1, t: 300, heads: 2, kvHeads: 1, headDim: 128, causal: true},
		{b: 1, t: 300, heads: 2, kvHeads: 1, headDim: 64, causal: true, f16: true},
	} {
		t.Run(s.String(), func(t *testing.T) {
			w := s.graph()
			w.feed(rand.New(rand.NewPCG(35, 36)))
			w.checkTwice(t, d, max(s.tolerance(), 2*attentionTolerance))
		})
	}
}

// BenchmarkAttentionOnCard measures forward alone, and forward with both kernels of the gradient, ten times a submit, with ms of each.
func BenchmarkAttentionOnCard(b *testing.B) {
	d := gputest.Device(b)
	for _, s := range []attentionCase{
		{b: 4, t: 1024, heads: 12, kvHeads: 12, headDim: 64, packed: true, causal: true},
		{b: 1, t: 1024, heads: 16, kvHeads: 8, headDim: 128, causal: true},
	} {
		for _, part := range []string{"forward", "both"} {
			b.Run(s.String()+"_"+part, func(b *testing.B) { benchmarkOnCard(b, d, s, part == "both") })
		}
	}
}

func benchmarkOnCard(b *testing.B, d *gpu.Device, s attentionCase, both bool) {
	const times = 10
	w := s.graph()
	flops := w.values[0].Node().FLOPs()
	if both {
		w.values = w.values[2:]
		flops += w.values[0].Node().FLOPs()
	} else {
		w.values = w.values[:2]
	}
	p, err := newFor(context.Background(), d, w.graph, Options{Targets: targetsOf(w.values)}, limitsAs(d, false))
	require.NoError(b, err)
	defer p.Release()
	seconds := secondsOf(b, d, p, times)
	b.ReportMetric(1e3*seconds, "ms")
	b.ReportMetric(float64(flops)/seconds/1e9, "GFLOP/s")
}

func targetsOf(values []*graph.Value) (out []Target) {
	for i, v := range values {
		out = append(out, Target{Name: string(rune('a' + i)), Value: v})
	}
	return out
}
