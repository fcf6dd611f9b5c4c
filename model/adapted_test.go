package model

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/graph"
)

// Units with adapters are the base's, and each adapter is in the unit of its matrix, also where GPT-2's names have a prefix.
func TestUnitsWithAdapters(t *testing.T) {
	for _, kind := range []string{"llama", "gpt2", "phi3"} {
		base, err := New(kind, smallKeys)
		require.NoError(t, err)
		def, err := WithLoRA(base, LoRA{Rank: 2, DoRA: true, Target: []string{AllLinear}, Save: []string{"lm_head"}})
		require.NoError(t, err)
		layers := func(def Definition) (names []string, at map[string]string) {
			built, err := def.Build(1, 4, Options{Loss: true})
			require.NoError(t, err)
			units, _, _ := Units(built)
			at = map[string]string{}
			for _, u := range units {
				names = append(names, u.Layer)
				for _, path := range u.Params {
					at[path] = u.Layer
				}
			}
			return names, at
		}
		want, _ := layers(base)
		got, at := layers(def)
		assert.Equal(t, want, got, kind)
		for _, p := range def.Params() {
			assert.Contains(t, at, p.Path, "every parameter is in a unit, one whose copy is trained too")
		}
		for _, a := range def.(adapted).modules {
			for _, path := range []string{a.a(), a.b(), a.magnitude()} {
				assert.Equal(t, at[a.weight], at[path], path)
				assert.Equal(t, a.weight, Adapts(path))
			}
		}
		assert.Equal(t, "lm_head.weight", Adapts("base_model.model.lm_head.weight"))
		built, err := def.Build(1, 4, Options{Loss: true})
		require.NoError(t, err)
		wrt := slices.DeleteFunc(slices.Clone(built.Params), func(v *graph.Value) bool { return !slices.Contains(AdapterParams(def), paramOf(v)) })
		forward := len(built.Graph.Nodes())
		_, err = graph.Gradients(built.Graph, built.Loss, wrt)
		require.NoError(t, err)
		again, err := Recompute(built, forward, RecomputeLayers, nil)
		require.NoError(t, err)
		assert.Greater(t, len(again.Graph.Nodes()), len(built.Graph.Nodes()), "layers with adapters are computed again")
	}
}

// Sequences that go on token by token have the logits of whole ones, with adapters on every matrix.
func TestAdaptersInSequencesThatGoOn(t *testing.T) {
	for _, base := range smallDefinitions(t)[:4] {
		l := everywhere(t, base)
		l.DoRA, l.Dropout = true, 0
		def, err := WithLoRA(base, l)
		require.NoError(t, err)
		params := scattered(def)
		const seq = 4
		tokens := []int32{1, 5, 12, 3}
		whole, err := def.Build(1, seq, Options{Logits: true})
		require.NoError(t, err)
		feeds := map[string]*graph.Array{InputTokens: arrayOf([]int{1, seq}, tokens)}
		for path, a := range params {
			feeds[path] = a
		}
		want, err := graph.Eval(whole.Graph, feeds, whole.Logits)
		require.NoError(t, err)
		one, err := def.Build(1, 1, Options{Logits: true, Window: seq})
		require.NoError(t, err)
		for _, c := range one.Caches {
			feeds[c.Node().Op.(graph.Input).Name] = &graph.Array{Shape: c.Shape(), Data: make([]float64, c.Type().Elements())}
		}
		for i, token := range tokens {
			feeds[InputTokens] = arrayOf([]int{1, 1}, []int32{token})
			feeds[InputPositions] = arrayOf([]int{1, 1}, []int32{int32(i)})
			after, names := cachesAfter(one)
			ask := append([]*graph.Value{one.Logits}, after...)
			got, err := graph.Eval(one.Graph, feeds, ask...)
			require.NoError(t, err)
			for k, name := range names {
				feeds[name] = got[1+k]
			}
			closeTo(t, base.Kind(), want[0].Data[i*base.Vocab():(i+1)*base.Vocab()], got[0].Data)
		}
	}
}

// Dropout falls on the input of each adapter apart, and on nothing else: with DoRA, y = W x + (m/n - 1) W d(x) + (m/n) s B (A d(x)).
func TestAdapterDropout(t *testing.T) {
	base, err := NewLlama(LlamaConfig{Layers: 1, Heads: 2, Width: 8, Vocab: 13, Context: 6})
	require.NoError(t, err)
	for _, dora := range []bool{false, true} {
		def, err := WithLoRA(base, LoRA{Rank: 2, DoRA: dora, Dropout: 0.5})
		require.NoError(t, err)
		training, err := def.Build(2, 5, Options{Loss: true, Logits: true, Training: true})
		require.NoError(t, err)
		dropped := 0
		for _, n := range training.Graph.Nodes() {
			if d, ok := n.Op.(graph.Dropout); ok {
				assert.Equal(t, 0.5, d.P)
				dropped++
			}
		}
		assert.Equal(t, 2, dropped, "q and v")
		evaluation, err := def.Build(2, 5, Options{Loss: true, Logits: true})
		require.NoError(t, err)
		params := scattered(def)
		feeds, _, _ := stepFeeds(def, params)
		logits := func(built *Built) []float64 {
			out, err := graph.Eval(built.Graph, feeds, built.Logits)
			require.NoError(t, err)
			return out[0].Data
		}
		assert.NotEqual(t, logits(evaluation), logits(training))
		for _, path := range AdapterParams(def) { // B and, with DoRA, magnitudes that are lengths: nothing is added, so nothing can be dropped
			a := params[path]
			switch m := def.(adapted); {
			case strings.HasSuffix(path, loraB):
				clear(a.Data)
			case dora && strings.HasSuffix(path, magnitudeVector):
				for _, of := range m.modules {
					if of.magnitude() == path {
						for i, row := range matrix(params[of.weight], of.conv) {
							square := 0.0
							for _, x := range row {
								square += x * x
							}
							a.Data[i] = math.Sqrt(square)
						}
					}
				}
			}
		}
		closeTo(t, "nothing added", logits(evaluation), logits(training))
	}
}
