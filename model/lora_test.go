package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/graph"
)

// scattered are random numbers for every parameter of def, near those that it begins with.
func scattered(def Definition) map[string]*graph.Array {
	params, random := initial(def), rand.New(rand.NewPCG(7, 7))
	for _, p := range def.Params() {
		a := params[p.Path]
		for i := range a.Data {
			a.Data[i] = float64(float32(a.Data[i] + 0.3*random.NormFloat64()))
		}
	}
	return params
}

// everywhere are adapters on all matrices of def but experts', the head's among them.
func everywhere(t *testing.T, def Definition) LoRA {
	t.Helper()
	family, err := familyOf(def.Kind())
	require.NoError(t, err)
	all, err := linearLayers(def, family)
	require.NoError(t, err)
	l := LoRA{Rank: 2, Alpha: 3}
	for _, a := range all {
		if a.experts == 0 {
			l.Target = append(l.Target, a.module)
		}
	}
	return l
}

// matrix is a parameter as [out][in].
func matrix(a *graph.Array, conv bool) [][]float64 {
	rows := make([][]float64, a.Shape[0])
	for i := range rows {
		rows[i] = a.Data[i*a.Shape[1] : (i+1)*a.Shape[1]]
	}
	if !conv {
		return rows
	}
	turned := make([][]float64, a.Shape[1])
	for i := range turned {
		for j := range rows {
			turned[i] = append(turned[i], rows[j][i])
		}
	}
	return turned
}

// TestAdaptersAreTheirMatrices: loss, logits and gradients are those of the network whose matrices have been merged, by the chain rule: for the merged
// matrix U = diag(m/n) V, V = W + s B A, of gradient G, that of B is s diag(m/n) G A^T, that of A is s B^T diag(m/n) G, that of m is the product of the
// rows of G and V over n; without magnitudes m/n is 1.
func TestAdaptersAreTheirMatrices(t *testing.T) {
	for k, base := range smallDefinitions(t) {
		base, err := WithDropout(base, 0)
		require.NoError(t, err)
		for _, l := range []LoRA{{}, {DoRA: true}, {RSLoRA: true, RankPattern: map[string]int{".*[^ab]": 3}}} {
			t.Run(fmt.Sprintf("%s %d dora %v", base.Kind(), k, l.DoRA), func(t *testing.T) {
				all := everywhere(t, base)
				all.DoRA, all.RSLoRA, all.RankPattern = l.DoRA, l.RSLoRA, l.RankPattern
				def, err := WithLoRA(base, all)
				require.NoError(t, err)
				params := scattered(def)
				merged, at := mergedAt(t, def, params)
				got, want := named(def, step(t, def, params)), named(merged, step(t, merged, at))
				closeTo(t, "loss", want["loss"].Data, got["loss"].Data)
				closeTo(t, "logits", want["logits"].Data, got["logits"].Data)
				for _, a := range def.(adapted).modules {
					g := merged
					path := a.weight
					if a.module == "lm_head" && slices.ContainsFunc(g.Params(), func(p Param) bool { return p.Path == "lm_head.weight" }) {
						path = "lm_head.weight"
					}
					checkGradients(t, a, all.DoRA, matrix(want[path], a.conv), matrix(params[a.weight], a.conv), params, got)
				}
			})
		}
	}
}

// mergedAt are the merged network and its parameters, in float64, by the definition of an adapter.
func mergedAt(t *testing.T, def Definition, params map[string]*graph.Array) (Definition, map[string]*graph.Array) {
	t.Helper()
	m := def.(adapted)
	merged, err := Merged(def)
	require.NoError(t, err)
	at := map[string]*graph.Array{}
	for _, p := range merged.Params() {
		from := params[p.Path]
		switch {
		case m.copies[p.Path] != "":
			from = params[m.copies[p.Path]]
		case from == nil && m.untied != "":
			from = params["base_model.model.lm_head.weight"]
		case from == nil: // a head that was tied
			from = params[families[def.Kind()].Embeddings[0]]
		}
		at[p.Path] = &graph.Array{Shape: p.Shape, Data: slices.Clone(from.Data)}
	}
	for _, a := range m.modules {
		path := a.weight
		if at["lm_head.weight"] != nil && a.module == "lm_head" {
			path = "lm_head.weight"
		}
		v, stretch := summed(a, m.lora.DoRA, matrix(params[a.weight], a.conv), params)
		for i, row := range v {
			for j, x := range row {
				to := i*a.in + j
				if a.conv {
					to = j*a.out + i
				}
				at[path].Data[to] = stretch[i] * x
			}
		}
	}
	return merged, at
}

// summed is V, and m/n of each row.
func summed(a adapter, dora bool, w [][]float64, params map[string]*graph.Array) (v [][]float64, stretch []float64) {
	down, up := matrix(params[a.a()], false), matrix(params[a.b()], false)
	for i := range w {
		row, square := make([]float64, a.in), 0.0
		for j := range row {
			row[j] = w[i][j]
			for k := range down {
				row[j] += a.scale * up[i][k] * down[k][j]
			}
			square += row[j] * row[j]
		}
		v = append(v, row)
		stretch = append(stretch, 1)
		if dora {
			stretch[i] = params[a.magnitude()].Data[i] / math.Sqrt(square)
		}
	}
	return v, stretch
}

func checkGradients(t *testing.T, a adapter, dora bool, g, w [][]float64, params, got map[string]*graph.Array) {
	t.Helper()
	v, stretch := summed(a, dora, w, params)
	down, up := matrix(params[a.a()], false), matrix(params[a.b()], false)
	wantA, wantB, wantM := make([]float64, a.rank*a.in), make([]float64, a.out*a.rank), make([]float64, a.out)
	for i := range g {
		for j := range g[i] {
			for k := range a.rank {
				wantA[k*a.in+j] += a.scale * up[i][k] * stretch[i] * g[i][j]
				wantB[i*a.rank+k] += a.scale * stretch[i] * g[i][j] * down[k][j]
			}
			if dora {
				wantM[i] += g[i][j] * v[i][j] * stretch[i] / params[a.magnitude()].Data[i]
			}
		}
	}
	closeTo(t, a.a(), wantA, got[a.a()].Data)
	closeTo(t, a.b(), wantB, got[a.b()].Data)
	if dora {
		closeTo(t, a.magnitude(), wantM, got[a.magnitude()].Data)
	}
}

// named are the results of step by name.
func named(def Definition, results []*graph.Array) map[string]*graph.Array {
	by := map[string]*graph.Array{"loss": results[0], "logits": results[1]}
	paths := AdapterParams(def)
	if paths == nil {
		for _, p := range def.Params() {
			paths = append(paths, p.Path)
		}
	}
	for i, path := range paths {
		by[path] = results[2+i]
	}
	return by
}

// closeTo compares float64 results, whose sums have another order.
func closeTo(t *testing.T, what string, want, got []float64) {
	t.Helper()
	largest := 0.0
	for _, x := range want {
		largest = max(largest, math.Abs(x))
	}
	require.Len(t, got, len(want), what)
	for i := range want {
		if !(math.Abs(want[i]-got[i]) <= 1e-10*largest) {
			require.Failf(t, what, "element %d: found %v, wanted %v", i, got[i], want[i])
		}
	}
}

// TestFreshAdapters: logits are those of the base at first, as adapters begin; parameters of the base begin as without them; A is uniform within 1/sqrt(in).
func TestFreshAdapters(t *testing.T) {
	for _, base := range smallDefinitions(t) {
		base, err := WithDropout(base, 0)
		require.NoError(t, err)
		l := everywhere(t, base)
		l.DoRA = true
		def, err := WithLoRA(base, l)
		require.NoError(t, err)
		params := initial(def)
		for path, want := range initial(base) {
			assert.Equal(t, want, params[path], path)
		}
		want, got := step(t, base, params), step(t, def, params)
		for i, x := range want[1].Data {
			assert.InDelta(t, x, got[1].Data[i], 1e-6*(1+math.Abs(x)), "%s: magnitudes are f32", base.Kind())
		}
		for _, a := range def.(adapted).modules {
			bound, most := 1/math.Sqrt(float64(a.in)), 0.0
			for _, x := range params[a.a()].Data {
				most = max(most, math.Abs(x))
			}
			assert.LessOrEqual(t, most, bound)
			assert.Greater(t, most, bound/2)
			assert.Zero(t, slices.Max(params[a.b()].Data))
		}
		paths := AdapterParams(def)
		assert.Len(t, paths, 3*len(def.(adapted).modules))
		assert.Len(t, def.Params(), len(base.Params())+len(paths))
		assert.True(t, slices.IsSorted(paths))
		assert.Nil(t, AdapterParams(base))
		for _, path := range paths {
			assert.True(t, strings.HasPrefix(path, "base_model.model."), path)
		}
	}
}

// TestTrainedCopies: what the network computes with copies of modules is what it computes with these in their places, a tied head's in a head of its own; the
// copies have the gradients, and begin as what they are copies of.
func TestTrainedCopies(t *testing.T) {
	for _, base := range smallDefinitions(t) {
		base, err := WithDropout(base, 0)
		require.NoError(t, err)
		embedding, norm := "embed_tokens", "norm"
		switch base.Kind() {
		case "mlp":
			continue
		case "gpt2":
			embedding, norm = "wte", "ln_f"
		}
		for _, save := range [][]string{{"lm_head"}, {embedding}, {embedding, "lm_head"}, {norm}} {
			t.Run(fmt.Sprint(base.Kind(), save), func(t *testing.T) {
				def, err := WithLoRA(base, LoRA{Rank: 2, Save: save})
				require.NoError(t, err)
				first := initial(def)
				for original, copied := range def.(adapted).copies {
					assert.Equal(t, first[original], first[copied], copied)
				}
				params := scattered(def)
				merged, at := mergedAt(t, def, params)
				got, want := named(def, step(t, def, params)), named(merged, step(t, merged, at))
				closeTo(t, "logits", want["logits"].Data, got["logits"].Data)
				for original, copied := range def.(adapted).copies {
					closeTo(t, copied, want[original].Data, got[copied].Data)
				}
				if untied := def.(adapted).untied; untied != "" {
					closeTo(t, untied, want["lm_head.weight"].Data, got[untied].Data)
				}
			})
		}
	}
}

// TestMerge: the merged network is read as float64 says it is, rounded to f32.
func TestMerge(t *testing.T) {
	for _, base := range smallDefinitions(t) {
		for _, l := range []LoRA{{}, {DoRA: true}} {
			all := everywhere(t, base)
			all.DoRA = l.DoRA
			def, err := WithLoRA(base, all)
			require.NoError(t, err)
			params := scattered(def)
			merged, want := mergedAt(t, def, params)
			read := Merge(def, func(path string) (data []float32, err error) {
				for _, x := range params[path].Data {
					data = append(data, float32(x))
				}
				return data, nil
			})
			for _, p := range merged.Params() {
				got, err := read(p.Path)
				require.NoError(t, err)
				require.Len(t, got, len(want[p.Path].Data))
				for i, x := range want[p.Path].Data {
					require.InDelta(t, x, got[i], 1e-7*(1+math.Abs(x)), p.Path)
				}
			}
		}
	}
	_, err := Merged(smallDefinitions(t)[0])
	require.ErrorContains(t, err, "without any")
}

// TestTargets: names, ends of names and one expression choose as PEFT chooses.
func TestTargets(t *testing.T) {
	llama, err := NewLlama(LlamaConfig{Layers: 3, Heads: 2, Width: 8, Vocab: 13, Context: 6})
	require.NoError(t, err)
	count := func(l LoRA) (ranks []int) {
		l.Rank = 2
		def, err := WithLoRA(llama, l)
		require.NoError(t, err, "%v", l)
		for _, a := range def.(adapted).modules {
			ranks = append(ranks, a.rank)
		}
		return ranks
	}
	assert.Len(t, count(LoRA{}), 6, "q_proj and v_proj")
	assert.Len(t, count(LoRA{Target: []string{AllLinear}}), 21, "all but the head")
	assert.Len(t, count(LoRA{Target: []string{"lm_head", "layers.1.mlp.up_proj"}}), 2)
	assert.Len(t, count(LoRA{Target: []string{`model\.layers\.[02]\.(mlp|self_attn)\..*`}}), 14)
	assert.Len(t, count(LoRA{Target: []string{AllLinear}, Layers: []int{2, 0}}), 14)
	both := LoRA{RankPattern: map[string]int{"q_proj": 3, `model.layers.0.self_attn.q_proj`: 3, "layers.[12].*v_proj": 1}}
	assert.Equal(t, []int{3, 2, 3, 1, 3, 1}, count(both))
	ordered := LoRA{RankPattern: map[string]int{"q_proj": 3, "0.self_attn.q_proj": 4}, rankOrder: []string{"0.self_attn.q_proj", "q_proj"}}
	assert.Equal(t, []int{4, 2, 3, 2, 3, 2}, count(ordered), "the first that matches")

	tied, err := NewLlama(LlamaConfig{Layers: 1, Heads: 2, Width: 8, Vocab: 13, Context: 6, Tied: true})
	require.NoError(t, err)
	for _, c := range []struct {
		def  Definition
		l    LoRA
		want string
	}{
		{llama, LoRA{Target: []string{"q_prj"}}, `target: "q_prj" matches no matrix of a linear layer, wanted one of ["down_proj" "gate_proj" "k_proj" "lm_head" "o_proj" "q_proj" "up_proj" "v_proj"], did you mean "q_proj"?`},
		{llama, LoRA{Target: []string{"proj"}}, `target: "proj" matches no matrix`},
		{llama, LoRA{Target: []string{"embed_tokens"}}, `target: "embed_tokens" matches no matrix of a linear layer`},
		{llama, LoRA{Target: []string{".*q_prj"}}, `target: ".*q_prj" matches no matrix`},
		{llama, LoRA{Target: []string{".*(", "q_proj"}}, `target: found ".*(" among others, wanted names`},
		{llama, LoRA{Target: []string{".*("}}, `target: error parsing regexp`},
		{llama, LoRA{Target: []string{AllLinear, "lm_head"}}, `target: found "all-linear" among others`},
		{llama, LoRA{Layers: []int{3}}, `layers: found 3, wanted numbers of layers that the model has, 0 to 2`},
		{llama, LoRA{Layers: []int{0, 3}}, `layers: found 3, wanted numbers of layers that the model has, 0 to 2`},
		{llama, LoRA{Layers: []int{0}, Target: []string{"lm_head"}}, `layers: found [0], wanted numbers of layers that have ["lm_head"]`},
		{llama, LoRA{Layers: []int{-1}}, `layers: found [-1], wanted numbers from 0`},
		{llama, LoRA{Rank: 9}, `rank: found 9 for "model.layers.0.self_attn.q_proj", whose matrix has 8 outputs and 8 inputs, wanted at most 8`},
		{llama, LoRA{RankPattern: map[string]int{"v_proj": 9}}, `rank_pattern: found 9 for "model.layers.0.self_attn.v_proj"`},
		{llama, LoRA{Rank: -1}, `rank: found -1, wanted 1 to`},
		{llama, LoRA{Alpha: math.NaN()}, `alpha: found NaN`},
		{llama, LoRA{Dropout: 1}, `dropout: found 1, wanted a probability`},
		{llama, LoRA{RankPattern: map[string]int{"q_prj": 1}}, `rank_pattern: "q_prj" matches no module with an adapter, wanted one of ["q_proj" "v_proj"], did you mean "q_proj"?`},
		{llama, LoRA{RankPattern: map[string]int{"q_proj": 1, "0.self_attn.q_proj": 2}}, `rank_pattern: "model.layers.0.self_attn.q_proj": found 2 by "0.self_attn.q_proj" and 1 by "q_proj", wanted keys that agree`},
		{llama, LoRA{RankPattern: map[string]int{"q_proj": 0}}, `rank_pattern: "q_proj": found 0`},
		{llama, LoRA{AlphaPattern: map[string]float64{"q_proj": 0}}, `alpha_pattern: "q_proj": found 0`},
		{llama, LoRA{Save: []string{"lm_haed"}}, `save: "lm_haed" ends the name of no module`},
		{llama, LoRA{Save: []string{"lm_head"}, Target: []string{"lm_head"}}, `save: found "lm_head", which has an adapter too`},
		{tied, LoRA{Save: []string{"lm_head"}, Target: []string{"lm_head"}}, `save: found "lm_head", which has an adapter too`},
		{tied, LoRA{Save: []string{"q_proj"}}, `save: found "model.layers.0.self_attn.q_proj", which has an adapter too`},
		{tied, LoRA{Target: []string{"lm_head"}, DoRA: true, Dropout: 0.1}, `target: found "lm_head" with dora and dropout 0.1`},
	} {
		_, err := WithLoRA(c.def, c.l)
		require.ErrorContains(t, err, "model: lora: "+c.want)
	}
	def, err := WithLoRA(llama, LoRA{})
	require.NoError(t, err)
	_, err = WithLoRA(def, LoRA{})
	require.ErrorContains(t, err, "wanted one without")
}
