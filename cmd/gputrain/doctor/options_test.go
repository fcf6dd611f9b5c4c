package doctor

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
	"gputrain/model"
)

// optionsCase is a golden model with options of the loss, whose losses and metrics are those of the twin.
func optionsCase(t *testing.T) (*goldenCase, *modelCase) {
	t.Helper()
	c, m := loadEmbeddedModel(t, "llama_gqa")
	m.learned = model.Objective{Loss: model.CrossEntropy, Numbers: map[string]float64{"label_smoothing": 0.2, "z_loss": 0.01}}
	m.metrics = &objectiveCase{}
	near := tolerance{RTol: 1e-5, ATol: 1e-6}
	m.Tolerance.Loss, m.metrics.Tolerance.Loss, m.metrics.Tolerances.GradNorm = near, near, tolerance{RTol: 1e-4}
	m.metrics.Tolerances.Metrics = map[string]tolerance{"nll": near, "z": near, "token_accuracy": {ATol: 1e-6}}
	twin := newTwinModel(t, m)
	m.Losses = nil
	for step := range m.Steps {
		b := m.batch(step)
		found, err := twin.learn(b)
		require.NoError(t, err)
		grads, err := twin.gradients()
		require.NoError(t, err)
		m.Losses = append(m.Losses, float64(found["loss"][0]))
		m.metrics.Metrics = append(m.metrics.Metrics, m.figures(b, found, grads))
	}
	return c, m
}

// TestOptionsOfTheLoss has the metrics of steps with options on a device and on two stages, and what a case must catch.
func TestOptionsOfTheLoss(t *testing.T) {
	devices := gputest.Several(t, 2)
	for _, row := range []struct {
		what   string
		stages int
		spoil  func(m *modelCase)
	}{
		{"", 1, func(*modelCase) {}},
		{"", 2, func(*modelCase) {}},
		{"another z", 1, func(m *modelCase) { m.metrics.Metrics[1]["z"][0] *= 1.001 }},
		{"another nll", 2, func(m *modelCase) { m.metrics.Metrics[2]["nll"][0] *= 1.001 }},
		{"another smoothing", 1, func(m *modelCase) { m.learned.Numbers["label_smoothing"] = 0.21 }},
		{"no z-loss", 2, func(m *modelCase) { m.learned.Numbers["z_loss"] = 0 }},
		{"a hit", 1, func(m *modelCase) { m.metrics.Metrics[0]["token_accuracy"][0] += 0.01 }},
	} {
		c, m := optionsCase(t)
		row.spoil(m)
		run, err := newModelRun(t.Context(), devices[:row.stages], m)
		require.NoError(t, err)
		seen := &comparison{}
		for step := range m.Steps {
			b := m.batch(step)
			found, err := run.learn(b)
			require.NoError(t, err)
			grads, err := run.gradients()
			require.NoError(t, err)
			require.NoError(t, m.metrics.compareMetrics(seen, step, m.figures(b, found, grads), false))
		}
		run.release()
		assert.Equal(t, row.what == "", !seen.failed, "%s on %d: %s", row.what, row.stages, seen.where)
		require.NoError(t, c.err)
	}
}
