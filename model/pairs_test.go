package model

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/graph"
)

// TestPairInputs has two pairs and the row of one, which does not count: what learns of each, and with which weight.
func TestPairInputs(t *testing.T) {
	const no = graph.IgnoreLabel
	tokens := []int32{1, 2, 3, 0, 1, 2, 0, 0, 6, 0, 0, 0, 6, 8, 9, 10, 1, 2, 3, 0, 0, 0, 0, 0}
	labels := []int32{no, 3, 4, no, no, 5, no, no, 7, no, no, no, 8, 9, 10, 11, no, 3, 4, no, no, no, no, no}
	counted := slices.Clone(labels)
	counted[17], counted[18] = no, no
	lacking := errors.New("batch: pair 2: found a completion without labels, wanted some in both")
	assert.Equal(t, batchInputs{
		Tokens: tokens, Labels: counted, Counts: Counts{Of: 2, Labels: 3}, Lacking: lacking, Floats: map[string][]float32{
			"weights": {0, 1, 1, 0, 0, 1, 0, 0, 1, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0}, "pairs": {1, 1, 0}, "shares": {0.5, 1, 1, 0.25, 0, 0}, "reference": nil, "matched": nil,
		},
	}, Objective{Loss: "sigmoid"}.Inputs(Rows{Tokens: tokens, Labels: labels, Count: 6}))
	learned := slices.Clone(counted)
	learned[0] = 2
	assert.Equal(t, batchInputs{
		Tokens: tokens, Labels: learned, Counts: Counts{Of: 2, Labels: 4}, Lacking: lacking, Floats: map[string][]float32{
			"weights": {0, 0.5, 0.5, 0, 0, 1, 0, 0, 1, 0, 0, 0, 0.25, 0.25, 0.25, 0.25, 0, 0, 0, 0, 0, 0, 0, 0}, "pairs": {1, 1, 0}, "shares": {0.5, 1, 1, 0.25, 0, 0}, "reference": nil, "matched": nil,
		},
	}, Objective{Loss: "orpo"}.Inputs(Rows{Tokens: tokens, Labels: labels, Count: 6}))
}

func TestObjectiveRefuses(t *testing.T) {
	for want, p := range map[string]Objective{
		`loss: found "simop", wanted one of `: {Loss: "simop"}, `, did you mean "simpo"?`: {Loss: "simop"},
		"beta: found 0, wanted a number above 0":                        {Loss: "simpo"},
		"label_smoothing: found 0.6, wanted a number from 0 to 0.5":     {Loss: "sigmoid", Numbers: map[string]float64{"beta": 1, "label_smoothing": 0.6}},
		"simpo_gamma: found 1, wanted none: sigmoid has no such number": {Loss: "sigmoid", Numbers: map[string]float64{"beta": 1, "simpo_gamma": 1}},
		"beta: found 1, wanted none: orpo has no such number":           {Loss: "orpo", Numbers: map[string]float64{"beta": 1, "orpo_lambda": 1}},
		"orpo_lambda: found -1, wanted a number above 0":                {Loss: "orpo", Numbers: map[string]float64{"orpo_lambda": -1}},
	} {
		require.ErrorContains(t, p.Validate(), want)
	}
	plain := byteGPT(t)
	adapted, err := WithLoRA(plain, LoRA{})
	require.NoError(t, err)
	mlp, err := NewMLP(MLPConfig{Sizes: []int{3, 4, 2}})
	require.NoError(t, err)
	simpo := Objective{Loss: "simpo", Numbers: map[string]float64{"beta": 1}}
	for want, build := range map[string]func() (*Built, error){
		"found batch 3, wanted an even number": func() (*Built, error) { return plain.Build(3, 2, Options{Loss: true, Objective: simpo}) },
		"found no loss, wanted one":            func() (*Built, error) { return plain.Build(2, 2, Options{Logits: true, Objective: simpo}) },
		"found sequences of documents": func() (*Built, error) {
			return plain.Build(2, 2, Options{Loss: true, Documents: true, Objective: simpo})
		},
		"found a network without tokens": func() (*Built, error) { return mlp.Build(2, 1, Options{Loss: true, Objective: simpo}) },
		"beta: found 0": func() (*Built, error) {
			return adapted.Build(2, 2, Options{Loss: true, Objective: Objective{Loss: "sigmoid"}})
		},
	} {
		_, err := build()
		require.ErrorContains(t, err, want)
	}
}

// TestCertainCompletion has finite odds, and gradients that are finite, where a completion is certain or can hardly be.
func TestCertainCompletion(t *testing.T) {
	b := &Builder{Graph: graph.New()}
	x := b.Input("x", graph.F32(4))
	y := b.logComplement(x)
	grads, err := graph.Gradients(b.Graph, b.Sum(b.softplus(y)), []*graph.Value{x})
	require.NoError(t, err)
	feeds := map[string]*graph.Array{"x": {Shape: []int{4}, Data: []float64{0, -1e-9, -0.5, -200}}}
	got, err := graph.Eval(b.Graph, feeds, y, grads[0])
	require.NoError(t, err)
	want := []float64{math.Log(2e-20), math.Log(1e-9), math.Log1p(-math.Exp(-0.5)), 0}
	assert.InDeltaSlice(t, want, got[0].Data, 1e-8)
	assert.InDelta(t, 0, got[1].Data[0], 1e-15)
}

// TestTelling knows a loss by its figures, of which the margin follows from the others.
func TestTelling(t *testing.T) {
	figures := Objective{Loss: "orpo"}.Row().Figures([]float64{3, 1, 0.5, -2, -4})
	assert.Equal(t, map[string]float64{"rewards_chosen": 3, "rewards_rejected": 1, "margin": 2, "accuracy": 0.5, "logps_chosen": -2, "logps_rejected": -4}, figures)
	assert.Equal(t, "pairs", Telling(figures).Counts)
	delete(figures, "accuracy")
	assert.Equal(t, "tokens", Telling(figures).Counts, "no loss has these")
	assert.Nil(t, nextToken.Figures(nil))
}
