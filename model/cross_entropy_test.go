package model

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/graph"
)

// lossByHand is the loss of logits [rows, vocab] and its figures, as the equations have them; a change makes a wrong one.
func lossByHand(logits []float64, labels []int32, e, k float64, change string) (loss float64, figures [3]float64) {
	vocab, counted := len(logits)/len(labels), 0.0
	for i, label := range labels {
		if label == graph.IgnoreLabel {
			continue
		}
		counted++
		row := logits[i*vocab : (i+1)*vocab]
		lse, uniform, others := 0.0, 0.0, 0.0
		for _, z := range row {
			lse += math.Exp(z)
		}
		lse = math.Log(lse)
		for j, z := range row {
			uniform += (lse - z) / float64(vocab)
			if j != int(label) {
				others += (lse - z) / float64(vocab-1)
			}
		}
		nll := lse - row[label]
		figures[0], figures[1] = figures[0]+nll, figures[1]+lse*lse
		if slices.Index(row, slices.Max(row)) == int(label) {
			figures[2]++
		}
		switch change {
		case "", "all positions":
			loss += (1-e)*nll + e*uniform + k*lse*lse
		case "the label left out of the mean":
			loss += (1-e)*nll + e*others + k*lse*lse
		case "smoothing beside the label":
			loss += nll + e*uniform + k*lse*lse
		case "z not squared":
			loss += (1-e)*nll + e*uniform + k*lse
		case "z halved":
			loss += (1-e)*nll + e*uniform + k*lse*lse/2
		}
	}
	for i := range figures {
		figures[i] /= counted
	}
	if change == "all positions" {
		counted = float64(len(labels))
	}
	return loss / counted, figures
}

// TestCrossEntropyByHand holds the loss with options, and its figures, against the equations, for settings and networks of every kind: capped, tied, with labels
// that do not count; cut in two, each half divided by what counts in both; and sees that other equations come to other numbers.
func TestCrossEntropyByHand(t *testing.T) {
	gemma := readGolden(t, "gemma2_small")
	gpt2 := readGolden(t, "gpt2_tied")
	for _, c := range []struct {
		golden
		e, k float64
	}{{gemma, 0.1, 0.02}, {gemma, 0, 0.3}, {gpt2, 0.7, 0}, {gpt2, 1, 1e-4}, {gemma, 0, 0}} {
		o := Objective{Loss: CrossEntropy, Numbers: map[string]float64{"label_smoothing": c.e, "z_loss": c.k}}
		built, err := c.def.Build(c.Batch, c.SeqLen, Options{Loss: true, Logits: true, Objective: o})
		require.NoError(t, err)
		feeds := c.feeds(t, 1)
		labels := make([]int32, c.Batch*c.SeqLen)
		for i, label := range feeds[InputLabels].Data {
			labels[i] = int32(label)
			if i%3 == 1 {
				labels[i] = graph.IgnoreLabel
			}
		}
		feeds[InputLabels] = arrayOf([]int{len(labels)}, labels)
		counted := o.Inputs(Rows{Labels: labels}).Counts.Of
		feeds[InputLossScale].Data[0] = 1 / float64(counted)
		got, err := graph.Eval(built.Graph, feeds, built.Loss, built.Sums, built.Logits)
		require.NoError(t, err)
		want, figures := lossByHand(got[2].Data, labels, c.e, c.k, "")
		assert.InDelta(t, want, got[0].Data[0], 1e-12*math.Abs(want))
		told := o.Row().Figures([]float64{got[1].Data[0] / float64(counted), got[1].Data[1] / float64(counted), got[1].Data[2] / float64(counted)})
		assert.InDelta(t, figures[0], told["nll"], 1e-12)
		assert.InDelta(t, figures[1], told["z"], 1e-11)
		assert.InDelta(t, figures[2], told["token_accuracy"], 1e-12)
		assert.InDelta(t, math.Exp(figures[0]), told["perplexity"], 1e-9)
		for _, change := range []string{"the label left out of the mean", "smoothing beside the label", "z not squared", "z halved", "all positions"} {
			smooths := change == "the label left out of the mean" || change == "smoothing beside the label"
			if change != "all positions" && (smooths && c.e == 0 || !smooths && c.k == 0) {
				continue
			}
			other, _ := lossByHand(got[2].Data, labels, c.e, c.k, change)
			assert.Greater(t, math.Abs(other-want), 1e-5*want, change)
		}
		halves := 0.0
		for half := range 2 {
			some := slices.Clone(labels)
			for i := range some {
				if i%2 == half {
					some[i] = graph.IgnoreLabel
				}
			}
			feeds[InputLabels] = arrayOf([]int{len(some)}, some)
			part, err := graph.Eval(built.Graph, feeds, built.Loss)
			require.NoError(t, err)
			halves += part[0].Data[0]
		}
		assert.InDelta(t, want, halves, 1e-12*want)
	}
	assert.EqualError(t, Objective{Loss: CrossEntropy, Numbers: map[string]float64{"label_smoothing": 1.5}}.Validate(),
		"model: preference: label_smoothing: found 1.5, wanted a number from 0 to 1")
	assert.NotContains(t, Objectives(), CrossEntropy)
}
