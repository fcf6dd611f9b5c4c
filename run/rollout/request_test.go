package rollout

import (
	"errors"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Requests that are all there at the start get what callers get, in their order; one that cannot be answered is told, and others are.
func TestEach(t *testing.T) {
	requests := asked(40, 30, vocab)
	requests[7].Prompt, requests[20].Prompt = nil, make([]int32, 30)
	requests[1].Penalty = 1.5
	var wanted []Completion
	for i, r := range requests {
		if i == 7 || i == 20 {
			wanted = append(wanted, Completion{})
			continue
		}
		w := want(t, &fake{window: 30, logits: wild}, r)
		w.Prompt = i
		wanted = append(wanted, w)
	}
	for name, paging := range pagings {
		m, told := &fake{window: 30, logits: wild, paging: paging}, 0
		require.NoError(t, Each(t.Context(), m, 0, requests, func(i int, c Completion, err error) error {
			assert.Equal(t, told, i)
			told++
			if assert.Equal(t, wanted[i], c, name); i == 7 || i == 20 {
				assert.ErrorContains(t, err, "tokens, want 1 to 29")
			} else {
				assert.NoError(t, err)
			}
			return nil
		}), name)
		require.Len(t, requests, told)
	}
	broken := errors.New("no reader")
	err := Each(t.Context(), &fake{window: 30, logits: wild, paging: pagings["few"]}, 0, requests, func(i int, _ Completion, _ error) error {
		require.Zero(t, i)
		return broken
	})
	require.ErrorIs(t, err, broken)
	nan := &fake{window: 30, logits: func(cell) []float32 { return []float32{float32(math.NaN())} }}
	require.NoError(t, Each(t.Context(), nan, 0, requests[:1], func(_ int, _ Completion, err error) error {
		require.ErrorIs(t, err, ErrNotFinite)
		return nil
	}))
}

// The penalty is on the tokens of the prompt and on those drawn: a model that would say the same again and again does not.
func TestPenalty(t *testing.T) {
	same := &fake{window: 30, logits: func(cell) []float32 {
		out := make([]float32, vocab)
		copy(out, []float32{9, 8, 7, 6})
		return out
	}}
	for name, paging := range pagings {
		same.paging, same.pool = paging, nil
		all, err := Draw(t.Context(), Config{Tokens: 3, Rows: 4, Penalty: 9}, same, []Prompt{{[]int32{1}, 0, 2}}, nil)
		require.NoError(t, err)
		for _, one := range all {
			require.Equal(t, []int32{0, 2, 3}, one.Tokens, name)
		}
	}
}
