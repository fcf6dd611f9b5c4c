package state

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/data"
	"gputrain/gpu/gputest"
)

// The result after n batches is that of a text of n batches, and whoever leaves the loop, or is told to, leaves a model that evaluates as before.
func TestEvaluationAsItGoes(t *testing.T) {
	s := create(t, gputest.Device(t), tinyConfig(t))
	const windows = 6 // of testT tokens
	text := make([]byte, windows*testT+1)
	for i := range text {
		text[i] = byte(i * i % testV)
	}
	evaluation := func(n int) *data.Evaluation {
		path := filepath.Join(t.TempDir(), "text")
		require.NoError(t, os.WriteFile(path, text[:n*testT+1], 0o666))
		c, err := data.Open(t.Context(), data.Config{Text: []string{path}, Context: testT})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, c.Close()) })
		e, err := data.NewEvaluation(c.Train, testT, 1, 0)
		require.NoError(t, err)
		return e
	}
	whole := evaluation(windows)
	n := 0
	for r, err := range s.Evaluations(t.Context(), whole) {
		require.NoError(t, err)
		n++
		assert.EqualValues(t, n*testT, r.Tokens)
		if n < windows { // the device has one batch more under way
			continue
		}
		last, err := s.Evaluate(t.Context(), whole)
		require.NoError(t, err)
		assert.Equal(t, last, r)
	}
	assert.Equal(t, windows, n)
	for leave := 1; leave <= windows; leave++ {
		want, err := s.Evaluate(t.Context(), evaluation(leave))
		require.NoError(t, err)
		n = 0
		for r, err := range s.Evaluations(t.Context(), whole) {
			require.NoError(t, err)
			if n++; n == leave {
				assert.Equal(t, want, r, "after %d batches", leave)
				break
			}
		}
		assert.Equal(t, leave, n)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	n = 0
	var last error
	for _, err := range s.Evaluations(ctx, whole) {
		n++
		last = err
		cancel(assert.AnError)
	}
	assert.Equal(t, 2, n, "a result, then the error")
	require.ErrorIs(t, last, assert.AnError)
	_, err := s.Evaluate(t.Context(), whole)
	require.NoError(t, err)
}
