package compile

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/gpu"
	"gputrain/graph"
	"gputrain/internal/gputest"
)

// attentionTolerance covers sums of head dim and t terms and the exponential function, which software adapters approximate
// to about 20 eps.
const attentionTolerance = 200 * eps

type attentionCase struct {
	b, t, heads, kvHeads, headDim int
	packed, causal                bool
	cap                           float64
	window                        int
	documents                     []int // lengths of those of a row; the next row has them one shorter each
	f16                           bool
}

func (s attentionCase) String() string {
	name := fmt.Sprintf("b%d_t%d_h%d_kv%d_d%d", s.b, s.t, s.heads, s.kvHeads, s.headDim)
	if s.packed {
		name += "_packed"
	}
	if s.causal {
		name += "_causal"
	}
	if s.cap > 0 || s.window > 0 || s.documents != nil {
		name += fmt.Sprintf("_cap%g_window%d_documents%v", s.cap, s.window, s.documents)
	}
	if s.f16 {
		name += "_f16"
	}
	return name
}

// tolerance is that of f16 where rows have more keys than a kernel meets at a time: see attentionChecks.
func (s attentionCase) tolerance() float64 {
	if s.f16 && s.t > 2 {
		return 0x1p-10
	}
	return attentionTolerance
}

// graph has the outputs of the attention and the gradients of its inputs for a given do.
func (s attentionCase) graph() *twin {
	g := graph.New()
	op := graph.Attention{Heads: s.heads, KVHeads: s.kvHeads, HeadDim: s.headDim, Packed: s.packed, Causal: s.causal}
	op.Cap, op.Window, op.Documents = s.cap, s.window, s.documents != nil
	op.F16 = s.f16
	if s.cap > 0 {
		op.Scale = 1.1 / math.Sqrt(float64(s.headDim))
	}
	return &twin{graph: g, values: checkedAttention(g, op, s.b, s.t), feeds: map[string]*graph.Array{"positions": s.positions()}}
}

// positions are those of tokens in their documents, of which the last goes on to the end of the row.
func (s attentionCase) positions() *graph.Array {
	a := graph.NewArray([]int{s.b, s.t})
	for b := range s.b {
		rest, left := s.documents, 0
		for i := range s.t {
			if left == 0 && len(rest) > 0 {
				left, rest = max(1, rest[0]-b), rest[1:]
			} else if i > 0 {
				a.Data[b*s.t+i] = a.Data[b*s.t+i-1] + 1
			}
			left--
		}
	}
	return a
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
		{b: 2, t: 21, heads: 4, kvHeads: 2, headDim: 8, causal: true, cap: 1.5, window: 5},
		{b: 1, t: 19, heads: 2, kvHeads: 2, headDim: 8, packed: true, causal: true, window: 1},
		{b: 2, t: 19, heads: 4, kvHeads: 2, headDim: 8, causal: true, documents: []int{1, 6, 9}},
		{b: 2, t: 20, heads: 2, kvHeads: 2, headDim: 8, packed: true, causal: true, window: 4, documents: []int{7, 3}},
		{b: 2, t: 2, heads: 4, kvHeads: 2, headDim: 8, f16: true},
		{b: 2, t: 2, heads: 4, kvHeads: 2, headDim: 8, cap: 1.5, f16: true},
		{b: 1, t: 2, heads: 3, kvHeads: 3, headDim: 5, packed: true, causal: true, f16: true},
		{b: 1, t: 40, heads: 2, kvHeads: 2, headDim: 32, packed: true, causal: true, f16: true},
	}
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for _, s := range gputest.Some(t, d, gputest.Rows(cases, 2)) {
			t.Run(s.String(), func(t *testing.T) {
				w := s.graph()
				w.feed(rand.New(rand.NewPCG(21, 22)))
				w.checkTwice(t, d, s.tolerance())
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

// What one sequence has is not seen by another, which reads no key after its own: 0 times NaN would be told.
func TestAttentionOfOneSequence(t *testing.T) {
	s := attentionCase{b: 2, t: 5, heads: 2, kvHeads: 1, headDim: 4}
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		for _, s.causal = range []bool{false, true} {
			w := s.graph()
			w.feed(rand.New(rand.NewPCG(29, 30)))
			want, _ := w.run(t, d)
			for _, name := range []string{"q", "k", "v", "do"} {
				data := w.feeds[name].Data
				for i := len(data) / 2; i < len(data); i++ {
					data[i] = math.NaN()
				}
			}
			got, _ := w.run(t, d)
			for name := range want {
				half := len(want[name]) / 2
				require.Equal(t, want[name][:half], got[name][:half], "%s of the first sequence", name)
			}
		}
	})
}

// TestAttentionTiled runs the kernels of GPUs: heads divided in every way (TestAttentionTile), whole and ragged ones, one position more than a
// workgroup owns, a head too wide for tiles. Mesa's OpenGL takes minutes to compile one for the processor.
func TestAttentionTiled(t *testing.T) {
	cases := []attentionCase{
		{b: 2, t: 33, heads: 2, kvHeads: 2, headDim: 32, packed: true, causal: true},
		{b: 1, t: 65, heads: 2, kvHeads: 1, headDim: 64, causal: true},
		{b: 1, t: 17, heads: 2, kvHeads: 1, headDim: 256, causal: true},
		{b: 1, t: 17, heads: 2, kvHeads: 1, headDim: 512, causal: true},
		{b: 1, t: 35, heads: 2, kvHeads: 1, headDim: 80, causal: true},
		{b: 2, t: 67, heads: 4, kvHeads: 2, headDim: 8, causal: true},
		{b: 2, t: 7, heads: 3, kvHeads: 1, headDim: 96, packed: true},
		{b: 1, t: 33, heads: 2, kvHeads: 2, headDim: 128, packed: true, causal: true},
		{b: 2, t: 19, heads: 2, kvHeads: 2, headDim: 64, packed: true},
		{b: 1, t: 5, heads: 1, kvHeads: 1, headDim: 6, packed: true},
		{b: 1, t: 9, heads: 2, kvHeads: 1, headDim: 13, causal: true},
		{b: 2, t: 150, heads: 2, kvHeads: 1, headDim: 8, causal: true, cap: 1.5, window: 37},
		{b: 2, t: 150, heads: 2, kvHeads: 1, headDim: 8, causal: true, documents: []int{1, 70, 30}},
		{b: 1, t: 70, heads: 1, kvHeads: 1, headDim: 8, packed: true, causal: true, window: 11, documents: []int{30, 3}},
		{b: 1, t: 1, heads: 1, kvHeads: 1, headDim: 4},
		{b: 2, t: 2, heads: 4, kvHeads: 2, headDim: 8, f16: true},
		{b: 2, t: 2, heads: 4, kvHeads: 2, headDim: 8, cap: 1.5, f16: true},
		{b: 1, t: 2, heads: 3, kvHeads: 3, headDim: 5, packed: true, causal: true, f16: true},
		{b: 1, t: 70, heads: 2, kvHeads: 1, headDim: 64, causal: true, f16: true},
	}
	gputest.Each(t, func(t *testing.T, d *gpu.Device) {
		if a := d.Adapter(); a.Limits.Software && a.Backend == "gl" {
			t.Skip("skipped, OpenGL on the processor compiles tiles for minutes")
		}
		for _, s := range gputest.Rows(cases, 3) {
			t.Run(s.String(), func(t *testing.T) {
				w := s.graph()
				w.feed(rand.New(rand.NewPCG(25, 26)))
				w.hardware = true
				w.checkTwice(t, d, s.tolerance())
			})
		}
	})
}

// Where workgroup memory is what every device has, tiles are smaller.
func TestAttentionTiledInLeastMemory(t *testing.T) {
	d := gputest.Device(t, gputest.WithLimits(gpu.Limits{WorkgroupBytes: gpu.DefaultLimits().WorkgroupBytes}))
	for _, s := range gputest.Rows([]attentionCase{
		{b: 1, t: 33, heads: 2, kvHeads: 1, headDim: 128, packed: true, causal: true},
		{b: 1, t: 70, heads: 2, kvHeads: 2, headDim: 64, causal: true, window: 40},
		{b: 1, t: 17, heads: 2, kvHeads: 1, headDim: 256, causal: true},
	}, 1) {
		t.Run(s.String(), func(t *testing.T) {
			w := s.graph()
			w.feed(rand.New(rand.NewPCG(31, 32)))
			w.hardware = true
			w.checkTwice(t, d, s.tolerance())
		})
	}
}

// Positions that are not those of documents one behind the other are refused when they are written.
func TestAttentionRefusesDocuments(t *testing.T) {
	d := gputest.Device(t)
	w := attentionCase{b: 2, t: 3, heads: 1, kvHeads: 1, headDim: 4, causal: true, documents: []int{2}}.graph()
	w.feed(rand.New(rand.NewPCG(27, 28)))
	_, p := w.run(t, d)
	for _, positions := range [][]int32{{0, 1, 1, 0, 1, 2}, {0, 1, 2, 3, 4, 5}, {0, -1, 0, 0, 0, 0}, {1, 2, 3, 0, 1, 2}} {
		require.ErrorContains(t, p.WriteInts("positions", positions), "one more than that before it", positions)
	}
	require.NoError(t, p.WriteInts("positions", []int32{0, 0, 1, 0, 1, 2}))
}

// makes are the registers of AMD, NVIDIA, Adreno, Apple and Intel.
var makes = []gpu.Registers{{Budget: 256}, {Budget: 255}, {Budget: 192}, {Budget: 128}, {Budget: 128, Twice: true}}

// TestMakesHaveTheSameBits runs attention, also of wide heads, and a product of 64 by the tiles of each make. Attention adds up weights by as many
// invocations as a make's tile has across, so it has the same values only.
func TestMakesHaveTheSameBits(t *testing.T) {
	d := gputest.Device(t)
	attention := attentionCase{b: 1, t: 37, heads: 2, kvHeads: 1, headDim: 64, causal: true}.graph()
	attention.feed(rand.New(rand.NewPCG(31, 32)))
	wide := attentionCase{b: 1, t: 19, heads: 2, kvHeads: 1, headDim: 256, causal: true}.graph() // dkv of few rows has steps of eight quads
	wide.feed(rand.New(rand.NewPCG(31, 32)))
	product := &twin{graph: graph.New()}
	product.values = []*graph.Value{product.graph.MatMul(x(product.graph, "a", 2044, 36), x(product.graph, "b", 36, 2044), false, false)}
	product.feed(rand.New(rand.NewPCG(33, 34)))
	for name, w := range map[string]*twin{"attention": attention, "wide attention": wide, "product": product} {
		w.hardware = true
		var first map[string][]float64
		labels := map[string]bool{}
		for i, make := range makes {
			w.registers = make
			got, p := w.run(t, d)
			for _, k := range p.Kernels() {
				labels[k.Source] = true
			}
			if i == 0 {
				first = got
			}
			if name == "product" {
				require.Equal(t, first, got, "%+v", make)
			}
			for value := range first {
				requireClose(t, fmt.Sprintf("%s of %s, %+v", value, name, make), got[value], first[value], attentionTolerance)
			}
		}
		require.Greater(t, len(labels), map[string]int{"attention": 4, "wide attention": 6, "product": 1}[name], "%s has tiles of its own", name)
	}
}

// TestAttentionTile writes down how heads of the usual widths are divided: invocations across of forward, dq, dkv with the registers of AMD and NVIDIA,
// of Adreno, of Intel and Apple.
func TestAttentionTile(t *testing.T) {
	for headDim, across := range map[int][3][3]int{
		4:   {{8, 8, 8}, {8, 16, 16}, {8, 16, 16}},
		64:  {{8, 8, 8}, {8, 16, 16}, {8, 16, 16}},
		96:  {{8, 8, 16}, {16, 16, 32}, {16, 16, 32}},
		128: {{8, 8, 16}, {16, 16, 32}, {16, 16, 32}},
		256: {{16, 16, 32}, {32, 32, 64}, {32, 32, 64}},
		512: {{32, 32, 64}, {64, 64, 64}, {64, 64, 64}},
	} {
		op := graph.Attention{Heads: 4, KVHeads: 2, HeadDim: headDim}
		for i, make := range makes {
			a := attentionKernel{op: op, batch: 1, t: 9, registers: make, memory: 48 << 10}
			require.True(t, a.tiled())
			for j, want := range across[[]int{0, 0, 1, 2, 2}[i]] {
				tile := a.kernelFor(op.Heads, 2+j).tile()
				assert.Equal(t, want, tile.across, "head width %d, state %d, %+v", headDim, 2+j, make)
				assert.LessOrEqual(t, tile.lanes(), 256)
				assert.LessOrEqual(t, tile.bytes(), 32<<10, "most cards have no more")
				assert.GreaterOrEqual(t, 5*tile.slots(), tile.down, "room for what rows tell one another")
			}
		}
	}
	for _, headDim := range []int{8, 64, 96, 128, 160, 256} {
		for _, make := range makes {
			for state := 2; state <= 4; state++ {
				tile := attentionKernel{op: graph.Attention{Heads: 4, KVHeads: 2, HeadDim: headDim}, t: 9, registers: make, memory: 16 << 10}.kernelFor(4, state).tile()
				assert.LessOrEqual(t, tile.bytes(), 16<<10, "head width %d, state %d, %+v: %+v", headDim, state, make, tile)
				assert.GreaterOrEqual(t, 5*tile.slots(), tile.down)
			}
		}
	}
	wide := attentionKernel{op: graph.Attention{Heads: 1, KVHeads: 1, HeadDim: 512}, memory: 16 << 10}.kernelFor(1, 4)
	require.False(t, wide.tiled(), "every device has so much")
	wide.memory, wide.cpu = 32<<10, true
	require.True(t, wide.tiled(), "unrolled code compiles slowly")
	require.False(t, attentionKernel{op: graph.Attention{Heads: 1, KVHeads: 1, HeadDim: 64}, cpu: true}.tiled())
}
