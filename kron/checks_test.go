package kron

import (
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/internal/gputest"
)

func TestChecks(t *testing.T) {
	require.Len(t, Checks(), 12)
	gputest.Checks(t, Checks())
}
