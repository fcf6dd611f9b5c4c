//go:build unix

package safetensors_test

import (
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"gputrain/buffers/safetensors"
)

// A pipe to which nobody writes is refused, and not waited for.
func TestOpenRefusesAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.safetensors")
	require.NoError(t, syscall.Mkfifo(path, 0o666))
	_, err := safetensors.Open(path)
	require.ErrorContains(t, err, "wanted a regular file")
}
