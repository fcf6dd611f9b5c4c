package compile

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/internal/gputest"
)

// unitAttention are attentions for kernels by matrix units: more positions than a workgroup has rows, blocks that are seen whole, in part and not at all.
func unitAttention(headDim int) []attentionCase {
	return []attentionCase{
		{b: 1, t: 70, heads: 2, kvHeads: 2, headDim: headDim, packed: true, causal: true, f16: true},
		{b: 2, t: 33, heads: 4, kvHeads: 2, headDim: headDim, f16: true},
		{b: 1, t: 150, heads: 2, kvHeads: 1, headDim: headDim, causal: true, window: 37, f16: true},
		{b: 2, t: 100, heads: 2, kvHeads: 1, headDim: headDim, causal: true, documents: []int{1, 70, 20}, f16: true},
		{b: 1, t: 70, heads: 2, kvHeads: 1, headDim: headDim, packed: true, causal: true, cap: 1.5, f16: true},
		{b: 1, t: 90, heads: 1, kvHeads: 1, headDim: headDim, causal: true, cap: 1.5, window: 50, documents: []int{60, 3}, f16: true},
	}
}

// computed is graph, of operands that other nodes make, which lie in f16.
func (s attentionCase) computed() *twin {
	g := graph.New()
	op := graph.Attention{Heads: s.heads, KVHeads: s.kvHeads, HeadDim: s.headDim, Packed: s.packed, Causal: s.causal, Cap: s.cap, Window: s.window, F16: true}
	op.Documents = s.documents != nil
	q, kv, packed := op.Widths()
	var in []*graph.Value
	for i, width := range []int{q, kv, kv, packed} {
		if s.packed == (i == 3) {
			in = append(in, g.Scale(g.Input(fmt.Sprintf("x%d", i), graph.F32(s.b, s.t, width)), 0.75))
		}
	}
	if op.Documents {
		in = append(in, checkedInts(g, "positions", s.b, s.t))
	}
	n := g.Append(op, in...)
	do := g.Scale(g.Input("do", graph.F32(s.b, s.t, q)), 0.75)
	grad := g.Append(graph.AttentionGrad(op), append(in, n.Outputs[0], n.Outputs[1], do)...)
	return &twin{graph: g, values: slices.Concat(n.Outputs, grad.Outputs), feeds: map[string]*graph.Array{"positions": s.positions()}}
}

// compareUnits compares outputs and gradients with the twin, by the norm of what they differ, and element by element. Rounding f16 is 2^-11 off.
func compareUnits(t *testing.T, d *gpu.Device, s attentionCase, m gpu.MatrixUnits) {
	t.Helper()
	w := s.graph()
	if s.b == 2 {
		w = s.computed()
	}
	w.feed(rand.New(rand.NewPCG(41, 42)))
	w.hardware, w.matrix = true, m
	got, p := w.run(t, d)
	kernels := map[string]bool{}
	for _, k := range p.Kernels() {
		if name, rest, found := strings.Cut(k.Label, "_matrix"); found {
			kernels[name] = true
			assert.Equal(t, s.b == 2, strings.Contains(rest, "_halves"), k.Label)
		}
	}
	require.Len(t, kernels, 3, "by units: %v", kernels)
	want, err := graph.Eval(w.graph, w.feeds, w.values...)
	require.NoError(t, err)
	for i, r := range want {
		name := fmt.Sprintf("v%d", i)
		var off, all float64
		for j, x := range r.Data {
			off += (got[name][j] - x) * (got[name][j] - x)
			all += x * x
		}
		if !(off <= 0x1p-20*all) {
			t.Errorf("%s of %s: off by %.3g of the norm, wanted %.3g", name, s, math.Sqrt(off/all), 0x1p-10)
		}
		if j := farthest(got[name], r.Data, 0x1p-8); j >= 0 {
			t.Errorf("%s of %s, element %d: found %g, wanted %g", name, s, j, got[name][j], r.Data[j])
		}
	}
	if s.window > 0 {
		again, _ := w.run(t, d)
		assert.Equal(t, got, again, "the same bits")
	}
}

// The kernels by matrix units, with the plain bodies of units of two shapes.
func TestAttentionByUnits(t *testing.T) {
	d := gputest.Device(t)
	for j, m := range []gpu.MatrixUnits{
		{Shapes: []gpu.MatrixShape{{M: 8, N: 8, K: 8}}, Lanes: 8, Subgroups: 16},
		{Shapes: []gpu.MatrixShape{{M: 16, N: 16, K: 16}}, Lanes: 32, Subgroups: 16},
	} {
		for i, s := range unitAttention(16) {
			if i%2 == j || s.cap > 0 && s.window == 0 || testing.Short() && i > 1 { // a kernel takes seconds to compile for the processor
				continue
			}
			t.Run(fmt.Sprint(m, s), func(t *testing.T) { compareUnits(t, d, s, m) })
		}
	}
}

// The same with the units of an adapter that has them, and heads of usual widths.
func TestAttentionOfUnits(t *testing.T) {
	d := gputest.Device(t, func(o *gpu.Options) { o.Matrix = true })
	if len(d.Limits().Matrix.Shapes) == 0 {
		t.Skip("skipped, needs an adapter with matrix units")
	}
	widths := []int{64, 128, 96}
	if d.Limits().Software { // which compiles wide ones for minutes
		widths = []int{16}
	}
	for _, headDim := range widths {
		for _, s := range gputest.Rows(unitAttention(headDim), 2) {
			t.Run(s.String(), func(t *testing.T) { compareUnits(t, d, s, d.Limits().Matrix) })
		}
	}
}

// BenchmarkAttentionOfUnits is by f32 kernels and by units, also with other geometries of one kernel at a time. TFLOP/s are of the products that are
// executed. "halves" has operands in f16 in memory, and what makes them so (0.02 ms on an H100).
func BenchmarkAttentionOfUnits(b *testing.B) {
	d := gputest.Device(b, func(o *gpu.Options) { o.Matrix = true })
	for _, s := range []attentionCase{
		{b: 4, t: 1024, heads: 12, kvHeads: 12, headDim: 64, packed: true, causal: true},
		{b: 1, t: 1024, heads: 16, kvHeads: 8, headDim: 128, causal: true},
	} {
		forward, both := []string{"forward"}, []string{"both"}
		b.Run(s.String(), func(b *testing.B) { benchmarkAttention(b, d, s, s.graph(), append(forward, both...)) })
		s.f16 = true
		b.Run(s.String(), func(b *testing.B) { benchmarkAttention(b, d, s, s.graph(), append(forward, both...)) })
		b.Run(s.String()+"_halves", func(b *testing.B) { benchmarkAttention(b, d, s, s.computed(), append(forward, both...)) })
		capped := s
		capped.cap = 50
		b.Run(capped.String(), func(b *testing.B) { benchmarkAttention(b, d, capped, capped.graph(), both) })
		for _, name := range []string{"attention", "attention_dq", "attention_dkv"} {
			pass, what := attentionPasses[name], both
			if name == "attention" {
				what = forward
			}
			for _, tile := range []unitTile{{4, 1, 2, false}, {4, 1, 4, false}, {4, 1, 4, true}, {4, 2, 2, false}, {4, 2, 1, true}, {8, 1, 2, true}, {2, 1, 2, true}} {
				other := pass
				other.tiles = []unitTile{tile}
				attentionPasses[name] = other
				b.Run(fmt.Sprintf("%s_%s_%v", s, name, tile), func(b *testing.B) { benchmarkAttention(b, d, s, s.graph(), what) })
			}
			attentionPasses[name] = pass
		}
	}
}

func benchmarkAttention(b *testing.B, d *gpu.Device, s attentionCase, w *twin, parts []string) {
	product := float64(s.headDim*s.b*s.heads*s.t) * float64(s.t+1) // multiplications and additions
	for _, name := range parts {
		products := map[string]float64{"forward": 2, "both": 9}[name]
		b.Run(name, func(b *testing.B) {
			part := *w
			if name == "forward" {
				part.values = w.values[:2]
			}
			p := part.compiled(b, d)
			by := 0
			for _, k := range p.Kernels() {
				if strings.Contains(k.Label, "_matrix_") {
					by++
				}
			}
			const times = 10 // a submit
			seconds := secondsOf(b, d, p, times)
			b.ReportMetric(1e3*seconds, "ms")
			b.ReportMetric(products*product/seconds/1e12, "TFLOP/s")
			b.ReportMetric(float64(by), "kernels-by-units")
		})
	}
}
