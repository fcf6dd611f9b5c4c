package state

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/gpu"
	"gputrain/graph/compile"
	"gputrain/model"
)

// The work of an update adds up to what the graph, the programs and the optimizer say of themselves, on a card and on a software adapter.
func TestWorkOfAnUpdate(t *testing.T) {
	llama, err := model.NewLlama(model.LlamaConfig{Layers: 2, Heads: 4, KVHeads: 2, Width: 32, Vocab: testV, Context: testT, Tied: true})
	require.NoError(t, err)
	for _, def := range []model.Definition{tinyModel(t, 0), tinyModel(t, 0.1), llama} {
		for _, kind := range []string{"discrete", "cpu"} {
			for _, accumulate := range []int{1, 3} {
				c := tinyConfig(t)
				c.Definition, c.Microbatches = def, accumulate
				a := gpu.Adapter{Index: -1, Name: "none", Type: kind, Limits: gpu.DefaultLimits()}
				s, err := Dry(t.Context(), jobOf(t, c), gpu.DryOf(a, a.Limits))
				require.NoError(t, err)
				work := s.Work()
				flops, err := jobOf(t, c).FLOPs()
				require.NoError(t, err)

				passes, update := work[:len(work)-1], work[len(work)-1]
				if last := passes[len(passes)-1]; accumulate > 1 {
					assert.Equal(t, []any{"sum", 2}, []any{last.Kernels, last.Dispatches}, "behind the second and the third")
					layout, _, err := jobOf(t, c).layouts(a.Limits)
					require.NoError(t, err)
					assert.Equal(t, (2+3+3)*float64(layout.Bytes(buffers.F32)), last.Bytes, "one is copied, two are added, twice")
					passes = passes[:len(passes)-1]
				}
				var want, found int64
				for _, n := range flops {
					want += n
				}
				dispatches, kinds := 0, map[string]int64{}
				for _, w := range passes {
					found += int64(w.Needed)
					dispatches += w.Dispatches
					kinds[w.Kind] += int64(w.Needed)
					assert.Equal(t, w.Kind == "attention_grad", w.FLOPs > w.Needed, w.Kind)
					assert.Positive(t, w.Bytes, w.Kernels)
					if w.Group != compile.Rest {
						assert.Zero(t, w.Least, w.Kernels)
					}
				}
				assert.Equal(t, want, found)
				assert.Equal(t, flops["matmul"], kinds["matmul"])
				assert.Equal(t, flops["attention_grad"], kinds["attention_grad"])
				assert.Zero(t, dispatches%accumulate)

				parameters := model.Parameters(def)
				tx, err := jobOf(t, c).Transform()
				require.NoError(t, err)
				assert.EqualValues(t, tx.Cost().TrafficBytes*float64(parameters), update.Bytes)
			}
		}
	}
}
