package model

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/graph"
)

// TestPackedCompletions has the loss, the sums and the gradients of completions in windows of their own where several share a window, with a reference in the graph
// and with one that is given, and where a window is not full.
func TestPackedCompletions(t *testing.T) {
	const seq, windows = 24, 3 // the last is empty
	random := rand.New(rand.NewPCG(15, 16))
	whole, err := NewLlama(LlamaConfig{Layers: 1, Heads: 2, KVHeads: 1, Width: 8, HeadDim: 4, Vocab: 19, Context: seq, Intermediate: 12})
	require.NoError(t, err)
	lora, err := WithLoRA(whole, LoRA{Rank: 2, Target: []string{"q_proj", "down_proj"}})
	require.NoError(t, err)
	lengths := [][2]int{{2, 3}, {2, 4}, {1, 2}, {3, 5}, {4, 6}, {1, 7}} // of prompts and completions: the first four share a window
	apart := Rows{Count: len(lengths), Beside: map[string][]float32{InputGood: {1, 0, 0, 1, 1, 0}}}
	apart.Tokens, apart.Labels = make([]int32, apart.Count*seq), slices.Repeat([]int32{graph.IgnoreLabel}, apart.Count*seq)
	places := Objective{Packed: true}.PerWindow(seq)
	packed := Rows{Count: windows, Tokens: make([]int32, windows*seq), Labels: slices.Repeat([]int32{graph.IgnoreLabel}, windows*seq), Positions: make([]int32, windows*seq)}
	packed.Beside = map[string][]float32{InputGood: make([]float32, windows*places), InputReference: make([]float32, windows*places)}
	at, slot, end := 0, 0, 0
	for row, of := range lengths {
		if row == 4 {
			at, slot, end = seq, places, seq
		}
		for i := range of[0] + of[1] - 1 {
			from, to := row*seq+i, at+i
			apart.Tokens[from] = int32(random.IntN(19))
			if i >= of[0]-1 {
				apart.Labels[from] = int32(random.IntN(19))
			}
			packed.Tokens[to], packed.Labels[to], packed.Positions[to] = apart.Tokens[from], apart.Labels[from], int32(i)
		}
		reference := float32(-3 * random.Float64())
		apart.Beside[InputReference] = append(apart.Beside[InputReference], reference)
		packed.Beside[InputGood][slot], packed.Beside[InputReference][slot] = apart.Beside[InputGood][row], reference
		at, slot = at+of[0]+of[1]-1, slot+1
		for i := range (end+seq)/seq*seq - at { // behind it begins another document
			packed.Positions[at+i] = int32(i)
		}
	}
	params := map[string]*graph.Array{}
	for _, p := range lora.Params() {
		params[p.Path] = graph.NewArray(p.Shape)
		for i := range params[p.Path].Data {
			params[p.Path].Data[i] = 0.5 * random.NormFloat64()
		}
	}
	eval := func(t *testing.T, def Definition, o Objective, rows Rows) []*graph.Array {
		built, err := def.Build(rows.Count, seq, Options{Loss: true, Objective: o, Documents: o.Packed})
		require.NoError(t, err)
		in := o.Inputs(rows)
		require.NoError(t, in.Lacking)
		feeds := map[string]*graph.Array{InputLossScale: {Shape: []int{}, Data: []float64{1 / float64(in.Counts.Of)}}, InputPositions: arrayOf([]int{rows.Count, seq}, rows.Positions)}
		feeds[InputLabelScale] = &graph.Array{Shape: []int{}, Data: []float64{float64(in.Counts.Of) / float64(max(1, in.Counts.Labels))}}
		for path, values := range params {
			feeds[path] = values
		}
		feeds[InputTokens], feeds[InputLabels] = arrayOf([]int{rows.Count, seq}, in.Tokens), arrayOf([]int{rows.Count * seq}, in.Labels)
		for name, values := range in.Floats {
			feeds[name] = arrayOf([]int{len(values)}, values)
		}
		grads, err := graph.Gradients(built.Graph, built.Loss, built.Params)
		require.NoError(t, err)
		got, err := graph.Eval(built.Graph, feeds, append([]*graph.Value{built.Loss, built.Sums}, grads...)...)
		require.NoError(t, err)
		return got
	}
	for _, l := range losses {
		if !l.Packs {
			continue
		}
		numbers := map[string]float64{}
		for _, n := range l.Numbers {
			if numbers[n.Name] = 0.3; !n.Takes(0.3) {
				numbers[n.Name] = 0
			}
		}
		o, p := Objective{Loss: l.Name, Numbers: numbers}, Objective{Loss: l.Name, Numbers: numbers, Packed: true}
		for _, def := range []Definition{whole, lora} {
			t.Run(fmt.Sprint(l.Name, " ", len(AdapterParams(def)) > 0), func(t *testing.T) {
				want, got := eval(t, def, o, apart), eval(t, def, p, packed)
				for i := range want {
					assert.InDeltaSlice(t, want[i].Data, got[i].Data, 1e-9, i)
				}
				other := packed
				other.Beside = map[string][]float32{InputGood: packed.Beside[InputGood], InputReference: slices.Repeat([]float32{-9}, windows*places)}
				other.Labels = slices.Clone(packed.Labels)
				other.Labels[6] = (other.Labels[6] + 1) % 19
				assert.NotEqual(t, got[0].Data, eval(t, def, p, other)[0].Data)
			})
		}
	}

	assert.ErrorContains(t, Objective{Loss: "kto", Numbers: map[string]float64{"beta": 1}, Packed: true}.Validate(), "packed: found kto, wanted none of it: it looks at all completions of an update ahead")
	assert.ErrorContains(t, Objective{Packed: true}.Validate(), "packed: found the next token")
	o := Objective{Loss: "ipo", Numbers: map[string]float64{"beta": 1}, Packed: true}
	_, err = whole.Build(2, seq, Options{Loss: true, Objective: o})
	require.ErrorContains(t, err, "found packed completions in sequences of one document")
	assert.Equal(t, map[string]int{InputReference: places}, o.Beside(whole, seq, false))
	odd := Rows{Count: 1, Tokens: packed.Tokens[:seq], Labels: slices.Clone(packed.Labels[:seq]), Positions: packed.Positions[:seq]}
	odd.Labels[1], odd.Labels[2], odd.Labels[3] = graph.IgnoreLabel, graph.IgnoreLabel, graph.IgnoreLabel
	require.ErrorContains(t, o.Inputs(odd).Lacking, "batch: pair 0: found a completion without labels")
	odd.Positions = make([]int32, seq)
	odd.Labels = slices.Repeat([]int32{1}, seq)
	require.ErrorContains(t, o.Inputs(odd).Lacking, "batch: row 0: found more completions than 6, wanted at most so many in a window of 24 tokens")
}
