package state

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/model"
)

// Parameters that products of f16 read are refused where f16 has an infinity for a finite number: from half a step beyond 65504
// on, 65520, and where devices keep them in bf16 from half a step below 65536 on, 65408. Embeddings that are no head, norms and
// biases may be larger, and so may all with products of f32.
func TestParametersBeyondF16(t *testing.T) {
	keys := model.Keys{Layers: 1, Heads: 2, Width: 8, Vocab: 13, Context: 6}
	nan := float32(math.NaN())
	for _, c := range []struct {
		kind, path string
		x          [2]float32
		kept       buffers.DType // of the parameter, which then is frozen
		count      int
	}{
		{"llama", "lm_head.weight", [2]float32{65520, -1e9}, buffers.F32, 2},
		{"llama", "lm_head.weight", [2]float32{65519, -65519}, buffers.F32, 0},
		{"llama", "lm_head.weight", [2]float32{65408, -65407}, buffers.BF16, 1},
		{"llama", "lm_head.weight", [2]float32{nan, 7e4}, buffers.F32, 1},
		{"llama", "model.embed_tokens.weight", [2]float32{1e9, 1e9}, buffers.F32, 0},
		{"llama", "model.norm.weight", [2]float32{1e9, 1e9}, buffers.F32, 0},
		{"llama", "model.layers.0.mlp.up_proj.weight", [2]float32{0, 7e4}, buffers.F32, 1},
		{"gpt2", "wte.weight", [2]float32{7e4, 0}, buffers.F32, 1}, // it is the head too
		{"gpt2", "wpe.weight", [2]float32{7e4, 0}, buffers.F32, 0},
		{"gpt2", "h.0.mlp.c_fc.bias", [2]float32{7e4, 0}, buffers.F32, 0},
	} {
		def, err := model.New(c.kind, keys)
		require.NoError(t, err)
		for name, def := range map[string]func() (model.Definition, error){
			"": func() (model.Definition, error) { return def, nil },
			" quantized": func() (model.Definition, error) {
				return model.WithQuantization(def, model.Quantization{Mode: "affine", Bits: 8, Group: 8})
			},
		} {
			def, err := def()
			require.NoError(t, err)
			config := Job{Config{Definition: def, Batch: 1, RoundProducts: true}}.complete()
			if c.kept != buffers.F32 {
				config.Frozen, config.FrozenDType = []string{c.path}, c.kept
			}
			hosts := model.Init(def, 1)
			for i := range hosts {
				if hosts[i].Path == c.path {
					copy(hosts[i].Data, c.x[:])
				}
			}
			held, err := config.Held(fromFiles(hosts))
			require.NoError(t, err)
			var found *ProductError
			for _, h := range held {
				err := h.Copy(make([]float32, 2), 0)
				if h.Path == c.path && c.count > 0 {
					require.ErrorAs(t, err, &found, c.path+name)
					continue
				}
				require.NoError(t, err, h.Path+name)
			}
			if c.count > 0 {
				assert.Equal(t, c.count, found.Count)
				_, at := config.Held(hosts)
				assert.Equal(t, found, at, "of numbers in memory")
				assert.ErrorContains(t, at, `tensor "`+c.path+`": found `)
			}
			config.RoundProducts = false
			_, err = config.Held(hosts)
			assert.NoError(t, err)
		}
	}
}

// fromFiles are parameters that are read.
func fromFiles(hosts []buffers.Host) (read []buffers.Host) {
	for _, h := range hosts {
		data := h.Data
		h.Data, h.Read = nil, func(dst []float32, first int) error {
			copy(dst, data[first:])
			return nil
		}
		read = append(read, h)
	}
	return read
}
