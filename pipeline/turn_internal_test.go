package pipeline

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/data"
	"gputrain/state"
)

func TestTwoCallsAtOnce(t *testing.T) {
	s := &State{}
	require.NoError(t, s.turn.Take())
	_, err := s.TrainStep(t.Context(), data.Batch{})
	require.ErrorIs(t, err, state.ErrTwoCalls)
}
