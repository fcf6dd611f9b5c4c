package pipeline_test

import (
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"gputrain/internal/schedule"
	"gputrain/run/data"
	"gputrain/run/data/texts"
	"gputrain/state"
)

// tokens is a text of n tokens, all in the vocabulary.
func tokens(t testing.TB, n int) *texts.Corpus {
	t.Helper()
	text := make([]byte, n)
	for i := range text {
		text[i] = byte((i*i + 3*i/5) % tinyVocab)
	}
	path := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(path, text, 0o666))
	c, err := texts.Open(t.Context(), texts.Config{Text: []string{path}, Tokens: "bytes", Validation: 0.5, Context: 4})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, c.Close()) })
	return c
}

// Losses of texts and logits of windows are those of one device, bit by bit, between steps too, which they do not change. The texts have fewer
// batches than are under way at once, as many, and more; the last batch is not full.
func TestEvaluationAndLogitsAreThoseOfOneDevice(t *testing.T) {
	devices := fleet(t, 3)
	for i, name := range []string{"gpt2 dropout", "llama tied", "llama"} {
		c := steep(families(t)[name], "adamw", `{}`, 2, 3)
		c.Evaluation, c.Sampling, c.Rows = c.Batch+i, true, 3
		with := batches(c, 3)
		for o, kind := range schedule.Names() {
			if !full() && o != (i+2)%3 {
				continue
			}
			t.Run(name+"/"+kind, func(t *testing.T) {
				whole, err := state.Create(t.Context(), devices[0], c)
				require.NoError(t, err)
				defer whole.Release()
				s := create(t, devices, order(t, c, kind, 3))
				defer s.Release()
				require.Equal(t, whole.Window(), s.Window())
				seen, told := map[string]bool{}, map[string]bool{}
				for _, b := range with {
					for _, n := range []int{11, 130, 170} {
						text := tokens(t, n).Validation
						e, err := data.NewEvaluation(text, 4, c.Evaluation, 0)
						require.NoError(t, err)
						want, err := whole.Evaluate(t.Context(), e)
						require.NoError(t, err)
						got, err := s.Evaluate(t.Context(), e)
						require.NoError(t, err)
						require.Equal(t, want, got)
						seen[fmt.Sprint(want)] = true
						require.Equal(t, results(t, whole.Evaluations(t.Context(), e)), results(t, s.Evaluations(t.Context(), e)))
					}
					for _, window := range [][]int32{{5}, {5, 7, 1}, {28, 0, 3, 3}} {
						want, err := whole.Logits(t.Context(), window)
						require.NoError(t, err)
						got, err := s.Logits(t.Context(), window)
						require.NoError(t, err)
						require.Equal(t, want, got)
						seen[fmt.Sprint(want)] = true
						for n := len(window); n < 4; n++ {
							want, err := whole.Decode(t.Context(), int32(n))
							require.NoError(t, err)
							got, err := s.Decode(t.Context(), int32(n))
							require.NoError(t, err)
							require.Equal(t, want, got)
							seen[fmt.Sprint(want)] = true
						}
						_, err = s.Decode(t.Context(), 1)
						require.ErrorContains(t, err, "window: full with 4 tokens")
					}
					rows := inRows(t, whole)
					require.Equal(t, rows, inRows(t, s))
					told[fmt.Sprint(rows)] = true
					want, got := learn(t, whole, []data.Batch{b}), learn(t, s, []data.Batch{b})
					require.Equal(t, want, got)
					_, err := s.Decode(t.Context(), 1)
					require.ErrorIs(t, err, state.ErrNoWindow, "the parameters have changed")
				}
				assert.Len(t, seen, 10*len(with), "different texts, windows and steps")
				assert.Len(t, told, len(with))
			})
		}
	}
}

// inRows are logits of three rows, of which two go on behind the same tokens.
func inRows(t testing.TB, s rowReader) []float32 {
	p := s.Paging()
	require.Equal(t, state.Paging{Rows: 3, Blocks: 3, Size: 16, Entries: 1, Fill: 64}, p)
	fill := state.Places{Tokens: make([]int32, 64), Rows: slices.Repeat([]int32{-1}, 64), Positions: make([]int32, 64), Table: []int32{2, 0, 1}}
	for i := range int32(4) {
		fill.Tokens[9*i], fill.Rows[9*i], fill.Positions[9*i] = 3+5*(i%2), i/2, i%2
	}
	assert.NoError(t, s.Fill(t.Context(), fill))
	step := state.Places{Tokens: []int32{7, 28, 0}, Rows: []int32{0, 1, -1}, Positions: []int32{2, 2, 0}, Table: fill.Table}
	logits, err := s.Advance(t.Context(), step)
	assert.NoError(t, err)
	assert.Len(t, logits, 3*tinyVocab)
	return logits[:2*tinyVocab] // an empty place has any
}

// rowReader continues several texts.
type rowReader interface {
	Paging() state.Paging
	Fill(ctx context.Context, p state.Places) error
	Advance(ctx context.Context, p state.Places) ([]float32, error)
}

// results are all that an evaluation hands out, at least one.
func results(t *testing.T, all iter.Seq2[state.EvalResult, error]) (out []state.EvalResult) {
	for r, err := range all {
		require.NoError(t, err)
		out = append(out, r)
	}
	require.NotEmpty(t, out)
	return out
}

// What cannot be evaluated is refused, and an evaluation that is called off leaves the state as it was.
func TestEvaluationsRefused(t *testing.T) {
	devices := fleet(t, 2)
	c := steep(families(t)["llama"], "sgd", `{}`, 2, 2)
	text := tokens(t, 130).Validation
	e, err := data.NewEvaluation(text, 4, c.Batch, 0)
	require.NoError(t, err)
	plain := create(t, devices, order(t, c, schedule.GPipe, 2))
	defer plain.Release()
	_, err = plain.Evaluate(t.Context(), e)
	require.EqualError(t, err, "state: evaluate: the configuration has no evaluation")
	_, err = plain.Logits(t.Context(), []int32{1})
	require.EqualError(t, err, "state: logits: the configuration has no sampling by prefill")

	c.Evaluation, c.Sampling = c.Batch, true
	s := create(t, devices, order(t, c, schedule.GPipe, 2))
	defer s.Release()
	want, err := s.Evaluate(t.Context(), e)
	require.NoError(t, err)
	for _, window := range [][]int32{nil, {1, 2, 3, 4, 5}} {
		_, err = s.Logits(t.Context(), window)
		require.EqualError(t, err, fmt.Sprintf("state: logits: window: found %d tokens, wanted 1 to 4", len(window)))
	}
	_, err = s.Decode(t.Context(), 1)
	require.ErrorIs(t, err, state.ErrNoWindow)
	_, err = s.Logits(t.Context(), []int32{tinyVocab})
	require.EqualError(t, err, "state: logits: token id at position 0: 29, want 0 to 28")
	other, err := data.NewEvaluation(text, 4, c.Batch+1, 0)
	require.NoError(t, err)
	_, err = s.Evaluate(t.Context(), other)
	require.ErrorContains(t, err, "batch 0: 3 rows of 12 tokens in all, want 2 rows of 4")
	over, cancel := context.WithCancelCause(t.Context())
	cancel(assert.AnError)
	_, err = s.Evaluate(over, e)
	require.ErrorIs(t, err, assert.AnError)
	got, err := s.Evaluate(t.Context(), e)
	require.NoError(t, err)
	assert.Equal(t, want, got)
	bad := batch(c, 0)
	bad.Tokens[7] = -1
	_, err = s.TrainStep(t.Context(), bad)
	require.EqualError(t, err, "state: step 1: batch: row 1: token 3: found -1, wanted 0 to 28")
	learn(t, s, batches(c, 1))
}
