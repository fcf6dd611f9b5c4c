package model

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers/array"
)

// partOf is a network with adapters of numbers that depend on salt.
func partOf(t *testing.T, base Definition, l LoRA, weight float64, salt int) Part {
	t.Helper()
	def, err := WithLoRA(base, l)
	require.NoError(t, err)
	var tensors []array.Tensor
	m := def.(adapted)
	for _, p := range m.own() {
		data := make([]float32, elements(p.Shape))
		for i := range data {
			data[i] = float32((i*7+salt*13+len(p.Path))%23)/16 - 0.7
		}
		tensors = append(tensors, array.Tensor{DType: "F32", Host: array.Host{Path: families[def.Kind()].adapterName(def, p.Path), Shape: p.Shape, Read: func(dst []float32, first int) error {
			copy(dst, data[first:])
			return nil
		}}})
	}
	stored, err := Bind(def, "x", tensors)
	require.NoError(t, err)
	return Part{From: []string{"a", "b", "c"}[salt], Def: def, Weights: stored, Weight: weight}
}

// A sum of adapters adds to each matrix what all add, each times its weight, whatever their ranks and scales.
func TestAddUp(t *testing.T) {
	for _, base := range smallDefinitions(t)[:4] {
		target := everywhere(t, base).Target
		parts := []Part{
			partOf(t, base, LoRA{Rank: 2, Target: target}, 0.5, 0),
			partOf(t, base, LoRA{Rank: 3, Alpha: 5, RSLoRA: true, Target: target, RankPattern: map[string]int{".*0.*": 1}}, -1.25, 1),
			partOf(t, base, LoRA{Rank: 1, Target: target}, 0, 2),
		}
		def, tensors, err := AddUp(parts)
		require.NoError(t, err)
		stored, err := Bind(def, "sum", tensors)
		require.NoError(t, err)
		m := def.(adapted)
		assert.Len(t, m.modules, len(parts[0].Def.(adapted).modules))
		for i, a := range m.modules {
			got, want := make([]float32, a.in*a.out), make([]float64, a.in*a.out)
			a.conv = false
			require.NoError(t, a.merge(got, false, stored.Read))
			for _, p := range parts {
				of := p.Def.(adapted).modules[i]
				of.conv = false
				delta := make([]float32, a.in*a.out)
				require.NoError(t, of.merge(delta, false, p.Weights.Read))
				for j, v := range delta {
					want[j] += p.Weight * float64(v)
				}
			}
			for j, v := range want {
				require.InDelta(t, v, got[j], 1e-5, "%s %d", a.module, j)
			}
			part := make([]float32, 3)
			b := tensors[slices.IndexFunc(tensors, func(t array.Tensor) bool { return families[def.Kind()].tensorPath(t.Path) == a.b() })]
			whole, err := stored.Read(a.b())
			require.NoError(t, err)
			require.NoError(t, b.Read(part, 2))
			assert.Equal(t, whole[2:5], part)
		}
		raw, err := AdapterConfig(def, "base")
		require.NoError(t, err)
		again, err := ParseAdapter(raw, base, tensors...)
		require.NoError(t, err)
		assert.True(t, slices.EqualFunc(m.modules, again.(adapted).modules, func(a, b adapter) bool { return a == b }), "%s", raw)
	}
}

func TestAddUpRefuses(t *testing.T) {
	base, other := smallDefinitions(t)[2], smallDefinitions(t)[3]
	q := LoRA{Rank: 1, Target: []string{"q_proj"}}
	for want, of := range map[string][]Part{
		`model: add up adapters: found an adapter of "model.layers.0.self_attn.v_proj" in b and none in a, wanted adapters of the same modules`: {partOf(t, base, q, 1, 0), partOf(t, base, LoRA{Rank: 1}, 1, 1)},
		`found an adapter of "model.layers.0.self_attn.v_proj" in a and none in b`:                                                              {partOf(t, base, LoRA{Rank: 1}, 1, 0), partOf(t, base, q, 1, 1)},
		"b: found another network than that of a, wanted adapters of one base":                                                                  {partOf(t, base, q, 1, 0), partOf(t, other, q, 1, 1)},
		"a: found dora": {partOf(t, base, LoRA{Rank: 1, DoRA: true}, 0.5, 0)},
		"a: found modules that are trained whole ([\"lm_head\"])": {partOf(t, base, LoRA{Rank: 1, Save: []string{"lm_head"}}, 0.5, 0)},
		"merge one after the other":                               {partOf(t, base, LoRA{Rank: 8, Target: []string{"q_proj"}}, 1, 0), partOf(t, base, LoRA{Rank: 8, Target: []string{"q_proj"}}, 1, 1)},
	} {
		_, _, err := AddUp(of)
		assert.ErrorContains(t, err, want)
	}
}
