package compile

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/internal/gputest"
)

// lossTolerance covers logits that are sums of d products, and the sum of n losses.
func lossTolerance(n, d int) float64 { return eps * float64(200+8*d+4*n) }

// labels are whole numbers below limit, every third ignored.
func someLabels(rng *rand.Rand, limit, n int) *graph.Array {
	a := graph.NewArray([]int{n})
	for i := range a.Data {
		a.Data[i] = float64(rng.IntN(limit))
		if i%3 == 2 {
			a.Data[i] = graph.IgnoreLabel
		}
	}
	return a
}

func crossEntropyGraph(n, v int) *twin {
	g := graph.New()
	logits, labels := g.Input("logits", graph.F32(n, v)), g.Input("labels", graph.Type{Shape: []int{n}, DType: buffers.I32})
	f := g.Append(graph.CrossEntropy{}, logits, labels)
	d := g.Append(graph.CrossEntropyGrad{}, logits, labels, f.Outputs[1], g.Input("dloss", graph.F32())).Outputs[0]
	return &twin{graph: g, values: []*graph.Value{f.Outputs[0], f.Outputs[1], d}}
}

func TestCrossEntropy(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for _, s := range [][2]int{{1, 1}, {3, 4}, {5, 7}, {65, 63}, {64, 64}, {9, 260}, {0, 5}} {
			t.Run(fmt.Sprint(s), func(t *testing.T) {
				rng := rand.New(rand.NewPCG(41, 42))
				w := crossEntropyGraph(s[0], s[1])
				w.feeds = map[string]*graph.Array{"labels": someLabels(rng, s[1], s[0])}
				w.feed(rng)
				w.check(t, d, lossTolerance(s[0], 1))
			})
		}
	})
}

// TestCrossEntropyGroups runs the kernel of GPUs, a workgroup a row.
func TestCrossEntropyGroups(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		rng := rand.New(rand.NewPCG(43, 44))
		for _, columns := range []int{1, 64, 257, 1000} {
			w := crossEntropyGraph(5, columns)
			w.feeds = map[string]*graph.Array{"labels": someLabels(rng, columns, 5)}
			w.feed(rng)
			w.checkAs(t, d, false, lossTolerance(5, 1))
		}
	})
}

func TestCrossEntropyAllIgnored(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		w := crossEntropyGraph(6, 8)
		labels := graph.NewArray([]int{6})
		for i := range labels.Data {
			labels.Data[i] = graph.IgnoreLabel
		}
		w.feeds = map[string]*graph.Array{"labels": labels}
		w.feed(rand.New(rand.NewPCG(45, 46)))
		got, _ := w.run(t, d)
		require.Equal(t, []float64{0}, got["v0"])
		require.Equal(t, make([]float64, 48), got["v2"])
	})
}

// headGraph is a loss head and its gradient; the lowering makes one unit of both unless the backward pass waits for something
// made of the loss.
func headGraph(n, d, v int, apart bool) *twin { return headGraphOf(graph.HeadLoss{}, n, d, v, apart) }

func headGraphOf(op graph.HeadLoss, n, d, v int, apart bool) *twin {
	g := graph.New()
	x, labels := g.Input("x", graph.F32(n, d)), g.Input("labels", graph.Type{Shape: []int{n}, DType: buffers.I32})
	w := g.Param("wte", v, d)
	f := g.Append(op, x, w, labels)
	dloss := g.Input("dloss", f.Outputs[0].Type())
	if apart {
		dloss = g.Mul(dloss, g.AddConst(g.Scale(f.Outputs[0], 0), 1))
	}
	grad := g.Append(graph.HeadLossGrad(op), x, w, labels, f.Outputs[1], dloss)
	values := slices.Concat(f.Outputs, grad.Outputs[:1])
	return &twin{graph: g, values: values, leaves: map[string]*graph.Value{"wte": grad.Outputs[1]}}
}

func TestHeadLoss(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for _, apart := range []bool{false, true} {
			for _, s := range [][3]int{{1, 4, 1}, {6, 8, 12}, {5, 4, 7}, {7, 3, 5}, {17, 16, 65}, {0, 4, 8}} {
				t.Run(fmt.Sprint(s, apart), func(t *testing.T) {
					rng := rand.New(rand.NewPCG(47, 48))
					w := headGraph(s[0], s[1], s[2], apart)
					w.feeds = map[string]*graph.Array{"labels": someLabels(rng, s[2], s[0])}
					w.feed(rng)
					p := w.check(t, d, lossTolerance(s[0], s[1]))
					if s[0] > 0 && !apart {
						require.Equal(t, 6, p.Plan().Dispatches, "logits once, loss, sum, dlogits, dx, dW")
					}
				})
			}
		}
	})
}

// TestHeadLossCapped caps logits, of columns that are whole quads and of others.
func TestHeadLossCapped(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for _, columns := range gputest.Some(t, d, []int{7, 64}) {
			for _, apart := range []bool{false, true} {
				rng := rand.New(rand.NewPCG(53, 54))
				w := headGraphOf(graph.HeadLoss{Cap: 2}, 6, 8, columns, apart)
				w.feeds = map[string]*graph.Array{"labels": someLabels(rng, columns, 6)}
				w.feed(rng)
				w.check(t, d, lossTolerance(6, 8))
			}
		}
	})
}

// TestHeadLossEach has a loss and a gradient a row: made in one unit, after the losses, and capped.
func TestHeadLossEach(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for i, s := range [][3]int{{6, 8, 12}, {7, 3, 5}, {17, 16, 65}, {0, 4, 8}} {
			rng := rand.New(rand.NewPCG(55, 56))
			w := headGraphOf(graph.HeadLoss{Each: true, Cap: float64(i % 2)}, s[0], s[1], s[2], i%2 == 0)
			w.feeds = map[string]*graph.Array{"labels": someLabels(rng, s[2], s[0])}
			w.feed(rng)
			w.check(t, d, lossTolerance(1, s[1]))
		}
	})
}

// TestHeadLossEntropy has the entropy of each row too, in the kernels of processors and of GPUs, of logits in one run and in several, and capped; and large ones,
// which hardly leave any.
func TestHeadLossEntropy(t *testing.T) {
	for _, binding := range []uint64{128 << 20, 16 << 10} {
		gputest.Each(t, func(t *testing.T, d *gpu.Device) {
			for i, s := range [][3]int{{6, 8, 12}, {7, 3, 5}, {33, 16, 401}, {0, 4, 8}} {
				for _, hardware := range []bool{false, true} {
					rng := rand.New(rand.NewPCG(61, 62))
					w := headGraphOf(graph.HeadLoss{Each: i != 1, Entropy: true, Cap: float64(i % 2)}, s[0], s[1], s[2], i%2 == 0)
					w.feeds, w.hardware = map[string]*graph.Array{"labels": someLabels(rng, s[2], s[0])}, hardware
					w.feed(rng)
					if i == 0 {
						for j := range w.feeds["x"].Data {
							w.feeds["x"].Data[j] *= 20
						}
					}
					w.check(t, d, lossTolerance(s[0], 10*s[1]))
				}
			}
		}, gputest.WithLimits(gpu.Limits{BindingBytes: binding}))
	}
}

// TestHeadLossOptions smooths labels, keeps lse small and tells figures: in whole quads and others, capped, by rows, with a table in several parts, in the kernels of
// processors and of GPUs, with logits in f16 and without. The last of equal logits is no hit.
func TestHeadLossOptions(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for i, c := range []struct {
			op        graph.HeadLoss
			n, d, v   int
			apart     bool
			tolerance float64
		}{
			{graph.HeadLoss{Smoothing: 0.1, ZLoss: 0.02}, 17, 16, 65, false, lossTolerance(17, 16)},
			{graph.HeadLoss{Smoothing: 0.3, Cap: 2, Each: true}, 9, 8, 64, true, lossTolerance(9, 8)},
			{graph.HeadLoss{ZLoss: 0.5, Cap: 1.5}, 7, 3, 5, false, lossTolerance(7, 3)},
			{graph.HeadLoss{Figures: true, Each: true}, 12, 8, 12, true, lossTolerance(12, 8)},
			{graph.HeadLoss{Smoothing: 1, ZLoss: 0.1}, 150, 32, 1201, false, lossTolerance(150, 32)},
			{graph.HeadLoss{Smoothing: 0.1, ZLoss: 0.01, F16: true}, 40, 24, 65, false, 4096 * eps},
			{graph.HeadLoss{Smoothing: 0.1}, 0, 8, 12, false, 0},
		} {
			for _, hardware := range []bool{false, true} {
				t.Run(fmt.Sprint(i, hardware), func(t *testing.T) {
					rng := rand.New(rand.NewPCG(65, 66))
					w := headGraphOf(c.op, c.n, c.d, c.v, c.apart)
					w.feeds, w.hardware = map[string]*graph.Array{"labels": someLabels(rng, c.v, c.n)}, hardware
					w.feed(rng)
					w.check(t, d, c.tolerance)
				})
			}
		}
	}, gputest.WithLimits(gpu.Limits{BindingBytes: 64 << 10}))
}

// TestHeadLossHits has equal logits: of tables whose rows are all alike, in one part and in several, the first row is the hit.
func TestHeadLossHits(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for _, v := range []int{7, 600, 1201} {
			for _, hardware := range []bool{false, true} {
				const n = 6
				w := headGraphOf(graph.HeadLoss{Figures: true}, n, 32, v, false)
				labels := graph.NewArray([]int{n})
				labels.Data = []float64{0, float64(v - 1), 5, 0, graph.IgnoreLabel, 2}
				w.feeds, w.hardware = map[string]*graph.Array{"labels": labels}, hardware
				w.feed(rand.New(rand.NewPCG(67, 68)))
				table := w.feeds["wte"].Data
				for i := range table {
					table[i] = 0
					if row := i / 32; v > 1000 && row >= v-2 {
						table[i] = w.feeds["x"].Data[32+i%32] // the likeliest two of the second row
					}
				}
				got, _ := w.run(t, d)
				hits := make([]float64, n)
				for i := range hits {
					hits[i] = got["v2"][3*i+2]
				}
				want := []float64{1, 0, 0, 1, 0, 0}
				if v > 1000 {
					row := func(i int) []float64 { return w.feeds["x"].Data[32*i : 32*i+32] }
					for i := range want {
						dot := 0.0
						for j, x := range row(i) {
							dot += x * row(1)[j]
						}
						if dot > 0 && labels.Data[i] == 0 {
							want[i] = 0
						}
					}
				}
				require.Equal(t, want, hits, "%d %v", v, hardware)
			}
		}
	}, gputest.WithLimits(gpu.Limits{BindingBytes: 64 << 10}))
}

// TestHeadLossParts has a table in several parts and logits in several chunks of rows.
func TestHeadLossParts(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for _, c := range gputest.Some(t, d, []struct{ each, apart bool }{{}, {each: true}, {apart: true}}) {
			rng := rand.New(rand.NewPCG(49, 50))
			const n, width, vocab = 150, 32, 1201
			w := headGraphOf(graph.HeadLoss{Each: c.each}, n, width, vocab, c.apart)
			w.feeds = map[string]*graph.Array{"labels": someLabels(rng, vocab, n)}
			w.feed(rng)
			w.check(t, d, lossTolerance(n, width))
			once, _ := w.run(t, d)
			w.accumulate = true
			again, _ := w.run(t, d)
			require.Equal(t, once, again, "added to zero, and the same bits")
		}
	}, gputest.WithLimits(gpu.Limits{BindingBytes: 64 << 10}))
}

// TestHeadLossChunks has blocks of 16 rows: chunks of one, of two and of as many as fit a binding have the same bits, with x in one part and in two, in
// the kernels of processors and of GPUs.
func TestHeadLossChunks(t *testing.T) {
	const width, vocab, rows, n = 32, 260, 16, 43*16 + 7
	chunk, block, card, tile := chunkRows, blockBytes, cardBytes, cardTile
	t.Cleanup(func() { chunkRows, blockBytes, cardBytes, cardTile = chunk, block, card, tile })
	blockBytes = 4 * vocab * rows
	cardBytes, cardTile = blockBytes, rows
	for _, c := range []struct {
		binding              uint64
		hardware, accumulate bool
	}{{128 << 20, false, false}, {128 << 20, true, false}, {64 << 10, false, true}} {
		gputest.Each(t, func(t *testing.T, d *gpu.Device) {
			rng := rand.New(rand.NewPCG(57, 58))
			w := headGraph(n, width, vocab, false)
			w.feeds, w.hardware, w.accumulate = map[string]*graph.Array{"labels": someLabels(rng, vocab, n)}, c.hardware, c.accumulate
			w.feed(rng)
			chunkRows = rows
			want, p := w.run(t, d)
			dispatches := p.Plan().Dispatches
			for _, blocks := range []int{2, n} {
				chunkRows = blocks * rows
				got, p := w.run(t, d)
				require.Equal(t, want, got, "%d blocks", blocks)
				require.Less(t, p.Plan().Dispatches, dispatches, "%d blocks", blocks)
				dispatches = p.Plan().Dispatches
			}
			w.check(t, d, lossTolerance(n, width))
		}, gputest.WithLimits(gpu.Limits{BindingBytes: c.binding}))
	}
}

func TestLossRefusesLabels(t *testing.T) {
	d := gputest.Device(t)
	w := crossEntropyGraph(4, 8)
	w.feeds = map[string]*graph.Array{"labels": graph.NewArray([]int{4})}
	w.feed(rand.New(rand.NewPCG(51, 52)))
	_, p := w.run(t, d)
	require.NoError(t, p.WriteInts("labels", []int32{0, graph.IgnoreLabel, 7, 1}))
	require.EqualError(t, p.WriteInts("labels", []int32{0, graph.IgnoreLabel, 8, 1}), `graph: write: input "labels": label at position 2: 8, want 0 to 7`)
	require.Error(t, p.WriteInts("labels", []int32{0, -1, 7, 1}))
}

// The rows of a block are whole tiles on GPUs: GPT-2, Qwen3, Llama, Gemma, and few rows.
func TestHeadLossBlocks(t *testing.T) {
	c := &Compiler{limits: gpu.DefaultLimits()}
	block := func(n, width, bytes int) int { return (&head{n: n}).blockOf(c, n, width, bytes) }
	for _, on := range []struct{ multiprocessors, gpt2, half, qwen, gemma, odd int }{{132, 512, 1024, 512, 256, 384}, {0, 256, 640, 256, 256, 256}} {
		c.limits.Multiprocessors = on.multiprocessors
		require.Equal(t, []int{on.gpt2, on.half, on.qwen, on.gemma, on.odd},
			[]int{block(4096, 50260, 4), block(4096, 50260, 2), block(1024, 151936, 4), block(1024, 262144, 4), block(700, 50260, 4)})
		require.Equal(t, []int{100, 130, 16}, []int{block(100, 50260, 4), block(130, 50260, 4), block(1000, 5<<20, 4)})
	}
	c.limits.Software = true
	require.Equal(t, 320, block(4096, 50260, 4))
}

// TestHeadLossByUnits has products by units, whose plain bodies run here: logits in f16 that they read as they lie, chunks with copies of x and W in f16 and
// without, and a last chunk of too few rows for units.
func TestHeadLossByUnits(t *testing.T) {
	headLossByUnits(t, gputest.Device(t), gpu.MatrixUnits{Shapes: []gpu.MatrixShape{{M: 8, N: 8, K: 8}}, Lanes: 8, Subgroups: 16})
}

// The same with the units of an adapter that has them.
func TestMatrixHeadLossOfUnits(t *testing.T) {
	d := gputest.Device(t, func(o *gpu.Options) { o.Matrix = true })
	if len(d.Limits().Matrix.Shapes) == 0 {
		t.Skip("skipped, needs an adapter with matrix units")
	}
	headLossByUnits(t, d, d.Limits().Matrix)
}

func headLossByUnits(t *testing.T, d *gpu.Device, units gpu.MatrixUnits) {
	bytes := cardBytes
	t.Cleanup(func() { cardBytes = bytes })
	for _, s := range [][4]int{{300, 40, 203, 128}, {266, 36, 64, 128}, {40, 24, 65, 1024}} {
		cardBytes = 2 * ((s[2] + 7) / 8 * 8) * s[3]
		rng := rand.New(rand.NewPCG(63, 64))
		w := headGraphOf(graph.HeadLoss{F16: true}, s[0], s[1], s[2], false)
		w.feeds = map[string]*graph.Array{"labels": someLabels(rng, s[2], s[0])}
		w.hardware, w.matrix = true, units
		w.feed(rng)
		w.check(t, d, 4096*eps)
	}
}
