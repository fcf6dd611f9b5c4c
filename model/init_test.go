package model

import (
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Of every family that can be new, each layer has two matrices that begin with 0, with an expert for all tokens three, and their biases; everything else is as it is drawn.
func TestZeroOutputs(t *testing.T) {
	layer := regexp.MustCompile(`^(.*?\d+)\.`)
	for _, kind := range Kinds() {
		f := families[kind]
		if f.New == nil {
			continue
		}
		def, err := f.New(Keys{Layers: 4, Heads: 2, Width: 16, Context: 8, Vocab: 11, RopeTheta: 10000})
		require.NoError(t, err, kind)
		zero, err := ZeroOutputs(def, 7)
		if kind == "mlp" {
			assert.ErrorContains(t, err, "found no matrices")
			continue
		}
		require.NoError(t, err, kind)
		of := map[string]int{}
		for i, h := range Init(def, 7) {
			data := make([]float32, h.Elements())
			require.NoError(t, zero[i].Copy(data, 0))
			if !outputs.MatchString(h.Path) {
				assert.Equal(t, h.Data, data, "%s: %s", kind, h.Path)
				continue
			}
			assert.Equal(t, make([]float32, len(data)), data, "%s: %s", kind, h.Path)
			if len(h.Shape) >= 2 && !strings.HasSuffix(h.Path, "_bias") {
				of[layer.FindString(h.Path)]++
			}
		}
		assert.Len(t, of, 4, kind)
		want := 2
		if kind == "qwen3_5_moe_text" {
			want = 3
		}
		for layer, matrices := range of {
			assert.Equal(t, want, matrices, "%s: %s", kind, layer)
		}
	}
}
