package compile

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/internal/gputest"
)

// divergenceGraph has a teacher of width e, or one that lists tokens; apart, its gradient waits for something made of the divergence.
func divergenceGraph(rng *rand.Rand, op graph.HeadDivergence, n, d, e, v int, apart bool) *twin {
	g := graph.New()
	in := []*graph.Value{g.Input("x", graph.F32(n, d)), g.Param("wte", v, d), g.Input("labels", graph.Type{Shape: []int{n}, DType: buffers.I32})}
	w := &twin{graph: g, feeds: map[string]*graph.Array{"labels": someLabels(rng, v, n)}}
	if op.Listed > 0 {
		in = append(in, g.Input("ids", graph.F32(n, op.Listed)), g.Input("listed", graph.F32(n, op.Listed)), g.Input("rest", graph.F32(n)))
		ids, listed, rest := graph.NewArray([]int{n, op.Listed}), graph.NewArray([]int{n, op.Listed}), graph.NewArray([]int{n})
		for r := range n {
			left := 1.0
			for i, id := range rng.Perm(v)[:op.Listed] {
				p := left * (0.2 + 0.5*rng.Float64())
				left -= p
				ids.Data[r*op.Listed+i], listed.Data[r*op.Listed+i] = float64(id), float64(float32(math.Log(p)))
			}
			rest.Data[r] = float64(float32(math.Log(left)))
		}
		w.feeds["ids"], w.feeds["listed"], w.feeds["rest"] = ids, listed, rest
	} else {
		in = append(in, g.Input("teacher_x", graph.F32(n, e)), g.Param("teacher", v, e))
	}
	f := g.Append(op, in...)
	dloss := g.Input("dloss", graph.F32())
	if apart {
		dloss = g.Mul(dloss, g.AddConst(g.Scale(f.Outputs[0], 0), 1))
	}
	grad := g.Append(graph.HeadDivergenceGrad(op), append(in, f.Outputs[1], dloss)...)
	w.values, w.leaves = []*graph.Value{f.Outputs[0], f.Outputs[2], grad.Outputs[0]}, map[string]*graph.Value{"wte": grad.Outputs[1]}
	w.feed(rng)
	return w
}

// TestHeadDivergence has every form of the divergence, with whole tables and with tables whose parts lie otherwise for student and teacher, with several chunks of
// rows, in the kernels of processors and of GPUs.
func TestHeadDivergence(t *testing.T) {
	block := blockBytes
	t.Cleanup(func() { blockBytes = block })
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for i, c := range gputest.Some(t, d, []struct {
			op         graph.HeadDivergence
			n, d, e, v int
			apart      bool
		}{
			{graph.HeadDivergence{Temperature: 0.9}, 17, 16, 12, 65, false},
			{graph.HeadDivergence{Beta: 1, Temperature: 1, Cap: 2}, 9, 8, 4, 64, true},
			{graph.HeadDivergence{Beta: 0.3, Temperature: 1.5, TeacherCap: 1.5}, 7, 3, 5, 5, false},
			{graph.HeadDivergence{Beta: 0.5, Temperature: 0.7}, 60, 32, 48, 1201, false},
			{graph.HeadDivergence{Temperature: 1, Listed: 6}, 60, 32, 0, 1201, true},
			{graph.HeadDivergence{Beta: 0.6, Temperature: 1.3, Listed: 3}, 9, 8, 0, 11, false},
			{graph.HeadDivergence{Beta: 1, Temperature: 0.8, Listed: 1, Cap: 3}, 9, 8, 0, 65, true},
			{graph.HeadDivergence{Beta: 1, Temperature: 0.8}, 0, 8, 4, 65, false},
		}) {
			for _, hardware := range []bool{false, true} {
				t.Run(fmt.Sprint(i, hardware), func(t *testing.T) {
					blockBytes = 4 * 16 * ((c.v + 3) / 4 * 4)
					w := divergenceGraph(rand.New(rand.NewPCG(71, 72)), c.op, c.n, c.d, c.e, c.v, c.apart)
					w.hardware = hardware
					w.check(t, d, 8*lossTolerance(c.n, c.d))
				})
			}
		}
	}, gputest.WithLimits(gpu.Limits{BindingBytes: 64 << 10}))
}

// TestHeadDivergenceF16 rounds the operands of products, and no logits.
func TestHeadDivergenceF16(t *testing.T) {
	d := gputest.Device(t)
	w := divergenceGraph(rand.New(rand.NewPCG(73, 74)), graph.HeadDivergence{Beta: 0.5, Temperature: 0.9, F16: true}, 40, 24, 16, 65, false)
	for _, hardware := range []bool{false, true} {
		w.hardware = hardware
		w.check(t, d, 4096*eps)
	}
	once, _ := w.run(t, d)
	again, _ := w.run(t, d)
	require.Equal(t, once, again)
}
