package gguf

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/graph"
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

// TestNetworksReadWhatBlocksHold: a network that is trained for blocks reads the numbers that a file of its parameters has, bit for bit: those of ggml's own
// cases, and of blocks of every size with elements at the edges of codes.
func TestNetworksReadWhatBlocksHold(t *testing.T) {
	raw, err := os.ReadFile("testdata/blocks.json")
	require.NoError(t, err)
	var cases []struct{ Type, Numbers string }
	require.NoError(t, json.Unmarshal(raw, &cases))
	rng := rand.New(rand.NewPCG(1, 2))
	for _, kind := range []Type{Q8_0, Q4_0} {
		var x []float32
		for _, c := range cases {
			if c.Type == kind.String() {
				x = floats(t, c.Numbers)
			}
		}
		require.NotEmpty(t, x)
		for i := range 32 * 1024 {
			size := math.Ldexp(1, i/32%50-35) * (1 + math.Mod(float64(i/32)*0.618, 1))
			v := float32(size * (2*rng.Float64() - 1))
			if i%3 == 0 {
				v = float32(size) / 254 * float32(rng.IntN(509)-254)
			}
			x = append(x, v)
		}
		file, want := make([]byte, len(x)/32*types[kind].bytes), make([]float32, len(x))
		require.NoError(t, Encode(kind, file, x))
		types[kind].decode(want, file)

		g := graph.New()
		in := &graph.Array{Shape: []int{len(x) / 32, 32}}
		for _, v := range x {
			in.Data = append(in.Data, float64(v))
		}
		y := g.Quantize(g.Input("x", graph.F32(in.Shape...)), graph.Quantize{Mode: kind.String()}.Or())
		got, err := graph.Eval(g, map[string]*graph.Array{"x": in}, y)
		require.NoError(t, err)
		for i := range want {
			if float64(want[i]) != got[0].Data[i] {
				t.Fatalf("%s: element %d of %g: the network reads %g, the file has %g", kind, i, x[i], got[0].Data[i], want[i])
			}
		}
	}
}
