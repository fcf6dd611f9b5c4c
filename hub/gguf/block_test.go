package gguf

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestBlocks holds blocks to those of ggml, which tools/llama/blocks.py has made.
func TestBlocks(t *testing.T) {
	raw, err := os.ReadFile("testdata/blocks.json")
	require.NoError(t, err)
	var cases []struct{ Type, Numbers, Blocks, Values string }
	require.NoError(t, json.Unmarshal(raw, &cases))
	require.Len(t, cases, 9)
	for _, c := range cases {
		kind, err := ParseType(c.Type)
		require.NoError(t, err)
		blocks, err := hex.DecodeString(c.Blocks)
		require.NoError(t, err)
		want := floats(t, c.Values)
		got := make([]float32, len(want))
		types[kind].decode(got, blocks)
		for i := range want {
			require.Equal(t, math.Float32bits(want[i]), math.Float32bits(got[i]), "%s: element %d: found %g, wanted %g", c.Type, i, got[i], want[i])
		}
		if kind.Writable() {
			made := make([]byte, len(blocks))
			require.NoError(t, Encode(kind, made, floats(t, c.Numbers)))
			assert.Equal(t, c.Blocks, hex.EncodeToString(made), c.Type)
		}
	}
}

func floats(t *testing.T, text string) []float32 {
	t.Helper()
	raw, err := hex.DecodeString(text)
	require.NoError(t, err)
	out := make([]float32, len(raw)/4)
	decodeF32(out, raw)
	return out
}

func TestConvertRefuses(t *testing.T) {
	assert.EqualError(t, Encode(Q8_0, make([]byte, 34), make([]float32, 33)), "gguf: encode: type q8_0: found rows of 33 elements, wanted a multiple of 32")
	assert.EqualError(t, Encode(Q8_0, make([]byte, 33), make([]float32, 32)), "gguf: encode: q8_0: found 33 bytes for 32 elements, wanted 34")
	assert.EqualError(t, Encode(Q4_K, make([]byte, 144), make([]float32, 256)), "gguf: encode: found q4_k, wanted another type")
	_, err := ParseType("q9")
	assert.EqualError(t, err, `gguf: type: found "q9", wanted one of f32, f16, q4_0, q4_1, q5_0, q5_1, q8_0, q4_k, q5_k, q6_k, iq4_nl, bf16`)
}
