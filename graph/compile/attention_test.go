package compile

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/gpu/gputest"
	"gputrain/graph"
)

// attentionTolerance covers sums of head dim and t terms and the exponential function, which software adapters approximate
// to about 20 eps.
const attentionTolerance = 200 * eps

type attentionCase struct {
	b, t, heads, kvHeads, headDim int
	packed, causal                bool
}

func (s attentionCase) String() string {
	name := fmt.Sprintf("b%d_t%d_h%d_kv%d_d%d", s.b, s.t, s.heads, s.kvHeads, s.headDim)
	if s.packed {
		name += "_packed"
	}
	if s.causal {
		name += "_causal"
	}
	return name
}

// graph has the outputs of the attention and the gradients of its inputs for a given do.
func (s attentionCase) graph() *twin {
	g := graph.New()
	op := graph.Attention{Heads: s.heads, KVHeads: s.kvHeads, HeadDim: s.headDim, Packed: s.packed, Causal: s.causal}
	return &twin{graph: g, values: checkedAttention(g, op, s.b, s.t)}
}

func TestAttention(t *testing.T) {
	cases := []attentionCase{
		{b: 1, t: 1, heads: 1, kvHeads: 1, headDim: 4},
		{b: 2, t: 5, heads: 2, kvHeads: 2, headDim: 8, causal: true},
		{b: 2, t: 7, heads: 4, kvHeads: 4, headDim: 16, packed: true, causal: true},
		{b: 2, t: 9, heads: 4, kvHeads: 2, headDim: 8, causal: true},
		{b: 1, t: 33, heads: 6, kvHeads: 2, headDim: 8, packed: true},
		{b: 3, t: 17, heads: 3, kvHeads: 3, headDim: 8, packed: true, causal: true},
		{b: 1, t: 12, heads: 2, kvHeads: 1, headDim: 5, causal: true},
		{b: 2, t: 6, heads: 3, kvHeads: 3, headDim: 3, packed: true, causal: true},
		{b: 1, t: 2, heads: 2, kvHeads: 2, headDim: 64, packed: true, causal: true},
		{b: 0, t: 3, heads: 1, kvHeads: 1, headDim: 4},
	}
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for _, s := range gputest.Some(t, d, cases) {
			t.Run(s.String(), func(t *testing.T) {
				w := s.graph()
				w.feed(rand.New(rand.NewPCG(21, 22)))
				w.check(t, d, attentionTolerance)
				first, _ := w.run(t, d)
				second, _ := w.run(t, d)
				require.Equal(t, first, second, "the same bits")
			})
		}
	})
}

// TestAttentionLargeScores has scores whose exponentials overflow, and rows that a single key dominates.
func TestAttentionLargeScores(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		w := attentionCase{b: 1, t: 9, heads: 2, kvHeads: 2, headDim: 4, causal: true}.graph()
		w.feed(rand.New(rand.NewPCG(23, 24)))
		for i := range w.feeds["q"].Data {
			w.feeds["q"].Data[i] *= 64
		}
		// the scores are about 64 times as large, and so are their errors
		w.check(t, d, 64*attentionTolerance)
	})
}

// TestAttentionRows runs the kernels of GPUs, neighbouring invocations on neighbouring positions.
func TestAttentionRows(t *testing.T) {
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for _, s := range []attentionCase{{b: 2, t: 67, heads: 4, kvHeads: 2, headDim: 8, causal: true}, {b: 1, t: 5, heads: 1, kvHeads: 1, headDim: 6, packed: true}} {
			w := s.graph()
			w.feed(rand.New(rand.NewPCG(25, 26)))
			w.checkAs(t, d, false, attentionTolerance)
		}
	})
}
