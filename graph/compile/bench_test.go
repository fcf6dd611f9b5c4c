package compile

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/internal/gputest"
)

// secondsOf submits a program so many times at once, an iteration, and waits: the seconds that one of them took.
func secondsOf(b *testing.B, d *gpu.Device, p *Program, times int) float64 {
	b.Helper()
	ctx := context.Background()
	rec := d.Record("bench")
	for range times {
		p.Record(rec)
	}
	program, err := rec.Program(ctx)
	require.NoError(b, err)
	defer program.Release()
	run := func() {
		require.NoError(b, program.Submit(ctx))
		require.NoError(b, d.Wait(ctx))
	}
	run()
	for b.Loop() {
		run()
	}
	b.ReportMetric(float64(program.Dispatches()/times), "dispatches")
	return b.Elapsed().Seconds() / float64(b.N*times)
}

// benchmarkProgram measures a program; flops is what one run computes.
func benchmarkProgram(b *testing.B, d *gpu.Device, p *Program, flops float64) {
	b.Helper()
	b.ReportMetric(flops/secondsOf(b, d, p, 1)/1e9, "GFLOP/s")
}

func BenchmarkMatMul(b *testing.B) {
	d := gputest.Device(b)
	shapes := [][3]int{{1024, 384, 128}, {1024, 128, 128}, {1024, 512, 128}, {1024, 128, 512}, {1024, 256, 128}, {1024, 1024, 1024}}
	for _, form := range forms {
		for _, s := range shapes {
			if form[0] { // the weight gradient of the same layer
				s = [3]int{s[2], s[1], s[0]}
			}
			b.Run(fmt.Sprintf("%s_%dx%dx%d", formName(form), s[0], s[1], s[2]), func(b *testing.B) {
				r := newProductRun(b, d, rand.New(rand.NewPCG(1, 2)), d.Limits().Software, form, s, false)
				benchmarkProgram(b, d, r.program, 2*float64(s[0])*float64(s[1])*float64(s[2]))
			})
		}
	}
}

// compiled is the program of a graph's values on the device, with inputs as fed and params zero.
func (w *twin) compiled(b *testing.B, d *gpu.Device) *Program {
	b.Helper()
	return w.compiledFor(b, d, d.Limits())
}

// compiledFor has the kernels of an adapter of those limits.
func (w *twin) compiledFor(b *testing.B, d *gpu.Device, limits gpu.Limits) *Program {
	b.Helper()
	o := Options{}
	for i, v := range w.values {
		o.Targets = append(o.Targets, Target{Name: fmt.Sprint(i), Value: v})
	}
	for path, v := range w.leaves {
		o.Targets = append(o.Targets, Target{Leaf: path, Value: v})
	}
	if specs := w.graph.Parameters(); len(specs) > 0 {
		layout, err := buffers.NewLayout(specs, d.Limits())
		require.NoError(b, err)
		for _, tree := range []**buffers.Tree{&o.Params, &o.Grads} {
			*tree, err = buffers.NewTree(d, "bench", layout, buffers.F32)
			require.NoError(b, err)
			b.Cleanup((*tree).Release)
		}
	}
	p, err := newFor(context.Background(), d, w.graph, o, limits)
	require.NoError(b, err)
	b.Cleanup(p.Release)
	return p
}

func BenchmarkAttention(b *testing.B) {
	d := gputest.Device(b)
	for _, s := range []attentionCase{
		{b: 8, t: 128, heads: 4, kvHeads: 4, headDim: 32, packed: true, causal: true},
		{b: 1, t: 1024, heads: 12, kvHeads: 12, headDim: 64, packed: true, causal: true},
	} {
		w := s.graph()
		forward := *w
		forward.values = w.values[:2]
		n := w.values[0].Node()
		b.Run(s.String()+"_forward", func(b *testing.B) {
			benchmarkProgram(b, d, forward.compiled(b, d), float64(n.FLOPs()))
		})
		backward := *w
		backward.values = w.values[2:]
		g := backward.values[0].Node()
		b.Run(s.String()+"_both", func(b *testing.B) {
			benchmarkProgram(b, d, backward.compiled(b, d), float64(n.FLOPs()+g.FLOPs()))
		})
	}
}

func BenchmarkHeadLoss(b *testing.B) {
	d := gputest.Device(b)
	for _, s := range [][3]int{{1024, 128, 256}, {256, 768, 50257}} {
		w := headGraph(s[0], s[1], s[2], false)
		f, g := w.values[0].Node(), w.values[2].Node()
		b.Run(fmt.Sprintf("%dx%dx%d", s[0], s[1], s[2]), func(b *testing.B) {
			benchmarkProgram(b, d, w.compiled(b, d), float64(f.FLOPs()+g.FLOPs()))
		})
	}
}

// BenchmarkReduce sums columns, the gradients of GPT-2's biases and gains, as processors do and as the device's kind does.
func BenchmarkReduce(b *testing.B) {
	d := gputest.Device(b)
	invocations, lanes := reduceInvocations, reduceLanes
	b.Cleanup(func() { reduceInvocations, reduceLanes = invocations, lanes })
	for _, s := range [][2]int{{512, 768}, {4096, 768}, {4096, 3072}, {8192, 768}} {
		for name, n := range map[string][2]int{"before": {4096, 1}, "now": {invocations, lanes}} {
			b.Run(fmt.Sprintf("%dx%d_%s", s[0], s[1], name), func(b *testing.B) {
				reduceInvocations, reduceLanes = n[0], n[1]
				w := &twin{graph: graph.New()}
				w.values = []*graph.Value{w.graph.Sum(w.graph.Input("a", graph.F32(s[0], s[1])), 0)}
				p := w.compiled(b, d)
				benchmarkRepeated(b, d, p, repeats)
				b.ReportMetric(float64(4*s[0]*s[1]*repeats)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GB/s")
			})
		}
	}
}

// repeats are the times that a small program is recorded in one submit, which takes longer than it does.
const repeats = 64

// benchmarkRepeated measures a program that is submitted several times at once.
func benchmarkRepeated(b *testing.B, d *gpu.Device, p *Program, times int) {
	b.Helper()
	b.ReportMetric(1e6*secondsOf(b, d, p, times), "us/program")
}

// BenchmarkMultiprocessors makes the products of GPT-2's layers in f32 with the tiles and slices for a card that nobody knows and for the device's.
func BenchmarkMultiprocessors(b *testing.B) {
	d := gputest.Device(b)
	for _, s := range modelShapes["GPT-2 124M, 4 x 1,024"] {
		for name, known := range map[string]int{"unknown": 0, "known": d.Limits().Multiprocessors} {
			b.Run(fmt.Sprintf("%dx_%s_%dx%dx%d_%s", s.count, s.form, s.m, s.k, s.n, name), func(b *testing.B) {
				limits := d.Limits()
				limits.Multiprocessors = known
				at, bt := s.form == "tn", s.form == "nt"
				shape := func(rows, cols int, turned bool) graph.Type {
					if turned {
						rows, cols = cols, rows
					}
					return graph.F32(rows, cols)
				}
				w := &twin{graph: graph.New()}
				w.values = []*graph.Value{w.graph.MatMul(w.graph.Input("a", shape(s.m, s.k, at)), w.graph.Input("b", shape(s.k, s.n, bt)), at, bt)}
				const times = 8
				benchmarkRepeated(b, d, w.compiledFor(b, d, limits), times)
				b.ReportMetric(2*float64(s.m)*float64(s.k)*float64(s.n)*times*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}

// BenchmarkHeadChunks is GPT-2's head, 4 x 1,024, in chunks of 320 rows as they were and as they are, in f32 and in f16 by the device's units, where it has some.
func BenchmarkHeadChunks(b *testing.B) {
	d := gputest.Device(b, func(o *gpu.Options) { o.Matrix = true })
	rows, bytes, tile := cardRows, cardBytes, cardTile
	b.Cleanup(func() { cardRows, cardBytes, cardTile = rows, bytes, tile })
	for _, f16 := range []bool{false, true} {
		for name, n := range map[string][3]int{"before": {1 << 20, 64 << 20, 16}, "now": {rows, bytes, tile}} {
			b.Run(fmt.Sprintf("f16_%v_%s", f16, name), func(b *testing.B) {
				cardRows, cardBytes, cardTile = n[0], n[1], n[2]
				w := headGraphOf(graph.HeadLoss{F16: f16}, 4096, 768, 50257, false)
				f, g := w.values[0].Node(), w.values[2].Node()
				p := w.compiled(b, d)
				benchmarkRepeated(b, d, p, 1)
				b.ReportMetric(float64(f.FLOPs()+g.FLOPs())*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			})
		}
	}
}
