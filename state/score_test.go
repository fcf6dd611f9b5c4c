package state

import (
	"context"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/buffers"
	"gputrain/buffers/array"
	"gputrain/graph"
	"gputrain/internal/gputest"
	"gputrain/model"
)

// TestScoresAreThoseOfTheLoss compares what Scores gives of rows with the figures of the loss of the same rows, whatever is computed together.
func TestScoresAreThoseOfTheLoss(t *testing.T) {
	dev := gputest.Device(t)
	for _, c := range []struct {
		head    model.Head
		learned model.Objective
		figures func(given [][]float32, labels []int32) []float64 // Sums of the objective
	}{
		{model.Head{Kind: model.HeadScores, Labels: 1}, scored, func(given [][]float32, _ []int32) []float64 {
			mean, right, apart, most, least := 0.0, 0.0, 0.0, math.Inf(-1), math.Inf(1)
			for i := 0; i < len(given); i += 2 {
				chosen, rejected := float64(given[i][0]), float64(given[i+1][0])
				mean, apart = mean+(chosen+rejected)/2, apart+chosen-rejected
				most, least = max(most, chosen, rejected), min(least, chosen, rejected)
				if chosen > rejected {
					right++
				}
			}
			return []float64{mean, right, apart, most, -least}
		}},
		{model.Head{Kind: model.HeadScores, Labels: 5}, model.Objective{Loss: "classes"}, func(given [][]float32, labels []int32) []float64 {
			right := 0.0
			for i, scores := range given {
				best := 0
				for at, v := range scores {
					if v > scores[best] {
						best = at
					}
				}
				if int32(best) == labels[i] {
					right++
				}
			}
			return []float64{right}
		}},
		{model.Head{Kind: model.HeadVectors}, near, nearness},
		{model.Head{Kind: model.HeadVectors, Pooling: model.PoolingMean}, near, nearness},
	} {
		t.Run(c.learned.Loss+c.head.Pooling, func(t *testing.T) {
			config := tinyConfig(t)
			config.Definition, config.Objective = headed(t, c.head), c.learned
			b := headedBatch(8, max(1, c.head.Labels))
			var rows [][]int32
			var labels []int32
			for r := range b.Rows {
				for i := r * testT; i < (r+1)*testT; i++ {
					if b.Labels[i] != graph.IgnoreLabel {
						rows, labels = append(rows, b.Tokens[r*testT:i+1]), append(labels, b.Labels[i])
					}
				}
			}
			m, err := NewModel(dev, config.Definition, model.Init(config.Definition, 3))
			require.NoError(t, err)
			defer m.Release()
			given, err := m.Scores(t.Context(), rows, 8)
			require.NoError(t, err)
			require.NoError(t, m.Measure(c.learned, nil))
			require.NoError(t, m.passes.prepareEvaluation(t.Context(), b.Rows, testT))
			f := FeedOf(c.learned, b)
			require.NoError(t, f.Write(m.passes.evaluator.graph))
			require.NoError(t, m.passes.evaluator.run.Submit(t.Context()))
			raw, err := m.passes.evaluator.ring.Next(t.Context())
			require.NoError(t, err)
			sums := ParseBatchLoss(array.Decoded(buffers.F32, raw), c.learned, int(f.Counts.Of)).Sums
			for i, want := range c.figures(given, labels) {
				assert.InDelta(t, want, sums[i], 1e-4, c.learned.Row().Sums[i])
			}
			for _, batch := range []int{1, 3} {
				again, err := m.Scores(t.Context(), rows, batch)
				require.NoError(t, err)
				for i := range given {
					assert.InDeltaSlice(t, given[i], again[i], 1e-6)
				}
			}
		})
	}
}

// nearness are the sums of the loss of vectors, three of each row and one negative that is there.
func nearness(given [][]float32, _ []int32) []float64 {
	dot := func(a, b []float32) (sum float64) {
		for i := range a {
			sum += float64(a[i]) * float64(b[i])
		}
		return sum
	}
	var candidates [][]float32
	for _, at := range []int{1, 5, 2, 3, 6, 7} {
		candidates = append(candidates, given[at])
	}
	right, near := 0.0, 0.0
	for i, query := range [][]float32{given[0], given[4]} {
		own := dot(query, candidates[i])
		near += own
		best := true
		for _, c := range candidates {
			best = best && dot(query, c) <= own
		}
		if best {
			right++
		}
	}
	return []float64{right, near}
}

func TestScoresRefused(t *testing.T) {
	dev := gputest.Device(t)
	plain := tinyModel(t, 0)
	m, err := NewModel(dev, plain, model.Init(plain, 3))
	require.NoError(t, err)
	defer m.Release()
	_, err = m.Scores(t.Context(), [][]int32{{1}}, 1)
	require.ErrorContains(t, err, "that gives logits of tokens, wanted one with scores or vectors")
	def := headed(t, model.Head{Kind: model.HeadScores, Labels: 1})
	s, err := NewModel(dev, def, model.Init(def, 3))
	require.NoError(t, err)
	defer s.Release()
	for want, rows := range map[string][][]int32{
		"row 1: found 0 tokens, wanted 1 to the context":  {{1}, {}},
		"row 0: token 1: found -1, wanted 0 to":           {{1, -1}},
		"row 0: token 0: found 100000, wanted 0 to":       {{100000}},
		"row 0: found 100 tokens, wanted 1 to the contex": {make([]int32, 100)},
	} {
		_, err := s.Scores(t.Context(), rows, 2)
		require.ErrorContains(t, err, want)
	}
	_, err = s.Scores(t.Context(), [][]int32{{1}}, 0)
	require.ErrorContains(t, err, "batch: found 0")
	require.ErrorContains(t, s.Measure(model.Objective{Loss: "other"}, nil), "found \"other\"")
	none, err := s.Scores(t.Context(), nil, 2)
	require.NoError(t, err)
	assert.Empty(t, none)
	over, end := context.WithCancel(t.Context())
	end()
	_, err = s.Scores(over, [][]int32{{1}}, 2)
	require.ErrorIs(t, err, context.Canceled)
}
