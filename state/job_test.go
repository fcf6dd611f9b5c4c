package state

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// jobOf is the job of a configuration that has to be right.
func jobOf(t testing.TB, c Config) Job {
	j, err := NewJob(c)
	require.NoError(t, err)
	return j
}
