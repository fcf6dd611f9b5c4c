package model

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers/array"
	"gputrain/buffers/safetensors"
	"gputrain/graph"
)

// whole are the tensors of a model whose files have the matrices of experts one by one, as files have them in one.
func whole(def Definition, tensors []array.Tensor) (out []array.Tensor) {
	at := map[string]array.Tensor{}
	for _, t := range tensors {
		at[t.Path] = t
	}
	for _, p := range def.Params() {
		if len(p.pieces) == 0 {
			out = append(out, at[p.Path])
			continue
		}
		var parts []array.Tensor
		for _, piece := range p.pieces {
			parts = append(parts, at[piece.path])
		}
		out = append(out, array.Tensor{DType: "BF16", Host: array.Host{Path: p.Path, Shape: p.Shape, Read: readPieces(parts)}})
	}
	return out
}

// Files have matrices of experts one by one or in one: either is read to the same numbers, and written as it was read.
func TestExpertsAreWrittenAsRead(t *testing.T) {
	g := readGolden(t, "qwen3_moe_small")
	f, err := safetensors.Open(g.dir + "/model.safetensors")
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	for _, tensors := range [][]array.Tensor{f.Tensors(), whole(g.def, f.Tensors())} {
		stored, err := Bind(g.def, "it", tensors)
		require.NoError(t, err)
		for _, p := range g.def.Params() {
			data, err := stored.Read(p.Path)
			require.NoError(t, err)
			require.Equal(t, g.params[p.Path], data, p.Path)
		}
		out, err := Tensors(g.def, "BF16", stored.Read)
		require.NoError(t, err)
		out = inPieces(g.def, stored.dress(g.def, out, true, stored.Read), stored, stored.Read)
		require.Len(t, out, len(tensors))
		for _, tensor := range tensors {
			i := slices.IndexFunc(out, func(o safetensors.Tensor) bool { return o.Name == tensor.Path })
			require.GreaterOrEqual(t, i, 0, tensor.Path)
			var raw bytes.Buffer
			require.NoError(t, out[i].Data(&raw))
			data := make([]float32, tensor.Elements())
			require.NoError(t, tensor.Copy(data, 0))
			assert.Equal(t, data, array.Decoded(array.BF16, raw.Bytes()), tensor.Path)
		}
	}
	for says, change := range map[string]func(t []array.Tensor) []array.Tensor{
		`experts.3.up_proj.weight" is missing`: func(t []array.Tensor) []array.Tensor {
			return slices.DeleteFunc(t, func(t array.Tensor) bool { return strings.HasSuffix(t.Path, "1.mlp.experts.3.up_proj.weight") })
		},
		`experts.3.up_proj.weight": shape [11 32], want [12 32]`: func(t []array.Tensor) []array.Tensor {
			for i := range t {
				if strings.HasSuffix(t[i].Path, "experts.3.up_proj.weight") {
					t[i].Shape = []int{11, 32}
				}
			}
			return t
		},
		`dtype F8_E4M3, want F32`: func(t []array.Tensor) []array.Tensor {
			for i := range t {
				if strings.HasSuffix(t[i].Path, "experts.3.up_proj.weight") {
					t[i].DType = "F8_E4M3"
				}
			}
			return t
		},
	} {
		_, err := Bind(g.def, "it", change(slices.Clone(f.Tensors())))
		assert.ErrorContains(t, err, says)
	}
	assert.Equal(t, " (17888 for a token)", ForToken(g.def))
	assert.Empty(t, ForToken(readGolden(t, "qwen3_qknorm").def))
}

// Some layers may have no experts.
func TestLayersWithoutExperts(t *testing.T) {
	def, err := New("qwen3_moe", Keys{Layers: 4, Heads: 2, Width: 16, Vocab: 32, Context: 8, RopeTheta: 10000})
	require.NoError(t, err)
	raw, err := ConfigJSON(def, "F32")
	require.NoError(t, err)
	raw = bytes.Replace(bytes.Replace(raw, []byte(`"decoder_sparse_step": 1`), []byte(`"decoder_sparse_step": 2`), 1), []byte(`"mlp_only_layers": []`), []byte(`"mlp_only_layers": [3]`), 1)
	def, err = ParseConfig(raw)
	require.NoError(t, err)
	var with []bool
	for _, l := range def.(decoder).layers {
		with = append(with, l.experts != nil)
	}
	assert.Equal(t, []bool{false, true, false, false}, with)
	_, err = def.Build(1, 4, Options{Logits: true})
	assert.NoError(t, err)
}

// Documents one behind the other have the logits that each has alone, sinks and experts included.
func TestDocumentsOfExperts(t *testing.T) {
	for _, name := range []string{"qwen3_moe_small", "gpt_oss_small"} {
		g := readGolden(t, name)
		tokens, _ := g.batch(t)
		logits := func(tokens []int32, o Options, positions []int32) []float64 {
			built, err := g.def.Build(1, len(tokens), o)
			require.NoError(t, err)
			feeds := g.feeds(t, 1)
			feeds[InputTokens], feeds[InputPositions] = arrayOf([]int{1, len(tokens)}, tokens), arrayOf([]int{1, len(tokens)}, positions)
			got, err := graph.Eval(built.Graph, feeds, built.Logits)
			require.NoError(t, err)
			return got[0].Data
		}
		both := logits(tokens[:16], Options{Logits: true, Documents: true}, []int32{0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10})
		alone := append(logits(tokens[:5], Options{Logits: true}, make([]int32, 5)), logits(tokens[5:16], Options{Logits: true}, make([]int32, 11))...)
		assert.InDeltaSlice(t, alone, both, 1e-9, name)
	}
}
