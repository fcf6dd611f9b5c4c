package model

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/graph"
)

// drawnRows are three rows of four tokens, of which the second was cut off, with numbers beside them.
func drawnRows() Rows {
	const no = graph.IgnoreLabel
	return Rows{
		Tokens: []int32{1, 2, 3, 0, 1, 5, 0, 0, 6, 7, 8, 9}, Labels: []int32{no, 3, 4, no, 5, 2, no, no, 7, 8, 9, 1}, Count: 3,
		Beside: map[string][]float32{
			InputAdvantages: {1, -0.5, 0.25}, InputOld: {0, -1, -2, 0, -1, -1, 0, 0, -3, -1, -2, -1}, BesideTruncated: {0, 1, 0},
		},
	}
}

// TestDrawnInputs counts rows and tokens, with a row that was cut off and without it.
func TestDrawnInputs(t *testing.T) {
	rows := drawnRows()
	third, quarter := float32(0.5), float32(0.25)
	for _, c := range []struct {
		masks   float64
		counts  Counts
		weights []float32
		shares  []float32
	}{
		{0, Counts{Of: 3, Labels: 8}, []float32{0, 1, 1, 0, 1, 1, 0, 0, 1, 1, 1, 1}, []float32{third, third, quarter}},
		{1, Counts{Of: 3, Labels: 6}, []float32{0, 1, 1, 0, 0, 0, 0, 0, 1, 1, 1, 1}, []float32{third, 0, quarter}},
	} {
		o := Objective{Loss: "dapo", Numbers: map[string]float64{"temperature": 1, "mask_truncated_completions": c.masks}}
		assert.Equal(t, batchInputs{
			Tokens: rows.Tokens, Labels: rows.Labels, Counts: c.counts, Floats: map[string][]float32{
				"weights": c.weights, "shares": c.shares, "advantages": rows.Beside[InputAdvantages], "old": rows.Beside[InputOld], "reference": nil,
			},
		}, o.Inputs(rows))
		assert.Equal(t, map[string]int{"advantages": 1, "old": 4, "truncated": 1}, o.Beside(byteGPT(t), 4, false))
		o.Numbers["beta"] = 0.1
		assert.Equal(t, map[string]int{"advantages": 1, "old": 4, "truncated": 1, "reference": 4}, o.Beside(byteGPT(t), 4, false))
	}
	o := Objective{Loss: "dapo", Numbers: map[string]float64{"temperature": 1, "on_policy": 1}}
	assert.Equal(t, map[string]int{"advantages": 1, "old": 4, "truncated": 1}, o.Beside(byteGPT(t), 4, false))
	o.Numbers["skip_flat"], rows.Beside[InputAdvantages] = 1, []float32{0, -0.5, 0}
	in := o.Inputs(rows)
	assert.Equal(t, []float32{0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0}, in.Floats["weights"])
	assert.Equal(t, Counts{Of: 3, Labels: 8}, in.Counts, "the divisors are of all rows")
	assert.False(t, in.Idle)
	o.Numbers["mask_truncated_completions"] = 1
	assert.True(t, o.Inputs(rows).Idle, "the one with an advantage was cut")
	o.Numbers["beta"] = 0.1
	assert.False(t, o.Inputs(rows).Idle, "rows without an advantage have a divergence")
	assert.EqualValues(t, 3.0/8, Counts{Of: 3, Labels: 8}.LabelScale())
}

func TestDrawnRefuses(t *testing.T) {
	o := Objective{Loss: "grpo", Numbers: map[string]float64{"temperature": 1}}
	for want, spoil := range map[string]func(r Rows){
		"batch: row 1: found a completion without tokens, wanted at least one": func(r Rows) {
			r.Labels[4], r.Labels[5] = graph.IgnoreLabel, graph.IgnoreLabel
		},
		"batch: row 2: found NaN among advantages, wanted numbers":   func(r Rows) { r.Beside[InputAdvantages][2] = float32(math.NaN()) },
		"batch: row 0: found -Inf among old, wanted numbers from -1": func(r Rows) { r.Beside[InputOld][2] = float32(math.Inf(-1)) },
	} {
		rows := drawnRows()
		spoil(rows)
		require.ErrorContains(t, o.Inputs(rows).Lacking, want)
	}
	require.NoError(t, o.Inputs(drawnRows()).Lacking)
	for want, p := range map[string]Objective{
		"temperature: found 0, wanted a number above 0":                     {Loss: "dapo"},
		"epsilon: found 2, wanted a number from 0 to 1":                     {Loss: "dapo", Numbers: map[string]float64{"temperature": 1, "epsilon": 2}},
		"max_completion_length: found 0, wanted a whole number":             {Loss: "dr_grpo", Numbers: map[string]float64{"temperature": 1}},
		"max_completion_length: found 1.5, wanted a whole number":           {Loss: "dr_grpo", Numbers: map[string]float64{"temperature": 1, "max_completion_length": 1.5}},
		"mask_truncated_completions: found 2, wanted 0 or 1":                {Loss: "gspo", Numbers: map[string]float64{"temperature": 1, "mask_truncated_completions": 2}},
		"epsilon_high: found 0, wanted a number above 0":                    {Loss: "cispo", Numbers: map[string]float64{"temperature": 1}},
		"epsilon: found 0.2, wanted none: cispo has no such number":         {Loss: "cispo", Numbers: map[string]float64{"temperature": 1, "epsilon_high": 5, "epsilon": 0.2}},
		"max_completion_length: found 9, wanted none: dapo has no such":     {Loss: "dapo", Numbers: map[string]float64{"temperature": 1, "max_completion_length": 9}},
		"preference: found sequences of documents, wanted a sequence for e": {},
	} {
		err := p.Validate()
		if p.Loss == "" {
			_, err = byteGPT(t).Build(2, 2, Options{Loss: true, Documents: true, Objective: o})
		}
		require.ErrorContains(t, err, want)
	}
}

// TestDrawnFigures adds up the shares, and tells the losses by their figures.
func TestDrawnFigures(t *testing.T) {
	figures := Objective{Loss: "gspo"}.Row().Figures([]float64{2, 0.5, 0.125, 0.25, 0.1, 0.25, 0.75, -0.1})
	assert.Equal(t, map[string]float64{
		"entropy": 2, "kl": 0.5, "clip_low": 0.125, "clip_high": 0.25, "clip_region": 0.375, "old_difference": 0.1, "old_difference_rms": 0.5,
		"clip_high_max": 0.75, "clip_low_min": 0.1,
	}, figures)
	masked := Objective{Loss: "dapo"}.Row().Figures([]float64{0, 0, 0, 0, 0, 0, 0, float64(float32(nothing))})
	assert.NotContains(t, masked, "clip_low_min", "no row has tokens that count")
	assert.Equal(t, "completions", Telling(figures).Counts)
	capped := Objective{Loss: "cispo"}.Row().Figures([]float64{2, 0.5, 0.125, 0, 0})
	assert.Equal(t, map[string]float64{"entropy": 2, "kl": 0.5, "cispo_clip": 0.125, "old_difference": 0, "old_difference_rms": 0}, capped)
	assert.Equal(t, "cispo", Telling(capped).Name)
}

// A rank that no row of an update falls to has inputs of none.
func TestInputsOfNoRows(t *testing.T) {
	for _, name := range Objectives() {
		assert.NotPanics(t, func() { Objective{Loss: name}.Inputs(Rows{}) }, name)
		assert.Zero(t, Objective{Loss: name}.Inputs(Rows{}).Counts.Of, name)
	}
}
