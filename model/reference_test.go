package model

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers/array"
	"gputrain/graph"
)

// TestReferenceInTheGraph holds losses with a reference in the graph against those whose reference another graph has computed: of a network that is trained whole, and
// of one whose adapters the reference has others of.
func TestReferenceInTheGraph(t *testing.T) {
	const batch, seq = 4, 5
	random := rand.New(rand.NewPCG(5, 6))
	whole, err := NewLlama(LlamaConfig{Layers: 2, Heads: 2, KVHeads: 1, Width: 8, HeadDim: 4, Vocab: 23, Context: 8, Intermediate: 12})
	require.NoError(t, err)
	lora, err := WithLoRA(whole, LoRA{Rank: 2, Target: []string{"q_proj", "down_proj"}, Save: []string{"lm_head"}})
	require.NoError(t, err)
	rows := Rows{Count: batch, Tokens: make([]int32, batch*seq), Labels: slices.Repeat([]int32{graph.IgnoreLabel}, batch*seq), Beside: map[string][]float32{}}
	for i := range rows.Tokens {
		if rows.Tokens[i] = int32(random.IntN(23)); i%seq > i/seq && i%seq < 4 {
			rows.Labels[i] = int32(random.IntN(23))
		}
	}
	rows.Labels[3*seq+4] = 7
	for _, def := range []Definition{whole, lora} {
		both, err := WithReference(def)
		require.NoError(t, err)
		assert.Equal(t, def, Student(both))
		params := map[string]*graph.Array{}
		for _, p := range both.Params() {
			params[p.Path] = graph.NewArray(p.Shape)
			for i := range params[p.Path].Data {
				params[p.Path].Data[i] = 0.4 * random.NormFloat64()
			}
		}
		before := map[string]*graph.Array{} // the network is as its reference
		for path := range params {
			before[path] = params[path]
			if copied := params[referencePrefix+path]; copied != nil {
				before[path] = copied
			}
		}
		beside := map[string][]float32{InputGood: {1, 0, 0, 1}}
		eval := func(o Objective, params map[string]*graph.Array) []*graph.Array {
			built, err := both.Build(batch, seq, Options{Loss: true, Objective: o})
			require.NoError(t, err)
			in := rows
			in.Beside = beside
			feeds := map[string]*graph.Array{InputLossScale: {Shape: []int{}, Data: []float64{1}}}
			for path, values := range params {
				feeds[path] = values
			}
			laid := o.Inputs(in)
			feeds[InputTokens], feeds[InputLabels] = arrayOf([]int{batch, seq}, laid.Tokens), arrayOf([]int{batch * seq}, laid.Labels)
			for name, values := range laid.Floats {
				feeds[name] = arrayOf([]int{len(values)}, values)
			}
			ends := []*graph.Value{built.Loss}
			if built.Rows != nil {
				ends = append(ends, built.Rows)
			}
			got, err := graph.Eval(built.Graph, feeds, ends...)
			require.NoError(t, err)
			return got
		}
		for _, o := range []Objective{
			{Loss: "sigmoid", Numbers: map[string]float64{"beta": 0.7}},
			{Loss: "apo_zero_unpaired", Numbers: map[string]float64{"beta": 0.7, "desirable_weight": 1, "undesirable_weight": 2}},
		} {
			assert.False(t, o.ReadsReference(both))
			assert.Empty(t, o.Beside(both, seq, false)[InputReference])
			looks := Objective{Loss: looked.Name}
			var own, reference []float64 // of the pairs that the pass gives of each row, the network's
			for row := range batch {
				own, reference = append(own, eval(looks, params)[1].Data[2*row]), append(reference, eval(looks, before)[1].Data[2*row])
			}
			want, got := 0.0, eval(o, params)
			for row, good := range beside[InputGood] {
				m := 0.7 * (own[row] - reference[row])
				switch {
				case o.Loss == "sigmoid" && row%2 == 0:
					want += math.Log1p(math.Exp(-m + 0.7*(own[row+1]-reference[row+1])))
				case o.Loss != "sigmoid" && good == 1:
					want += 1 / (1 + math.Exp(m))
				case o.Loss != "sigmoid":
					want += 2 / (1 + math.Exp(-m))
				}
			}
			assert.InDelta(t, want, got[0].Data[0], 1e-9)
			moved := map[string]*graph.Array{}
			for path, values := range params {
				moved[path] = values
				if refersTo(path) && strings.Contains(path, "down_proj") {
					moved[path] = graph.NewArray(values.Shape)
				}
			}
			assert.NotEqual(t, got[0].Data, eval(o, moved)[0].Data, "the reference has parameters of its own")
		}
		hosts, drawn := ReferenceOf(both, Drawn(def, 3)), Drawn(both, 3)
		require.Len(t, hosts, len(both.Params())-len(def.Params()))
		for _, h := range hosts {
			i := slices.IndexFunc(drawn, func(d array.Host) bool { return d.Path == h.Path })
			assert.Equal(t, values(t, drawn[i]), values(t, h), h.Path)
		}
	}
}

func values(t *testing.T, h array.Host) []float32 {
	data := make([]float32, h.Elements())
	require.NoError(t, h.Copy(data, 0))
	return data
}

// TestWantsReference: completions that no text has need the reference in the graph, unless adapters are switched off for it.
func TestWantsReference(t *testing.T) {
	whole := byteGPT(t)
	lora, err := WithLoRA(whole, LoRA{})
	require.NoError(t, err)
	both, err := WithReference(whole)
	require.NoError(t, err)
	for _, row := range []struct {
		loss string
		beta float64
		want bool
	}{{"kto", 1, true}, {"bco", 1, false}, {"sigmoid", 1, false}, {"grpo", 0.1, true}, {"dapo", 0, false}, {"", 0, false}, {Distill, 0.5, false}} {
		o := Objective{Loss: row.loss, Numbers: map[string]float64{"beta": row.beta}}
		assert.Equal(t, row.want, o.WantsReference(whole), row.loss)
		assert.False(t, o.WantsReference(lora), row.loss)
		assert.False(t, o.WantsReference(both), row.loss)
	}
}
