package compile

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"gputrain/gpu"
)

// modelShape is a product of a model's step: how often, its form and M x K x N.
type modelShape struct {
	count   int
	form    string
	m, k, n int
}

// layerShapes are the products of layers: of a weight [in, out] the forward one, that of its input's gradient and, where it is trained, that of its own.
func layerShapes(tokens, layers int, trained bool, weights ...[3]int) (out []modelShape) {
	for _, w := range weights {
		n := layers * w[2]
		out = append(out, modelShape{n, "nn", tokens, w[0], w[1]}, modelShape{n, "nt", tokens, w[1], w[0]})
		if trained {
			out = append(out, modelShape{n, "tn", w[0], tokens, w[1]})
		}
	}
	return out
}

var modelShapes = map[string][]modelShape{
	"GPT-2 124M, 4 x 1,024":     layerShapes(4096, 12, true, [3]int{768, 2304, 1}, [3]int{768, 768, 1}, [3]int{768, 3072, 1}, [3]int{3072, 768, 1}),
	"Qwen3-0.6B, 1 x 1,024":     layerShapes(1024, 28, true, [3]int{1024, 2048, 1}, [3]int{1024, 1024, 2}, [3]int{2048, 1024, 1}, [3]int{1024, 3072, 2}, [3]int{3072, 1024, 1}),
	"Llama 1B, LoRA, 1 x 1,024": layerShapes(1024, 16, false, [3]int{2048, 2048, 2}, [3]int{2048, 512, 2}, [3]int{2048, 8192, 2}, [3]int{8192, 2048, 1}),
}

func (s modelShape) gemm(f16 bool) gemm {
	g := gemm{m: s.m, n: s.n, k: s.k, count: 1, transA: s.form == "tn", transB: s.form == "nt", f16: f16}
	g.a.row, g.b.row, g.c.row = s.k, s.n, s.n
	if g.transA {
		g.a.row = s.m
	}
	if g.transB {
		g.b.row = s.k
	}
	return g
}

// h100 is what the card's pages have: TFLOP/s of tiles of 128 x 128 in f32 by form, and us of a step of 32 by units, for one tile a multiprocessor and for two.
// Tiles of 64 x 64 make 26.5, two a multiprocessor. The sum moves 2.8 TB/s, after 3 us.
func (s modelShape) h100(v gemmVariant, slices int, f16 bool) (ms float64) {
	const multiprocessors = 132
	g := s.gemm(f16)
	groups := v.groups(g, slices)
	if f16 {
		turns := math.Ceil(groups / multiprocessors)
		ms = (math.Floor(turns/2)*1.6 + math.Mod(turns, 2)*1.25) * float64((s.k/slices+31)/32) / 1e3
	} else {
		waves := groups / multiprocessors
		rate := map[string]float64{"nn": 28.0, "nt": 29.6, "tn": 31.9}[s.form] * waves / math.Ceil(waves)
		if v.tileM < 128 {
			waves = groups / (2 * multiprocessors)
			rate = 26.5 * waves / math.Ceil(waves)
		}
		ms = 2 * float64(s.m) * float64(s.k) * float64(s.n) / rate / 1e9
	}
	if slices > 1 {
		ms += 3e-3 + float64(8*slices*s.m*s.n)/2.8e9
	}
	return ms
}

// The choice for an H100's 132 multiprocessors against that for a card that nobody knows, in the times that the card's page gives tiles: computed. -v has
// each product.
func TestProductsOnMultiprocessors(t *testing.T) {
	limits := gpu.DefaultLimits()
	limits.BindingBytes, limits.Invocations, limits.WorkgroupBytes = 2<<30, 1024, 48<<10
	limits.Registers = gpu.Registers{Budget: 255}
	limits.Matrix = gpu.MatrixUnits{Shapes: []gpu.MatrixShape{{M: 16, N: 16, K: 16}}, Lanes: 32, Subgroups: 32}
	type choice struct {
		model           string
		f16             bool
		multiprocessors int
	}
	total := map[choice]float64{}
	for _, model := range []string{"GPT-2 124M, 4 x 1,024", "Qwen3-0.6B, 1 x 1,024", "Llama 1B, LoRA, 1 x 1,024"} {
		for _, f16 := range []bool{false, true} {
			for _, s := range modelShapes[model] {
				line := fmt.Sprintf("%3d x %s %dx%dx%d", s.count, s.form, s.m, s.k, s.n)
				for _, multiprocessors := range []int{0, 132} {
					limits.Multiprocessors, limits.MultiprocessorLanes = multiprocessors, 128
					c := &Compiler{limits: limits}
					v, slices := c.gpuChoice(s.gemm(f16))
					ms := float64(s.count) * s.h100(v, slices, f16)
					total[choice{model, f16, multiprocessors}] += ms
					line += fmt.Sprintf("   %s %dx%d, %2d slices, %4.0f workgroups, %5.2f ms", v.file, v.tileM, v.tileN, slices, v.groups(s.gemm(f16), slices), ms)
				}
				t.Log(line)
			}
			t.Logf("%s, f16 %v: %.1f ms where nobody knows the card, %.1f for 132 multiprocessors", model, f16, total[choice{model, f16, 0}], total[choice{model, f16, 132}])
		}
	}
	for c, most := range map[choice]float64{
		{"GPT-2 124M, 4 x 1,024", false, 132}: 77, {"GPT-2 124M, 4 x 1,024", true, 132}: 14.3,
		{"Qwen3-0.6B, 1 x 1,024", false, 132}: 101, {"Llama 1B, LoRA, 1 x 1,024", true, 132}: 27.5,
	} {
		assert.Less(t, total[c], most, "%v", c)
	}
	// A tile of more columns takes fewer slices, not the slices of another tile.
	limits.Multiprocessors, limits.MultiprocessorLanes = 132, 128
	c := &Compiler{limits: limits}
	v, slices := c.gpuChoice(modelShape{1, "tn", 3072, 4096, 768}.gemm(true))
	assert.Equal(t, []int{192, 1}, []int{v.tileN, slices})
	assert.InDelta(t, 95.7, total[choice{"GPT-2 124M, 4 x 1,024", false, 0}], 0.5, "what the page's figures come to")
}
