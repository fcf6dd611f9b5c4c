package model

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWindow(t *testing.T) {
	long, err := NewLlama(LlamaConfig{Layers: 1, Heads: 1, Width: 8, Vocab: 9, Context: 5000})
	require.NoError(t, err)
	short, err := NewLlama(LlamaConfig{Layers: 1, Heads: 1, Width: 8, Vocab: 9, Context: 128})
	require.NoError(t, err)
	quantized, err := WithQuantization(long, Quantization{Mode: "affine", Bits: 4, Group: 32})
	require.NoError(t, err)
	phi := readGolden(t, "phi3_fused").def // began with 32 of 256
	for _, c := range []struct {
		def          Definition
		tokens, want int
	}{
		{long, 1, 1024},
		{long, 1024, 1024},
		{long, 1025, 2048},
		{long, 4097, 5000},
		{long, 1 << 30, 5000},
		{quantized, 1025, 2048},
		{short, 1, 128},
		{short, 999, 128},
		{phi, 32, 32},
		{phi, 33, 256},
	} {
		assert.Equal(t, c.want, Window(c.def, c.tokens), "%s of %d, %d tokens", c.def.Kind(), c.def.Context(), c.tokens)
	}
}
