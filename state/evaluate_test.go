package state

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
	"gputrain/model"
	"gputrain/run/data"
	"gputrain/run/data/texts"
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
		c, err := texts.Open(t.Context(), texts.Config{Text: []string{path}, Context: testT})
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

// Of windows that overlap the loss is that of the definition in float64: every token but the first, behind what its window has before it.
func TestEvaluateStrided(t *testing.T) {
	const window, stride = 9, 4
	def, err := model.NewLlama(model.LlamaConfig{Layers: 2, Heads: 4, KVHeads: 2, Width: 16, HeadDim: 6, Vocab: testV, Context: 12})
	require.NoError(t, err)
	hosts := model.Init(def, 5)
	text := make([]byte, 31)
	for i := range text {
		text[i] = byte(i * i % testV)
	}
	path := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(path, text, 0o600))
	c, err := texts.Open(t.Context(), texts.Config{Text: []string{path}, Context: window})
	require.NoError(t, err)
	defer c.Close()
	e, err := data.NewEvaluation(data.Strided{Tokens: c.Train.(*data.Tokens), Stride: stride}, window, 3, 0)
	require.NoError(t, err)
	m, err := NewModel(gputest.Device(t), def, hosts)
	require.NoError(t, err)
	defer m.Release()
	r, err := m.Evaluate(t.Context(), e)
	require.NoError(t, err)
	want := 0.0
	for p := 1; p < len(text); p++ {
		begin := 0
		for begin+window <= p { // the first window that reaches it
			begin += stride
		}
		var before []int32
		for _, b := range text[begin:p] {
			before = append(before, int32(b))
		}
		logits, sum := evaluated(t, def, hosts, before), 0.0
		for _, l := range logits {
			sum += math.Exp(l)
		}
		want += math.Log(sum) - logits[text[p]]
	}
	assert.EqualValues(t, len(text)-1, r.Tokens)
	assert.InDelta(t, want/float64(len(text)-1), r.Loss, 1e-6, "of a loss around 2.7: roundings of f32")
}
